---@meta bee.epoll
-- Definitions of `bee.epoll` for the Lua language server; docs/build.lua makes docs/api/bee.epoll.md of them.

---epoll(7)'s words on lio's selector. Times are milliseconds. What is reported is `EPOLLIN`, `EPOLLOUT`,
---`EPOLLRDHUP`, `EPOLLHUP` and `EPOLLERR`; `EPOLLET` and `EPOLLONESHOT` do what they do in epoll; the
---other names exist so that programs that mention them load, and are never reported. After `close` every call
---returns nil and a message.
---@class bee.epoll
---@field EPOLLIN integer readable
---@field EPOLLOUT integer writable
---@field EPOLLRDHUP integer the peer has ended its side
---@field EPOLLHUP integer hang-up
---@field EPOLLERR integer error
---@field EPOLLET integer edge-triggered
---@field EPOLLONESHOT integer one event, then silence until `event_mod`
---@field EPOLLPRI integer never reported
---@field EPOLLRDNORM integer never reported
---@field EPOLLRDBAND integer never reported
---@field EPOLLWRNORM integer never reported
---@field EPOLLWRBAND integer never reported
---@field EPOLLMSG integer never reported
---@field EPOLLEXCLUSIVE integer has no effect
---@field EPOLLWAKEUP integer has no effect
local epoll = {}

---Makes an epoll.
---@param max_events integer how many events one wait takes from the system, 1 and up
---@return bee.Epoll? epoll
---@return string? message
---@return string? code `"EINVAL"` when `max_events` is below 1
function epoll.create(max_events) end

---An epoll.
---@class bee.Epoll
local Epoll = {}

---Registers a descriptor.
---@param fd lio.Descriptor
---@param events integer a sum of the module's bits
---@param udata? any default `fd`
---@return true? ok
---@return string? message
---@return string? code
function Epoll:event_add(fd, events, udata) end

---Changes what is asked for, and the udata when one is given.
---@param fd lio.Descriptor
---@param events integer a sum of the module's bits
---@param udata? any
---@return true? ok
---@return string? message
---@return string? code
function Epoll:event_mod(fd, events, udata) end

---Forgets a descriptor.
---@param fd lio.Descriptor
---@return true? ok
---@return string? message
---@return string? code
function Epoll:event_del(fd) end

---`for udata, events in e:wait(milliseconds) do`: blocks until something is ready, then yields each ready
---registration once.
---@param milliseconds? number absent or negative: for ever; 0: poll
---@return (fun(): any, integer)? iterator udata and bits
---@return string? message when the epoll is closed
---@return string? code `"EBADF"`
function Epoll:wait(milliseconds) end

---Gives everything back.
---@return true? ok
---@return string? message when it is closed already
---@return string? code `"EBADF"`
function Epoll:close() end

return epoll
