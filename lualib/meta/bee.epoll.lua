---@meta bee.epoll
-- Definitions of `bee.epoll` for the Lua language server. docs/build.lua generates docs/api/bee.epoll.md from them.

---The calls of epoll(7), on top of lio's selector. Timeouts are in milliseconds. `wait` reports `EPOLLIN`, `EPOLLOUT`,
---`EPOLLRDHUP`, `EPOLLHUP` and `EPOLLERR`; `EPOLLET` and `EPOLLONESHOT` work as in epoll. The other names are defined
---so that programs that use them can run; `wait` never reports them. After `close` every call returns nil, a message
---and `"EBADF"`. Misuse, such as an argument of the wrong type, raises.
---@class bee.epoll
---@field EPOLLIN integer readable
---@field EPOLLOUT integer writable
---@field EPOLLRDHUP integer the peer has shut down its sending side
---@field EPOLLHUP integer hang-up
---@field EPOLLERR integer error
---@field EPOLLET integer edge-triggered
---@field EPOLLONESHOT integer after one event, no further event until the next `event_mod`
---@field EPOLLPRI integer never reported
---@field EPOLLRDNORM integer never reported
---@field EPOLLRDBAND integer never reported
---@field EPOLLWRNORM integer never reported
---@field EPOLLWRBAND integer never reported
---@field EPOLLMSG integer never reported
---@field EPOLLEXCLUSIVE integer has no effect
---@field EPOLLWAKEUP integer has no effect
local epoll = {}

---Creates an epoll object.
---@param max_events integer maximum number of events per wait, 1 or more; values above 65536 count as 65536
---@return bee.Epoll? epoll
---@return string? message
---@return string? code `"EINVAL"` if `max_events` is below 1
function epoll.create(max_events) end

---An epoll object. `<close>` and the collector close it.
---@class bee.Epoll
local Epoll = {}

---Registers a descriptor (epoll_ctl(2), `EPOLL_CTL_ADD`). Refuses a regular file or directory with `"denied"`.
---@param fd lio.Descriptor
---@param events integer a sum of the module's `EPOLL…` constants
---@param udata? any the value that `wait` yields for the descriptor; default `fd`
---@return true? ok
---@return string? message
---@return string? code `"exists"`: already registered; `"closed"`: `fd` is closed; `"denied"`
function Epoll:event_add(fd, events, udata) end

---Changes the events of a registration, and its udata if one is given (epoll_ctl(2), `EPOLL_CTL_MOD`).
---@param fd lio.Descriptor
---@param events integer a sum of the module's `EPOLL…` constants
---@param udata? any default: no change
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Epoll:event_mod(fd, events, udata) end

---Removes a registration (epoll_ctl(2), `EPOLL_CTL_DEL`).
---@param fd lio.Descriptor
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Epoll:event_del(fd) end

---`for udata, events in e:wait(milliseconds) do`: blocks until a registration is ready or the timeout has passed, then
---yields each ready registration once. Raises if nothing is registered and no timeout is given. Also raises if called
---inside the loop over an earlier wait of the same object.
---@param milliseconds? number absent or negative: no timeout; 0: returns at once
---@return (fun(): any, integer)? iterator yields udata and event bits
---@return string? message if the epoll object is closed
---@return string? code `"EBADF"`
function Epoll:wait(milliseconds) end

---Closes the epoll object and releases its registrations.
---@return true? ok
---@return string? message if it is already closed
---@return string? code `"EBADF"`
function Epoll:close() end

return epoll
