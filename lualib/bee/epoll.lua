-- `require "bee.epoll"`: bee's functions for epoll(7), implemented with lio's selector. Times are in milliseconds.
-- EPOLLPRI and the other rare flags are defined, but `wait` reports only IN, OUT, RDHUP, HUP and ERR.

local lio = require "lio"
local object = require "bee.object"

local dressed = object("bee.epoll", {
  event_add = "_epoll_add",
  event_mod = "_epoll_mod",
  event_del = "_epoll_del",
  wait = "_epoll_wait",
  close = "_epoll_close",
})

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

-- `epoll.create(max_events)` returns an epoll object, or nil, message, code. Each `wait` gets at most `max_events`
-- events from the system.
function M.create(...)
  local max_events = math.tointeger((...))
  if not max_events then
    local given = ...
    local what = "number has no integer representation"
    if not tonumber(given) then
      what = "number expected, got " .. (select("#", ...) == 0 and "no value" or type(given))
    end
    error("bad argument #1 to 'create' (" .. what .. ")", 2)
  end
  if max_events <= 0 then return nil, "maxevents is less than or equal to zero.", "EINVAL" end
  local selector, message, code = lio.create(math.min(max_events, 65536))
  if not selector then return nil, message, code end
  return dressed(selector)
end

return M
