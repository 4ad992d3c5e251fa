-- `lio.net` in a service that has no loop: the same calls and connections, which send requests to a service that has a
-- loop (lio/service.lua). `require "lio.net.remote" (io)`, or `net.remote(io)`, returns the calls. The files in remote/
-- define the calls.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local objects = require "lio.net.remote.object"
local open = require "lio.net.remote.open"
local serve = require "lio.net.serve"
local use = require "lio.net.remote.use"

local MAX_ADDRESS <const> = 0xffffffff -- the largest address of a service

local function centiseconds(seconds)
  return math.max(0, math.ceil(seconds * 100))
end

-- The timers that servers (net/server.lua) need, implemented with ltask's timers.
local timers = {}

function timers:add(seconds, value)
  local timer = { value = value }
  ltask.timeout(centiseconds(seconds), function()
    if timer.value then timer.value:expired() end
  end)
  return timer, self
end

function timers:cancel(timer)
  timer.value = nil
  return self ~= nil
end

local function close(x)
  local class = getmetatable(x)
  if class ~= objects.Connection and class ~= objects.Listener and class ~= objects.Udp and class ~= open.Attempt then
    misuse.argument("close", 1, "connection, listener, datagram socket or attempt", x)
  end
  return x:close()
end

-- Maps the calls of `lio.net` that need a loop in this service to the alternatives that their error messages suggest.
local MISSING <const> = {
  bind = "net.listen opens a listener, and lio.socket a socket",
  broadcast = "call it in the service that owns the loop",
  on_transfer = "call it in the service that owns the loop",
  step = "the service that owns the loop calls it",
}

-- Returns the calls, which send requests to the service `io`.
local function new(io)
  local net = { close = close }
  for name, f in pairs(use) do net[name] = f end
  for name, instead in pairs(MISSING) do
    net[name] = function() misuse.raise(("net.%s: missing in net.remote; %s"):format(name, instead)) end
  end
  open.install(net, io)
  serve.install({
    net = net,
    timers = timers,
    scheduler = { fork = ltask.fork, wait = ltask.wait, wakeup = ltask.wakeup },
    sleep = function(_, seconds) ltask.sleep(centiseconds(seconds)) end,
    connection_kind = "remote connection",
    listener_kind = "remote listener",
  }, net)
  return net
end

local instances = {}

-- `remote([io])` returns the calls, which send requests to the service `io`; default: the unique service `lio`.
return function(io)
  if not ltask.call then misuse.raise "net.remote: works only inside a service" end
  if io == nil then io = ltask.uniqueservice "lio" end
  if math.type(io) ~= "integer" then misuse.argument("remote", 1, "service", io) end
  if io < 1 or io > MAX_ADDRESS then misuse.bad("remote", 1, ("service expected, got %d"):format(io)) end
  local net = instances[io]
  if not net then
    net = new(io)
    instances[io] = net
  end
  return net
end
