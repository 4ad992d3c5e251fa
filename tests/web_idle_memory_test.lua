-- A loop that becomes idle after a burst collects its garbage and returns the memory to the system.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"

local PROGRAM <const> = [[
require("lio.net.idle_memory").interval = 0.2
local web = require "lio.webserver"
local app = web.new()
local kept
app:get("/burst", function()
  local t = {}
  for i = 1, 200000 do t[i] = { tostring(i) } end
  assert(#t == 200000)
  return tostring(collectgarbage "count")
end)
app:get("/keep", function()
  kept = {}
  for i = 1, 200000 do kept[i] = { tostring(i) } end
  return tostring(collectgarbage "count")
end)
app:get("/memory", function()
  for line in io.lines "/proc/self/status" do
    local resident = line:match "^VmRSS:%s+(%d+) kB"
    if resident then return resident .. " " .. collectgarbage "count" end
  end
end)
app:post("/body", function(req) return tostring(#req:body()) end)
app:get("/stop", function() collectgarbage "stop" return "stopped" end)
app:run("127.0.0.1:0", { OPTIONS })
]]

-- Starts the program, and calls `f(get, port)`; `get(path)` returns the body of a response. `opts` as in `t.test`.
local function test(name, options, f, opts)
  t.test(name, function()
    local script = t.write(t.tmp() .. "/server.lua", (PROGRAM:gsub("OPTIONS", options)))
    local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
    local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
    loop.run(function()
      local c <close> = http.open(port)
      f(function(path) return c:ask(("GET %s HTTP/1.1\r\nHost: x\r\n\r\n"):format(path)).body end, port)
    end)
    child:kill()
    child:all()
    t.eq(child:close(), 0)
  end, opts)
end

-- Returns the resident memory of the process and the memory of its VM, in KiB.
local function memory(get)
  local resident, count = get("/memory"):match "^(%d+) ([%d.]+)$"
  return tonumber(resident), tonumber(count)
end

-- Sends `count` requests at the same time, each with a body of `size` bytes. Their last bytes are sent when the server
-- holds the rest of all bodies: `f()` is called before.
local function upload(port, count, size, f)
  local clients = {}
  for i = 1, count do
    clients[i] = http.open(port)
    clients[i]:send(("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"):format(size), ("x"):rep(size - 1))
  end
  f()
  for _, c in ipairs(clients) do
    c:send "x"
    t.eq(c:response("POST").body, tostring(size))
    c:close()
  end
end

-- Waits until the VM's memory is below `limit` KiB. Returns the resident memory.
local function await(get, limit)
  local deadline = loop.now() + 20
  while true do
    local resident, count = memory(get)
    if count < limit then return resident end
    t.ok(loop.now() < deadline, ("the VM still uses %.0f KiB"):format(count))
    loop.sleep(0.3)
  end
end

for _, case in ipairs { { "a program", "" }, { "a worker", "workers = 2" } } do
  test("the garbage of a burst is collected and returned to the system: " .. case[1], case[2], function(get)
    local before = memory(get)
    local peak = tonumber(get "/burst")
    t.ok(peak > 20000, peak)
    local after = await(get, peak / 4)
    t.ok(after < before + 12000, ("%.0f KiB before, %.0f after"):format(before, after))
  end, { resident = true })
end

-- Regression: only the memory of the VM was watched, which does not contain the bodies that a server receives.
-- A loop may be idle for a moment within the burst, so lio may leave 8 MiB of unused memory, and 8 MiB of garbage in
-- each VM; 4 MiB are for the rest, such as the listener's VM.
for _, case in ipairs { { "a program", "", 1 }, { "workers", "workers = 2", 2 } } do
  test("the memory of received bodies is returned to the system: " .. case[1], case[2], function(get, port)
    local before, peak = memory(get), nil
    local limit <const> = before + (8 + 8 * case[3] + 4) * 1024
    upload(port, 200, 400000, function() peak = memory(get) end)
    t.ok(peak > before + 60000, ("%.0f KiB before, %.0f at most"):format(before, peak))
    local deadline = loop.now() + 20
    while memory(get) > limit do
      t.ok(loop.now() < deadline, ("%.0f KiB before, %.0f at most, %.0f after"):format(before, peak, (memory(get))))
      loop.sleep(0.3)
    end
  end, { resident = true })
end

test("memory in use is not collected again and again", "", function(get)
  local peak = tonumber(get "/keep")
  -- The VM's memory grows by a few strings per request, until a collection.
  loop.sleep(1)
  local _, first = memory(get)
  for _ = 1, 5 do
    loop.sleep(0.3)
    local _, count = memory(get)
    t.ok(count >= first, "a collection has run")
    first = count
  end
  t.ok(first > peak / 2)
end)

test("nothing is collected while a program has stopped the collector", "", function(get)
  t.eq(get "/stop", "stopped")
  local peak = tonumber(get "/burst")
  loop.sleep(1)
  local _, count = memory(get)
  t.ok(count >= peak, count)
end)

t.finish()
