---@meta bee.socket
-- Definitions of `bee.socket` for the Lua language server. docs/build.lua generates docs/api/bee.socket.md from them.

---`lio.socket` with bee's calls. On failure, calls return an error code as a third result, which bee does not return.
---The differences from `lio.socket`: `fd` accepts any descriptor, `bind` removes the file of a stale unix socket, and
---the message for an unknown protocol is `invalid option`. The module can be called, as in older versions of bee:
---`socket "tcp"` is `socket.create "tcp"`.
---@class bee.socket: lio.socket
---@overload fun(protocol: lio.Protocol): lio.Socket?, string?, string?
local socket = {}

---Creates a socket. If a `"unix"` socket is bound to a path with a socket file that no socket uses any longer, `bind`
---removes the file first. If the file is in use or of another kind, `bind` leaves the file and fails with `"in use"`.
---Raises for an unknown protocol.
---@param protocol lio.Protocol
---@return lio.Socket? socket
---@return string? message
---@return string? code
function socket.create(protocol) end

---Creates an object for a descriptor that was opened elsewhere. A socket is made non-blocking and close-on-exec. A
---descriptor that is not a socket, such as that of `ltask.eventinit`, is left unchanged, and its object can be used
---with selectors, `handle`, `detach` and `close`. If the descriptor is the event descriptor of the running service,
---`close` leaves it open, because the scheduler owns it.
---@param handle lightuserdata|integer the descriptor
---@param no_ownership? boolean true: closing the object leaves the descriptor open; default false
---@return lio.Socket? socket
---@return string? message
---@return string? code `"EBADF"` if the descriptor is not open
function socket.fd(handle, no_ownership) end

return socket
