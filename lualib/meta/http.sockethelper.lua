---@meta http.sockethelper
-- Definitions of `http.sockethelper` for the Lua language server. docs/build.lua generates
-- docs/api/http.sockethelper.md from them.

---The functions of a socket that `http.httpd` and `http.httpc` use. The sockets are those of `skynet.socket`.
---@class http.sockethelper
---@field socket_error table the error of a connection that has ended; compare it with `==`
local sockethelper = {}

---Returns a function that reads: with a size exactly that many bytes, without a size the bytes that have arrived. It
---raises `socket_error` if the connection has ended.
---@param id integer
---@param before? string bytes that it returns first
---@return fun(size?: integer): string read
function sockethelper.readfunc(id, before) end

---Returns the rest of the connection: see `skynet.socket.readall`.
---@param id integer
---@return string|false bytes
function sockethelper.readall(id) end

---Returns a function that writes. It raises `socket_error` if the connection has ended.
---@param id integer
---@return fun(data: string) write
function sockethelper.writefunc(id) end

---Connects. Raises `socket_error` on failure, or when the time has passed.
---@param host string
---@param port integer
---@param timeout? integer centiseconds
---@return integer id
function sockethelper.connect(host, port, timeout) end

---Closes a socket: see `skynet.socket.close`.
---@param id integer
function sockethelper.close(id) end

---Closes a socket at once: see `skynet.socket.shutdown`.
---@param id integer
function sockethelper.shutdown(id) end

return sockethelper
