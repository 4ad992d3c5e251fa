---@meta lio.socket
-- Definitions of `lio.socket` for the Lua language server; docs/build.lua makes docs/api/lio.socket.md of them.

---@alias lio.Protocol "tcp"|"udp"|"tcp6"|"udp6"|"unix"

---@alias lio.Family "inet"|"inet6"

---The socket options. `reuseaddr`, `reuseport`, `nodelay`, `keepalive`, `broadcast` and `v6only` are
---flags; `sndbuf` and `rcvbuf` are bytes; `keepidle`, `keepintvl` and `linger` are whole seconds (`linger`
---false: off); `keepcnt`, `ttl` and `tos` are numbers; `notsent_lowat` (Linux) is how many bytes the system
---takes from a sender beyond those it could send already.
---@alias lio.Option
---| "reuseaddr"
---| "reuseport"
---| "nodelay"
---| "notsent_lowat"
---| "keepalive"
---| "broadcast"
---| "v6only"
---| "sndbuf"
---| "rcvbuf"
---| "linger"
---| "ttl"
---| "tos"
---| "keepidle"
---| "keepintvl"
---| "keepcnt"

---Non-blocking sockets. A call returns a value on success, `false` when it would block, and
---`nil, message, code` on failure; the message names the call and the system's text, the code is a short
---word: `"refused"`, `"reset"`, `"closed"`, `"timeout"`, `"in use"`, `"not available"`, `"denied"`,
---`"not found"`, `"unreachable"`, `"too long"`, `"EMFILE"` … Misuse raises.
---@class lio.socket
local socket = {}

---Makes a socket, non-blocking and close-on-exec.
---@param protocol lio.Protocol
---@return lio.Socket? socket
---@return string? message
---@return string? code
function socket.create(protocol) end

---Makes two connected unix stream sockets.
---@return lio.Socket? one
---@return lio.Socket|string other or the message, when it fails
---@return string? code
function socket.pair() end

---Makes a socket of a descriptor made elsewhere, which becomes non-blocking and close-on-exec.
---@param handle lightuserdata|integer the descriptor
---@param no_ownership? boolean true: closing the object leaves the descriptor open
---@return lio.Socket? socket
---@return string? message
---@return string? code
function socket.fd(handle, no_ownership) end

---Makes an address: `("inet", ip, port)`, `("inet6", ip, port)`, `("hostname", name, port [, family])` or
---`("unix", path)`. A host name is looked up while the thread waits. A path that begins with NUL is an
---abstract name.
---@param kind "inet"|"inet6"|"hostname"|"unix"
---@param address string numeric address (with scope: `fe80::1%eth0`), host name, or path of at most 107 bytes
---@param port? integer 0 to 65535; not for unix
---@param family? lio.Family for a host name: only this kind of address
---@return lio.Endpoint? endpoint
---@return string? message
---@return string? code `"unresolved"`, `"too long"`, `"EINVAL"` …
function socket.endpoint(kind, address, port, family) end

---Tells the host's name (gethostname(2)).
---@return string? name
---@return string? message
---@return string? code
function socket.gethostname() end

---Sets the permission bits of a unix socket's file (chmod(2)).
---@param path string
---@param mode integer 0 to 4095, such as `tonumber("660", 8)`
---@return true? ok
---@return string? message
---@return string? code
function socket.chmod(path, mode) end

---An address. Two of them are equal (`==`) when their addresses are; `tostring` gives `1.2.3.4:80`,
---`[::1]:80` or the path.
---@class lio.Endpoint
local Endpoint = {}

---Takes the address apart.
---@return string address ip, or path
---@return integer|"path"|"abstract"|"unnamed" port for unix: which kind of name it is; an abstract one begins with NUL
---@return lio.Family|"unix" family
function Endpoint:value() end

---A socket. Every method but `close` raises once it is closed; `<close>` and the collector close it, and
---selectors forget a closed socket.
---@class lio.Socket
local Socket = {}

---Connects to an endpoint, to host and port, or a unix socket to a path.
---@param host lio.Endpoint|string
---@param port? integer 0 to 65535
---@return boolean? connected true at once; false: in progress, writable when decided, see `status`
---@return string? message
---@return string? code
function Socket:connect(host, port) end

---Binds to an address, in the forms of `connect`.
---@param host lio.Endpoint|string
---@param port? integer 0 to 65535; 0: the system chooses, see `info`
---@return true? ok
---@return string? message
---@return string? code `"in use"`, `"denied"` …
function Socket:bind(host, port) end

---Begins to listen.
---@param backlog? integer 0 to 2147483647; default 1024
---@return true? ok
---@return string? message
---@return string? code
function Socket:listen(backlog) end

---Takes one waiting connection.
---@return lio.Socket|false|nil socket false when nobody is there
---@return string? message
---@return string? code `"EMFILE"` …; the listener stays usable
function Socket:accept() end

---Receives what is there. `nil` alone is the end of the stream; a datagram is cut to `max`.
---@param max? integer bytes, 0 and up; default 16384, never more than 1048576; 0 gives `""`
---@return string|false|nil data false when it would block
---@return string? message
---@return string? code
function Socket:recv(max) end

---Sends a string, or the part of it that `from` and `to` select as in `string.sub`.
---@param data string
---@param from? integer default 1
---@param to? integer default -1
---@return integer|false|nil sent bytes taken, may be fewer than given; false when it would block
---@return string? message
---@return string? code
function Socket:send(data, from, to) end

---Sends several strings in one system call (writev(2)); at most 64 that are not empty are handed over.
---@param ... string
---@return integer|false|nil sent bytes taken of all together; false when it would block
---@return string? message
---@return string? code
function Socket:sendv(...) end

---Receives one datagram. `""` is a datagram of length 0.
---@param max? integer bytes, 0 to 1048576; default 65535; a longer datagram is cut
---@return string|false|nil data false when it would block
---@return lio.Endpoint|string|nil from its sender; the message, when it fails
---@return string? code
function Socket:recvfrom(max) end

---Sends one datagram, to an endpoint or to host and port.
---@param data string
---@param host lio.Endpoint|string
---@param port? integer 0 to 65535
---@return integer|false|nil sent false when it would block
---@return string? message
---@return string? code
function Socket:sendto(data, host, port) end

---Ends one direction, or both.
---@param how? "r"|"w"|"rw" default both
---@return true? ok
---@return string? message
---@return string? code
function Socket:shutdown(how) end

---Tells, and takes, the pending error (SO_ERROR): whether a connect that was in progress failed.
---@return true? ok
---@return string? message
---@return string? code
function Socket:status() end

---Tells the address of either side.
---@param side "peer"|"socket"
---@return lio.Endpoint? endpoint
---@return string? message
---@return string? code
function Socket:info(side) end

---Sets an option when a value is given, else reads it.
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value what it is; true when it was set
---@return string? message
---@return string? code
function Socket:option(name, value) end

---Tells the descriptor.
---@return lightuserdata handle
function Socket:handle() end

---Gives the descriptor away: selectors forget it, and this object reads as closed.
---@return lightuserdata handle
function Socket:detach() end

---Closes the socket. Idempotent.
---@return true
function Socket:close() end

return socket
