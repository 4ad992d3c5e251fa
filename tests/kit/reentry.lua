-- Shared code of the re-entrancy suites: a finalizer that runs at each allocation during a call, and connections,
-- servers and requests whose methods are called.

local t = require "tests.kit"
local http = require "lio.http"
local lio = require "lio"
local socket = require "lio.socket"
local stream = require "lio.stream"

local is_54 <const> = _VERSION == "Lua 5.4"

local kit = {}

-- Stops the collector, and sets its parameters so that after a restart it runs a whole cycle at each allocation,
-- without a pause between cycles.
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

-- Sets the parameters of the collector so that it runs incrementally, with pauses.
function kit.collect_sometimes()
  if is_54 then
    collectgarbage("incremental", 200, 100, 13)
  else
    collectgarbage("param", "pause", 200)
    collectgarbage("param", "stepmul", 200)
  end
end

-- Calls `f(...)` and returns its results. At each allocation during the call, the collector runs `final` as a
-- finalizer.
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
    t.ok(runs > 0, "the finalizer has run during the call")
    t.is_nil(problem)
    return ...
  end
  kit.collect_always()
  arm()
  collectgarbage "restart"
  return restore(f(...))
end

-- Returns a stream on one end of a pair of sockets, the other end, and the stream's selector.
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

local selectors = setmetatable({}, { __mode = "k" })

-- Creates a server with one connection, whose peer has sent `bytes`. Returns the server, a function that closes all
-- objects, and the peer's socket.
function kit.server(routes, bytes)
  local s, far, sel = kit.connection()
  local server = http.server(SETTINGS, routes, sel)
  far:option("sndbuf", 400000)
  t.eq(far:send(bytes), #bytes)
  server:admit(s)
  selectors[server] = sel
  return server, function()
    server:close()
    kit.close(far, sel)
  end, far
end

-- Sets the server's callbacks, so that `handler(req, res)` handles each request.
function kit.set_callbacks(server, handler)
  server:set_callbacks {
    app_server = server,
    catch = debug.traceback,
    handlers = { handler, handler, handler },
    response_class = {},
    choose_handler = function() return handler end,
    complete = function() return true end,
    fail = function(_, problem) error(problem, 0) end,
    notify = function() end,
  }
end

-- Serves the requests that are ready, with `handler(req, res)`. `dispatcher` is a dispatcher of the server (default: a
-- new one).
function kit.serve(server, handler, dispatcher)
  kit.set_callbacks(server, handler)
  dispatcher = dispatcher or server:dispatcher()
  repeat
    http.serve(dispatcher)
    if not pcall(server.flush, server) then return end
    for _ in selectors[server]:wait(0) do end -- luacheck: ignore 542
  until not server:take_events()
end

-- Creates a server that receives the request `bytes`, with `f(req, server, far)` as the handler. Closes all objects and
-- returns the results of `f`.
function kit.handle(routes, bytes, f)
  local server, close, far = kit.server(routes, bytes)
  local results
  kit.serve(server, function(req)
    results = table.pack(f(req, server, far))
  end)
  close()
  return table.unpack(results, 1, results.n)
end

-- Returns the object of the request `bytes` after the request has been handled.
function kit.request(routes, bytes)
  return kit.handle(routes, bytes, function(req) return req end)
end

--- Closes all arguments.
function kit.close(...)
  for _, object in ipairs { ... } do
    local f = object.close or object.close_now
    f(object)
  end
end

return kit
