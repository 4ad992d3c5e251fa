-- The calls of a `lio.net.remote` instance that create an object (`listen`, `connect`, `attempt`, `udp`, `wrap`), the
-- calls for handles, and `resolve`.

local check_options <const> = require "lio.net.connect_options"
local ltask = require "ltask"
local misuse = require "lio.misuse"
local objects = require "lio.net.remote.object"
local requests = require "lio.net.remote.request"

local ask_for_new <const>, finish <const> = requests.ask_for_new, requests.finish
local Connection <const>, Listener <const>, Udp <const> = objects.Connection, objects.Listener, objects.Udp

local check_tls <const> = require "lio.net.remote.tls".check

local M = {}

-- The object with which another task can cancel a `connect`. `number` identifies the `connect` in the service that owns
-- the loop.
local Attempt = { __name = "lio.attempt" }
Attempt.__index = Attempt

M.Attempt = Attempt

local attempt_count = 0

function Attempt:close()
  self.closed = true
  if self.is_connecting then ltask.fork(pcall, ltask.call, self.io, "cancel", self.number) end
  return true
end

Attempt.__close = Attempt.close

-- Sends a request with a socket of this VM: the service takes over the socket's descriptor.
local function give_socket(io, socket, name, ...)
  if type(socket) ~= "userdata" or not socket.detach then misuse.argument(name, 1, "socket", socket) end
  local ok, descriptor = pcall(socket.detach, socket)
  if not ok then misuse.bad(name, 1, misuse.without_position(descriptor)) end
  local handle, message, code
  ok, handle, message, code = pcall(ltask.call, io, name, descriptor, ...)
  if not ok then
    require "lio.socket".fd(descriptor):close()
    return finish(io, false, handle)
  end
  return handle, message, code
end

-- Connects with an attempt. Another task may close the attempt meanwhile.
local function connect_attempt(io, addr, port, opts)
  local attempt = opts.attempt
  if attempt.closed then return false, "closed", "closed" end
  attempt.is_connecting = true
  local c, message, code = objects.new(Connection, io,
    ask_for_new(io, "connect", addr, port, { timeout = opts.timeout, tls = opts.tls, attempt = attempt.number }))
  attempt.is_connecting = false
  if c and attempt.closed then
    c:close()
    return false, "closed", "closed"
  end
  return c, message, code
end

local function check_handle(call, handle)
  if math.type(handle) ~= "integer" then misuse.argument(call, 1, "handle", handle) end
end

local function add_handle_calls(net, io)
  -- `net.connection(handle)` returns a connection for a handle that another service has given to this service.
  function net.connection(handle)
    check_handle("connection", handle)
    return objects.connection(io, handle)
  end

  -- `net.listener(handle)` returns a listener for a handle. The listener may belong to another service.
  function net.listener(handle)
    check_handle("listener", handle)
    return objects.new(Listener, io, handle)
  end
end

-- `install(net, io)`: adds the functions of this file to `net`, for the service `io`.
function M.install(net, io)
  add_handle_calls(net, io)

  function net.listen(addr, port, opts)
    if type(opts) == "table" then check_tls("net.listen: option 'tls'", opts.tls) end
    if type(addr) == "userdata" then
      return objects.new(Listener, io, give_socket(io, addr, "listen", port, opts))
    end
    return objects.new(Listener, io, ask_for_new(io, "listen", addr, port, opts))
  end

  function net.wrap(socket)
    return objects.new(Connection, io, give_socket(io, socket, "wrap"))
  end

  function net.attempt()
    attempt_count = attempt_count + 1
    return setmetatable({ io = io, number = attempt_count }, Attempt)
  end

  function net.connect(addr, port, opts)
    opts = check_options(opts)
    check_tls("net.connect: option 'tls'", opts.tls)
    if opts.attempt then return connect_attempt(io, addr, port, opts) end
    return objects.new(Connection, io, ask_for_new(io, "connect", addr, port, opts))
  end

  function net.udp(...)
    return objects.new(Udp, io, ask_for_new(io, "udp", ...))
  end

  function net.resolve(...)
    return finish(io, pcall(ltask.call, io, "resolve", ...))
  end
end

return M
