-- The server of mixed_load.lua: sends responses of every kind; has handlers that wait, fail, start threads and call
-- another service; and reports its memory. Arguments: the folder of static files, the number of workers.

local folder, workers = ...

local loop = require "lio.loop"
local thread = require "lio.thread"
local web = require "lio.webserver"

local LARGE <const> = ("0123456789abcdef"):rep(6400) -- 100 KiB

-- Returns the value `name` of `/proc/self/status`, in KiB.
local function status(name)
  local f <close> = assert(io.open "/proc/self/status")
  return tonumber(f:read "a":match(name .. ":%s*(%d+)"))
end

local app = web.new()

app:get("/", function() return "Hello, World!\n" end)
app:get("/users/:id/posts/:post", function(req) return { user = req.params.id, post = req.params.post } end)
app:get("/large", function() return LARGE end)
app:get("/wait", function()
  loop.sleep(0.001)
  return "late\n"
end)
app:get("/fail", function() error "as it should" end)
app:post("/echo", function(req) return (req:body()) end)
app:post("/mirror", function(req, res)
  for piece in req:stream() do
    if not res:write(piece) then return end
  end
end)
app:post("/form", function(req)
  local values, files = assert(req:form())
  return { value = values.value, size = files.upload.size }
end)
app:get("/pieces", function(_, res)
  for _ = 1, 10 do
    if not res:write(LARGE:sub(1, 1000)) then return end
  end
end)
app:get("/events", function(_, res)
  local events = res:sse()
  for i = 1, 5 do
    if not events:send("event " .. i) then return end
    loop.sleep(0.002)
  end
end)
-- Responds with the result of the thread that ends first; the other threads are killed.
app:get("/threads", function()
  local list = {}
  for i = 1, 5 do
    list[i] = function()
      loop.sleep(i == 3 and 0.001 or 60)
      return i
    end
  end
  local _, winner = thread.race(list)
  return tostring(winner)
end)
app:get("/generator", function()
  local sum = 0
  for n in coroutine.wrap(function() for i = 1, 20 do coroutine.yield(i) end end) do sum = sum + n end
  return tostring(sum)
end)
app:mount("/squeezed", (function()
  local inner = web.new()
  inner:use(web.compress())
  inner:get("/text", function() return LARGE end)
  return inner
end)())
app:static("/files", folder)
app:get("/memory", function()
  collectgarbage()
  return { resident = status "VmRSS", lua = collectgarbage "count" }
end)

app:run(0, { workers = tonumber(workers) })
