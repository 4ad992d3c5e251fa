-- Connections, listeners and datagram sockets of `lio.net.remote`. Each object has a handle in the service that owns
-- the loop. net/remote/use.lua defines the methods. Invariant: when an object is closed or collected, the service gets
-- a request that closes the handle; when a connection is closed, the tasks that wait in its `send` get "closed".

local ltask = require "ltask"
local misuse = require "lio.misuse"

local call <const>, fork <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wakeup

local Connection = { __name = "lio.remote connection" }
local Listener = { __name = "lio.remote listener" }
local Udp = { __name = "lio.remote udp" }

local M = { Connection = Connection, Listener = Listener, Udp = Udp }

-- `check(name, x, class, kind)`: raises unless `x`, the first argument of the call `name`, has the metatable `class`.
function M.check(name, x, class, kind)
  if getmetatable(x) ~= class then misuse.argument(name, 1, kind, x) end
end

-- `connection(io, handle)` returns a connection of the service `io`. `ahead` contains bytes that were read ahead; the
-- bytes from `ahead_at` on are unread. receive.lua and send.lua use the other fields.
function M.connection(io, handle)
  return setmetatable({ io = io, id = handle, readers = {}, outbox = {}, burst = 0 }, Connection)
end

-- `new(class, io, handle, message, code)` returns an object for the results of a request; if the request has failed,
-- `false, message, code`.
function M.new(class, io, handle, message, code)
  if not handle then return false, message, code end
  if class == Connection then return M.connection(io, handle) end
  return setmetatable({ io = io, id = handle }, class)
end

local function post_close(io, handle)
  -- If the mailbox of `io` is full, a new task sends the request, and waits until the mailbox accepts it.
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
  post_close(x.io, x.id)
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
    if not x.closed then pcall(fork, pcall, call, x.io, "close", x.id) end
  end

  function class:is_closed()
    M.check("is_closed", self, class, kind)
    return self.closed == true
  end

  function class:__tostring()
    local state = self.closed and "closed" or self.id .. " of service " .. self.io
    return kind .. " (" .. state .. ")"
  end
end

return M
