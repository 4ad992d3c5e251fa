-- What a service has of the one with the loop, by handle: connections, listeners and UDP sockets of
-- `lio.net.remote`, which gives them their methods. `require "lio.net.remote.handle" (ltask)` → the classes, and
-- `check`. Who closes or drops one tells the service; a connection's senders end with "closed".

local misuse = require "lio.misuse"

return function(ltask)
  local call <const>, fork <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wakeup

  local Connection = {}
  Connection.__index = Connection
  Connection.__name = "lio.remote connection"

  local Listener = {}
  Listener.__index = Listener
  Listener.__name = "lio.remote listener"

  local Udp = {}
  Udp.__index = Udp
  Udp.__name = "lio.remote udp"

  local function check(x, class, what, name)
    if getmetatable(x) ~= class then misuse.argument(name, 1, what, x) end
  end

  local function post_close(io, handle)
    -- A mailbox may be full; a request from a task of its own comes through.
    local ok, taken = pcall(ltask.send, io, "close", handle)
    if ok and taken ~= false then return end
    fork(pcall, call, io, "close", handle)
  end

  local function close(x)
    if x.closed then return true end
    x.closed = true
    x.data, x.outlet = nil, false
    if x.outbox then
      local left = x.outbox
      x.outbox = {}
      for _, one in ipairs(left) do wakeup(one, true, nil, "closed", 0, "closed") end
    end
    post_close(x.io, x.handle)
    return true
  end

  for _, class in ipairs { Connection, Listener, Udp } do
    local what = class.__name:match "%S+$"
    function class:close()
      check(self, class, what, "close")
      return close(self)
    end
    class.__close = close
    class.__gc = function(x)
      if not x.closed then pcall(fork, pcall, call, x.io, "close", x.handle) end
    end
    function class:is_closed()
      check(self, class, what, "is_closed")
      return self.closed == true
    end
    function class:__tostring()
      local state = self.closed and "closed" or self.handle .. " of service " .. self.io
      return what .. " (" .. state .. ")"
    end
  end

  return { Connection = Connection, Listener = Listener, Udp = Udp, check = check }
end
