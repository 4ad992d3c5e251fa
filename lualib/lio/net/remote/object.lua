-- Connections, listeners and datagram sockets of `lio.net.remote`: objects that have the handle of a service with a
-- loop. Their methods are those of net/remote/use.lua. Invariant: an object that is closed or collected sends the
-- service a request that closes the handle; the senders of a connection that is closed get "closed".

local ltask = require "ltask"
local misuse = require "lio.misuse"

local call <const>, fork <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wakeup

local Connection = { __name = "lio.remote connection" }
local Listener = { __name = "lio.remote listener" }
local Udp = { __name = "lio.remote udp" }

local M = { Connection = Connection, Listener = Listener, Udp = Udp }

-- `check(name, x, class, kind)`: raises unless the first argument of a call is of that class.
function M.check(name, x, class, kind)
  if getmetatable(x) ~= class then misuse.argument(name, 1, kind, x) end
end

-- `connection(io, handle)`: a connection of the service `io`. Its fields: `ahead`, bytes that were read ahead, from
-- `ahead_at` on; the others belong to receive.lua and send.lua.
function M.connection(io, handle)
  return setmetatable({ io = io, handle = handle, readers = {}, outbox = {}, burst = 0 }, Connection)
end

-- `new(class, io, handle, message, code)`: the object for the result of a request; `false, message, code` on failure.
function M.new(class, io, handle, message, code)
  if not handle then return false, message, code end
  if class == Connection then return M.connection(io, handle) end
  return setmetatable({ io = io, handle = handle }, class)
end

local function post_close(io, handle)
  -- A mailbox may be full; then a request by a new task waits for room.
  local ok, taken = pcall(ltask.send, io, "close", handle)
  if ok and taken ~= false then return end
  fork(pcall, call, io, "close", handle)
end

local function close(x)
  if x.closed then return true end
  x.closed = true
  x.ahead, x.writer = nil, false
  if x.outbox then
    local messages = x.outbox
    x.outbox = {}
    for _, message in ipairs(messages) do wakeup(message, true, nil, "closed", 0, "closed") end
  end
  post_close(x.io, x.handle)
  return true
end

for _, class in ipairs { Connection, Listener, Udp } do
  local kind = class.__name:match "%S+$"
  class.__index = class

  function class:close()
    M.check("close", self, class, kind)
    return close(self)
  end

  class.__close = close

  function class.__gc(x)
    if not x.closed then pcall(fork, pcall, call, x.io, "close", x.handle) end
  end

  function class:is_closed()
    M.check("is_closed", self, class, kind)
    return self.closed == true
  end

  function class:__tostring()
    local state = self.closed and "closed" or self.handle .. " of service " .. self.io
    return kind .. " (" .. state .. ")"
  end
end

return M
