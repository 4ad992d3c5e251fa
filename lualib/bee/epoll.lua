-- `require "bee.epoll"`: epoll(7)'s words on lio's selector. Times are milliseconds. EPOLLPRI and the
-- other rare bits are there as names; what is reported is IN, OUT, RDHUP, HUP and ERR.

local lio = require "lio"

local Epoll = {}
Epoll.__index = Epoll
Epoll.__name = "bee.epoll"

-- `e:event_add(fd, events [, udata = fd])` → true, or nil and a message.
function Epoll:event_add(fd, events, udata)
  return self.selector:epoll_add(fd, events, udata)
end

-- `e:event_mod(fd, events [, udata])` → true, or nil and a message.
function Epoll:event_mod(fd, events, udata)
  return self.selector:epoll_mod(fd, events, udata)
end

-- `e:event_del(fd)` → true, or nil and a message.
function Epoll:event_del(fd)
  return self.selector:event_del(fd)
end

-- `for udata, events in e:wait([milliseconds]) do`: absent or negative waits for ever.
function Epoll:wait(milliseconds)
  return self.selector:wait(milliseconds and milliseconds / 1000)
end

-- `e:close()` → true. Idempotent.
function Epoll:close()
  return self.selector:close()
end

Epoll.__close = Epoll.close

local M = {
  EPOLLIN = 0x001,
  EPOLLPRI = 0x002,
  EPOLLOUT = 0x004,
  EPOLLERR = 0x008,
  EPOLLHUP = 0x010,
  EPOLLRDNORM = 0x040,
  EPOLLRDBAND = 0x080,
  EPOLLWRNORM = 0x100,
  EPOLLWRBAND = 0x200,
  EPOLLMSG = 0x400,
  EPOLLRDHUP = 0x2000,
  EPOLLEXCLUSIVE = 1 << 28,
  EPOLLWAKEUP = 1 << 29,
  EPOLLONESHOT = 1 << 30,
  EPOLLET = 1 << 31,
}

-- `epoll.create(max_events)` → an epoll; `max_events` is how many events one wait takes from the system.
function M.create(max_events)
  if math.type(max_events) ~= "integer" then
    error("bad argument #1 to 'create' (integer expected)", 2)
  end
  if max_events <= 0 then
    return nil, "create: max_events must be at least 1", "EINVAL"
  end
  local selector, message, code = lio.create(math.min(max_events, 65536))
  if not selector then return nil, message, code end
  return setmetatable({ selector = selector }, Epoll)
end

return M
