---@meta lio.socket
-- Definitions of `lio.socket` for the Lua language server. docs/build.lua generates docs/api/lio.socket.md from them.

---@alias lio.Protocol "tcp"|"udp"|"tcp6"|"udp6"|"unix"

---@alias lio.Family "inet"|"inet6"

---The socket options (socket(7), tcp(7), ip(7), ipv6(7)). `reuseaddr`, `reuseport`, `nodelay`, `keepalive`, `broadcast`
---and `v6only` are booleans. `sndbuf` and `rcvbuf` are numbers of bytes. `keepidle`, `keepintvl` and `linger` are whole
---seconds; `linger` is false if the option is disabled. `keepcnt`, `ttl` and `tos` are integers. `notsent_lowat`
---(Linux) is the number of unsent bytes that the system accepts from a sender. A negative integer fails with
---`"EINVAL"`.
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

---Non-blocking sockets. A call returns a value on success, `false` if it would block, and `nil, message, code` on
---failure. The message contains the name of the call and the system's message. The code is a short word: `"refused"`,
---`"reset"`, `"closed"`, `"timeout"`, `"in use"`, `"not available"`, `"denied"`, `"not found"`, `"unreachable"`,
---`"too long"`, `"EMFILE"` … Misuse raises.
---@class lio.socket
local socket = {}

---Creates a socket that is non-blocking and close-on-exec (socket(2)).
---@param protocol lio.Protocol
---@return lio.Socket? socket
---@return string? message
---@return string? code
function socket.create(protocol) end

---Creates two connected unix stream sockets (socketpair(2)).
---@return lio.Socket? one
---@return lio.Socket|string other on failure the message
---@return string? code
function socket.pair() end

---Creates a socket object for a descriptor that was opened elsewhere. The descriptor is made non-blocking and
---close-on-exec.
---@param handle lightuserdata|integer the descriptor
---@param no_ownership? boolean true: closing the object leaves the descriptor open; default false
---@return lio.Socket? socket
---@return string? message
---@return string? code `"ENOTSOCK"`, `"EBADF"` …
function socket.fd(handle, no_ownership) end

---Creates an address: `("inet", ip, port)`, `("inet6", ip, port)`, `("hostname", name, port [, family])` or `("unix",
---path)`. While a host name is resolved (getaddrinfo(3)), the thread is blocked; the result is the first address. A
---path that begins with NUL is an abstract name.
---@param kind "inet"|"inet6"|"hostname"|"unix"
---@param address string numeric address (with scope: `fe80::1%eth0`), host name, or path of 1 to 107 bytes
---@param port? number 0 to 65535; not for unix
---@param family? lio.Family for a host name: accept only addresses of this family
---@return lio.Endpoint? endpoint
---@return string? message
---@return string? code `"unresolved"`, `"too long"`, `"EINVAL"` …
function socket.endpoint(kind, address, port, family) end

---Returns the host name of the system (uname(2)).
---@return string name
function socket.gethostname() end

---Sets the permission bits of a unix socket's file (chmod(2)).
---@param path string
---@param mode integer 0 to 4095, such as `tonumber("660", 8)`
---@return true? ok
---@return string? message
---@return string? code `"not found"`, `"denied"` …
function socket.chmod(path, mode) end

---An address. Two endpoints are equal (`==`) if their addresses are equal. `tostring` returns `1.2.3.4:80`, `[::1]:80`,
---the path, or `@name` for an abstract name.
---@class lio.Endpoint
local Endpoint = {}

---Returns the parts of the address.
---@return string address ip, or path; an abstract name begins with NUL
---@return integer|"path"|"abstract"|"unnamed" port for unix: the kind of the name
---@return lio.Family|"unix" family
function Endpoint:value() end

---A socket. If it is closed, every method except `close` raises. `<close>` and the collector close it; a selector
---removes the registration of a closed socket.
---@class lio.Socket
local Socket = {}

