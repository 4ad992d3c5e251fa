-- What the re-entrancy suites share: a finalizer that runs at each allocation of a call, and connections to call on.

local t = require "tests.kit"
local http = require "lio.http"
local lio = require "lio"
local socket = require "lio.socket"
local stream = require "lio.stream"

local is_54 <const> = _VERSION == "Lua 5.4"

local kit = {}

-- Sets the collector so tense that it runs at each allocation once it is restarted: a step is a whole cycle, and one
-- follows the other.
function kit.collect_always()
  collectgarbage()
  collectgarbage "stop"
  if is_54 then
    collectgarbage("incremental", 1, 400, 40)
  else
    collectgarbage("param", "pause", 0)
    collectgarbage("param", "stepmul", 0)
  end
end

-- Sets it back.
function kit.collect_sometimes()
  if is_54 then
    collectgarbage("incremental", 200, 100, 13)
  else
    collectgarbage("param", "pause", 200)
    collectgarbage("param", "stepmul", 200)
  end
end

-- Calls `f` with the collector so tense that `final` runs, as a finalizer, at each allocation inside.
function kit.with_finalizer(final, f, ...)
  local runs, armed, problem = 0, true, nil
  local function arm()
    setmetatable({}, {
      __gc = function()
        if not armed then return end
        runs = runs + 1
        local done, message = pcall(final)
        problem = problem or not done and message or nil
        arm()
      end,
    })
  end
  local function restore(...)
    armed = false
    kit.collect_sometimes()
    t.ok(runs > 0, "the finalizer has run inside")
    t.is_nil(problem)
    return ...
  end
  kit.collect_always()
  arm()
  collectgarbage "restart"
  return restore(f(...))
end

-- A stream on one end of a pair, the other end, and the selector.
function kit.connection()
  local sel = assert(lio.create())
  local near, far = socket.pair()
  local s = assert(stream.new(sel, near))
  return s, far, sel
end

local SETTINGS <const> = {
  request_line = 200000, headers = 200000, fields = 100, header_time = 10, keep_alive_time = 60, body_time = 10,
  body_rate = 240, write_time = 30, connections = 10, requests = math.huge, body = 1 << 30,
}

-- A server with one connection, whose peer has sent `bytes`: what `lio.http` gives lualib/lio/web/connection.lua. → the
-- server; what closes all; the peer's end.
function kit.server(routes, bytes)
  local s, far, sel = kit.connection()
  local server = http.server(SETTINGS, routes, sel)
  far:option("sndbuf", 400000)
  t.eq(far:send(bytes), #bytes)
  server:admit(s)
  return server, function()
    server:close()
    kit.close(far, sel)
  end, far
end

-- Serves what is due: `handler(req, res)` handles each request.
function kit.serve(server, handler)
  local function no() end
  local handlers = { handler, handler, handler }
  http.serve(server:run(), server, server, debug.traceback, handlers, {}, function() return handler end,
    function(_, _, _, ok, problem)
      if not ok then error(problem, 0) end
      return true
    end, no, "code", "kind")
  server:flush()
end

-- Calls `f(server, id, req, far)` as the handler of the request that `bytes` are, and closes all. → what it returns.
function kit.handle(routes, bytes, f)
  local server, close, far = kit.server(routes, bytes)
  local results
  kit.serve(server, function(req)
    local _, id = http.head.owner(req)
    results = table.pack(f(server, id, req, far))
  end)
  close()
  return table.unpack(results, 1, results.n)
end

-- The request that `bytes` are, when it is over.
function kit.request(routes, bytes)
  return kit.handle(routes, bytes, function(_, _, req) return req end)
end

-- An exchange that has received `bytes`, which the peer has ended.
function kit.exchange(routes, bytes)
  -- Makes what is made once per VM, so that a call under test does not begin with that.
  http.escape " "
  local s, far, sel = kit.connection()
  far:option("sndbuf", 400000)
  t.eq(far:send(bytes), #bytes)
  return http.exchange(s, routes, 200000, 200000, 100), s, far, sel
end

-- The next request of `x`, all of which was sent.
function kit.next_request(x, sel)
  for _ = 1, 100 do
    local head = x:next()
    if head then return head end
    for _ in sel:wait(5) do -- luacheck: ignore 542
    end
  end
  error "no request came"
end

--- Closes or releases each of them.
function kit.close(...)
  for _, object in ipairs { ... } do
    local f = object.close or object.release
    f(object)
  end
end

return kit
