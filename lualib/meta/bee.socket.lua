---@meta bee.socket
-- Definitions of `bee.socket` for the Lua language server; docs/build.lua makes docs/api/bee.socket.md of them.

---`lio.socket` with bee's calls, and an error code as a third result that bee does not have. The differences:
---`fd` takes any descriptor, `bind` removes a stale unix socket, and an unknown protocol is an invalid option.
---The module may be called itself, as in older versions of bee: `socket "tcp"` is `socket.create "tcp"`.
---@class bee.socket: lio.socket
---@overload fun(protocol: lio.Protocol): lio.Socket?, string?, string?
local socket = {}

---Makes a socket. Binding a `"unix"` socket to a path first removes a socket file to which no process listens any
---more; a file of another kind, and the socket of a listening process, stay: then the address is in use.
---@param protocol lio.Protocol
---@return lio.Socket? socket
---@return string? message
---@return string? code
function socket.create(protocol) end

---Makes an object of any descriptor made elsewhere. A socket becomes non-blocking and close-on-exec. Another
---descriptor, such as that of `ltask.eventinit`, stays as it is, and its object is for selectors, `handle`,
---`detach` and `close`. `close` leaves the event descriptor of the running service open: it is the scheduler's.
---@param handle lightuserdata|integer the descriptor
---@param no_ownership? boolean true: closing the object leaves the descriptor open
---@return lio.Socket? socket
---@return string? message
---@return string? code
function socket.fd(handle, no_ownership) end

return socket
