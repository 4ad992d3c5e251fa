-- Requests that open a socket: `listen`, `connect`, `cancel`, `udp`, `wrap`. Part of lio/net/requests. Except for
-- `cancel`, each request returns a handle that belongs to the caller, or `false, message, code`.

local lio_socket = require "lio.socket"

local M = {}

local function close_attempt(attempt) attempt:close() end

-- Connects on behalf of a service. If the service dies, the connect ends.
local function connect_for(owner, net, addr, port, opts)
  local attempt = net.attempt()
  local name = opts and opts.attempt
  owner:add(attempt, close_attempt)
  owner.attempts = owner.attempts or {}
  if name then owner.attempts[name] = attempt end
  local ok, c, message, code = pcall(net.connect, addr, port,
    { attempt = attempt, timeout = opts and opts.timeout, tls = opts and opts.tls })
  owner:remove(attempt)
  if name then owner.attempts[name] = nil end
  if not ok then error(c, 0) end
  return c, message, code
end

-- `install(S, context)`: adds the requests of this file to `S`.
function M.install(S, context)
  local net <const>, handles <const> = context.net, context.handles

  -- Returns a handle for an object that a call has returned, or the failure of the call.
  local function register(owner, kind, object, message, code)
    if not object then return false, message, code end
    local handle
    handle, message, code = handles:register(owner, object, kind)
    return handle or false, message, code
  end

  -- `listen(addr, port [, opts])`. `addr` may be the descriptor of a listening socket (a lightuserdata), which this
  -- service takes over.
  function S.listen(addr, ...)
    local owner = handles:owner()
    if type(addr) == "userdata" then addr = assert(lio_socket.fd(addr)) end
    return register(owner, "listener", net.listen(addr, ...))
  end

  -- `connect(addr, port [, opts])`. `opts.attempt` is a name, by which the caller can `cancel` the connect.
  function S.connect(addr, port, opts)
    local owner = handles:owner()
    return register(owner, "connection", connect_for(owner, net, addr, port, opts))
  end

  -- `cancel(name)`: ends the caller's `connect` whose `opts.attempt` is `name`, with "closed". Returns whether there
  -- was such a `connect`.
  function S.cancel(name)
    local attempts = handles:owner().attempts
    local attempt = attempts and attempts[name]
    if attempt then attempt:close() end
    return attempt ~= nil
  end

  -- `udp([addr, port])`.
  function S.udp(...)
    local owner = handles:owner()
    return register(owner, "udp", net.udp(...))
  end

  -- `wrap(descriptor)`: takes over the descriptor of a connected socket (a lightuserdata).
  function S.wrap(descriptor)
    local owner = handles:owner()
    return register(owner, "connection", net.wrap(assert(lio_socket.fd(descriptor))))
  end
end

return M
