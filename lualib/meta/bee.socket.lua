---@meta bee.socket
-- Definitions of `bee.socket` for the Lua language server; docs/build.lua makes docs/api/bee.socket.md of them.

---`lio.socket` under bee's name: the same functions and the same sockets, with an error code as a third
---result that bee does not have. The module may be called itself, as older versions of bee have it:
---`socket "tcp"` is `socket.create "tcp"`.
---@class bee.socket: lio.socket
---@overload fun(protocol: lio.Protocol): lio.Socket?, string?, string?
local socket = {}

return socket
