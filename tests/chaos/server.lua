-- The application under test: `lio tests/chaos/server.lua FOLDER ADDR:PORT UPSTREAM SABOTAGE [SECONDS]`. Two web
-- workers share the services ledger.lua and upstream requests; handlers take uploads, send events and keep WebSocket
-- connections. FOLDER is the folder of the uploads, UPSTREAM the URL of another lio server, SABOTAGE a fault of
-- sabotage.lua or "none", SECONDS the limit for slow clients. Every response contains the id of its request. Also the
-- application of tests/soak.

local here = arg[0]:match "^(.*)/"
package.path = here .. "/?.lua;" .. package.path

local content = require "content"
local http = require "lio.http.client"
local loop = require "lio.loop"
local ltask = require "ltask"
local probe = require "probe"
local sabotage = require "sabotage"
local thread = require "lio.thread"
local uploads = require "uploads"
local web = require "lio.webserver"

local folder, address, upstream, fault, seconds = table.unpack(arg)
local SECONDS <const> = tonumber(seconds) or 3
sabotage.choose(fault)

local app = web.new {
  body = 16 * 1024 * 1024, header_time = SECONDS, body_time = SECONDS, write_time = SECONDS + 1,
  keep_alive_time = 3, grace = 3,
}

-- In a worker. The VM that starts the workers has no services.
local client
local function ledger() return ltask.uniqueservice("ledger", folder .. "/../journal") end
if web.worker() then
  client = http.new { timeout = SECONDS, connect_timeout = SECONDS - 1, max_idle = 4, idle_timeout = 2 }
  probe.install(app, client, ledger)
end

app:on_error(function(message) return 500, tostring(message):match "^[^\n]*" end)

app:get("/echo/:id", function(req)
  return content.of(req.params.id, math.tointeger(req.query.size)), { ["X-Id"] = req.params.id }
end)

-- Bodies that are held in memory until they have arrived.
app:post("/digest/:id", function(req)
  local body = req:body()
  if not body then return end
  sabotage.hoard(body)
  return { id = req.params.id, digest = content.digest(body) }
end)

-- Counts: acknowledged when the service has counted and the journal has been written.
app:post("/count/:id", function(req)
  local id = req.params.id
  if sabotage.strikes "forget" then return { id = id, value = 0 } end
  local value, message = ltask.call(ledger(), "count", id)
  if not value then return 503, message end
  if sabotage.strikes "twice" then ltask.call(ledger(), "count", id) end
  return { id = id, value = value }
end)

-- Services: a short-lived service waits with a timer, calls and sends.
app:get("/service/:id", function(req)
  local id = req.params.id
  local brief = ltask.spawn("brief", ledger())
  local killer <close> = setmetatable({}, { __close = function()
    if not sabotage.strikes "service" then ltask.kill(brief) end
  end })
  ltask.send(brief, "note", id)
  return { id = ltask.call(brief, "answer", id), from = brief, killer = killer and true }
end)

-- Memory: a service exceeds its limit. The error reaches the caller, and the service is then killed.
app:get("/memory/:id", function(req)
  local glutton = ltask.spawn "glutton"
  local ok, message = pcall(ltask.call, glutton, "fill")
  ltask.kill(glutton)
  if ok then return 500, "the memory limit has no effect" end
  local text = tostring(message):match "^[^\n]*"
  if not text:find "not enough memory" then return 503, text end
  return { id = req.params.id }
end)

-- Another server: the answer is passed on if it belongs to this request.
app:get("/upstream/:id", function(req)
  local id = req.params.id
  local res, message, code = client:get(upstream .. "/echo/" .. id .. "?size=2000")
  if not res then return 502, ("%s (%s)"):format(code, message) end
  if res.status == 200 and (res.headers["x-id"] ~= id or res.body ~= content.of(id, 2000)) then
    return 500, "the upstream answer belongs to another request"
  end
  return res.status == 200 and { id = id } or 502, res.status ~= 200 and "status " .. res.status or nil
end)

app:get("/events/:id", function(req, res)
  local id, count = req.params.id, math.tointeger(req.query.count)
  local events = res:sse { ping = 1 }
  for number = 1, count do
    if not (sabotage.strikes "gap" or events:send(id .. ":" .. number, "tick", tostring(number))) then return end
    loop.sleep(0.02)
  end
  events:send(id .. ":end")
end)

app:ws("/ws/:id", { ping = 1, timeout = SECONDS - 1 }, function(ws, req)
  local id = req.params.id
  local scope <close> = thread.scope()
  scope:spawn(function()
    local number = 0
    repeat
      number = number + 1
      loop.sleep(0.03)
    until not ws:send(("push:%s:%d"):format(id, number))
  end)
  for message in ws:messages() do
    if not ws:send("echo:" .. message) then break end
  end
end)

uploads.install(app, folder)
sabotage.install(app)
app:run(address, { workers = 2, watchdog = 4 })