---Starts connecting to an endpoint, to a host and port, or, for a unix socket, to a path (connect(2)). If the
---connection is in progress, the socket becomes writable when the connection is established or has failed; `status`
---then returns the result. While a host name is resolved, the thread is blocked.
---@param host lio.Endpoint|string
---@param port? number 0 to 65535
---@return boolean? connected true: connected; false: in progress
---@return string? message
---@return string? code
function Socket:connect(host, port) end

---Binds to an address, in the forms of `connect` (bind(2)).
---@param host lio.Endpoint|string
---@param port? number 0 to 65535; 0: the system chooses a port, see `info`
---@return true? ok
---@return string? message
---@return string? code `"in use"`, `"denied"` …
function Socket:bind(host, port) end

---Starts listening (listen(2)).
---@param backlog? integer 0 to 2147483647; default 1024
---@return true? ok
---@return string? message
---@return string? code
function Socket:listen(backlog) end

---Accepts one waiting connection (accept(2)).
---@return lio.Socket|false|nil socket false if no connection is waiting
---@return string? message
---@return string? code `"EMFILE"` …; the listener stays usable
function Socket:accept() end

---Receives the bytes that are available, at most `max` (recv(2)). Returns nil alone at the end of a stream. A datagram
---longer than `max` is truncated.
---@param max? integer bytes, 0 or more; default 16384; values above 1048576 count as 1048576; 0 returns `""`
---@return string|false|nil data false if it would block
---@return string? message
---@return string? code
function Socket:recv(max) end

---Sends a string, or the part of it that `from` and `to` select as in `string.sub` (send(2)).
---@param data string
---@param from? integer default 1
---@param to? integer default -1
---@return integer|false|nil sent number of bytes sent, which may be less than given; false if it would block
---@return string? message
---@return string? code
function Socket:send(data, from, to) end

---Sends several strings in one system call (sendmsg(2)): at most the first 64 that are not empty.
---@param ... string
---@return integer|false|nil sent total number of bytes sent; false if it would block
---@return string? message
---@return string? code
function Socket:sendv(...) end

---Receives one datagram (recvfrom(2)). A datagram longer than `max` is truncated. `""` is a datagram of length 0. On a
---stream socket, the sender is nil, and the method returns nil alone at the end of the stream.
---@param max? integer bytes, 0 or more; default 65535; values above 1048576 count as 1048576
---@return string|false|nil data false if it would block
---@return lio.Endpoint|string|nil from the sender; on failure the message
---@return string? code
function Socket:recvfrom(max) end

---Sends one datagram to an endpoint, to a host and port, or, for a unix socket, to a path (sendto(2)). While a host
---name is resolved, the thread is blocked.
---@param data string
---@param host lio.Endpoint|string
---@param port? number 0 to 65535
---@return integer|false|nil sent number of bytes; false if it would block
---@return string? message
---@return string? code
function Socket:sendto(data, host, port) end

---Shuts down one direction, or both (shutdown(2)).
---@param how? "r"|"w"|"rw" default `"rw"`
---@return true? ok
---@return string? message
---@return string? code
function Socket:shutdown(how) end

---Returns and clears the pending error (`SO_ERROR`), such as the failure of a connect that was in progress.
---@return true? ok
---@return string? message
---@return string? code
function Socket:status() end

---Returns the address of the peer (getpeername(2)) or of this socket (getsockname(2)).
---@param side "peer"|"socket"
---@return lio.Endpoint? endpoint
---@return string? message
---@return string? code
function Socket:info(side) end

---Sets a socket option if a value is given (setsockopt(2)); otherwise reads the option (getsockopt(2)).
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value the option's value; true if it was set
---@return string? message
---@return string? code `"EINVAL"`, `"EOPNOTSUPP"` …
function Socket:option(name, value) end

---Returns the descriptor.
---@return lightuserdata handle
function Socket:handle() end

---Transfers the descriptor to the caller: removes it from all selectors and closes this object.
---@return lightuserdata handle the descriptor, which stays open
function Socket:detach() end

---Closes the socket. Idempotent.
---@return true
function Socket:close() end

return socket
