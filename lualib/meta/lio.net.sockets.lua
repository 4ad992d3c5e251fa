---@meta _
-- The objects in the definitions of `lio.net`. docs/build.lua generates docs/api/lio.net.sockets.md from them.
-- luacheck: no max comment line length

---Connections, listeners, datagram sockets, and servers.

---A connection. `<close>` closes it. The collector does not, as long as the loop exists.
---@class lio.Connection
local Connection = {}

---Receives bytes, in the forms of `net.recv`.
---@param what? integer|"line"|"until"|"all"
---@param limit? integer maximum number of bytes in the result, 0 or more; not for a number; default: no limit
---@return string? data
---@return string? message
---@return string? partial
---@return string? code
---@overload fun(self: lio.Connection, what: "until", delimiter: string, limit?: integer): string?, string?, string?, string?
function Connection:recv(what, limit) end

---Sends all strings; see `net.send`.
---@param ... string
---@return true? ok
---@return string? message
---@return integer? sent
---@return string? code
function Connection:send(...) end

---Sends a file; see `net.sendfile`.
---@param source string|lio.File|file*
---@param offset? integer bytes, 0 or more; default 0
---@param length? integer bytes, 0 or more; default: up to the end
---@return true? ok
---@return string? message
---@return integer? sent
---@return string? code
function Connection:sendfile(source, offset, length) end

---Closes the connection. Idempotent. Calls that wait on it fail with `"closed"`.
---@return true
function Connection:close() end

---Shuts down one direction or both, after the bytes that are being sent; see `net.shutdown`.
---@param how? "r"|"w"|"rw" default `"rw"`
---@return true? ok
---@return string? message
---@return string? code
function Connection:shutdown(how) end

---Sets how long one wait may last; see `net.timeout`.
---@param read_seconds? number nil: no timeout
---@param write_seconds? number nil: no timeout
---@return true? ok
---@return string? message
---@return string? code
function Connection:timeout(read_seconds, write_seconds) end

---Returns the address of the peer; see `net.peer`.
---@return string? address
---@return integer|string|nil port
---@return string? family
function Connection:peer() end

---Returns the address of this side; see `net.sock`.
---@return string? address
---@return integer|string|nil port
---@return string? family
function Connection:sock() end

---Sets a socket option if a value is given; otherwise reads the option.
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value
---@return string? message
---@return string? code
function Connection:option(name, value) end

---Waits until there may be something to read; see `net.wait_readable`.
---@param seconds? number
---@return true? ok
---@return string? message
---@return string? code
function Connection:wait_readable(seconds) end

---Waits until the peer has shut down its sending side or the connection has failed; see `net.wait_closed`.
---@param seconds? number
---@return true? ok
---@return string? message
---@return string? code
function Connection:wait_closed(seconds) end

---Moves the connection to the loop of another service; see `net.transfer`.
---@param service integer
---@param ... any
---@return true|integer|nil result
---@return string? message
---@return string? code
function Connection:transfer(service, ...) end

---Reports whether this side has closed the connection.
---@return boolean
function Connection:is_closed() end

---Reports whether, according to the events that the loop has received, the peer has shut down its sending side or the
---connection has failed. Makes no system call.
---@return boolean
function Connection:is_over() end

---Returns the number of bytes that were read from the peer and that no `recv` has returned yet.
---@return integer bytes
function Connection:buffered() end

---Returns the number of bytes that `net.broadcast` has queued for the peer and that the system has not accepted yet; 0 if
---the connection is closed. Connections of `net.remote` do not have this method.
---@return integer bytes
function Connection:queued() end

---Returns the descriptor.
---@return lightuserdata handle
function Connection:handle() end

---Used by `transfer`.
---@private
function Connection:make_parcel() end

---Used by `net.remote` for sending.
---@private
function Connection:shared_writer() end

---Encrypts the connection; see `net.start_tls`.
---@param settings? true|lio.TlsClient|lio.TlsClientOptions|lio.TlsServer|lio.TlsServerOptions default: a client
---@param opts? lio.StartTlsOptions
---@return true? ok
---@return string? message
---@return string? code
function Connection:start_tls(settings, opts) end

---Describes TLS on the connection.
---@return lio.TlsInfo info nil if the connection is not encrypted
function Connection:tls() end

---Returns whether `recv` returns bytes, or the end, that have already been read from the socket.
---@return boolean
function Connection:has_unread() end

---Used by `start_tls`.
---@private
function Connection:start_tls_now(tls, host) end

---Used by `start_tls`.
---@private
function Connection:handshake() end

---Puts bytes back, before the buffered ones. The next `recv` returns them.
---@param bytes string
function Connection:unread(bytes) end

---Used by `recv`.
---@private
function Connection:try_recv(...) end

---Used by `send`.
---@private
function Connection:try_send(sent, ...) end

---Used by `sendfile`.
---@private
function Connection:try_sendfile(sent, source, offset, length) end

---Used for waiting. Returns true, or nil, a message and a code if no event can arrive.
---@private
function Connection:arm(events) end

---Used by `close`.
---@private
function Connection:close_now() end

---Used by `shutdown`.
---@private
function Connection:shutdown_now(how) end

---Used by `peer` and `sock`.
---@private
function Connection:address(side) end

---Used by `option`.
---@private
function Connection:set_option(name, value) end

---A listener. `<close>` closes it.
---@class lio.Listener
local Listener = {}

---Waits for a connection and accepts it; see `net.accept`.
---@return lio.Connection? connection false on failure
---@return string? message
---@return string? code
---@return_overload lio.Connection
---@return_overload nil, string, string
function Listener:accept() end

---Accepts a connection that is waiting in the system's queue. Does not wait.
---@return lio.Connection? connection nil if no connection is waiting, or if the listener is closed
function Listener:take_waiting() end

---Returns the address on which the listener listens.
---@return string? address ip, or path; nil if the listener is closed
---@return integer|string|nil port for unix: the kind of the name, see `lio.Endpoint`
---@return string? family `"inet"`, `"inet6"`, `"unix"`
function Listener:address() end

---Sets how long `accept` may wait.
---@param seconds? number nil: no timeout
---@return true? ok
---@return string? message
---@return string? code
function Listener:timeout(seconds) end

---Reads the certificates of a listener with TLS again, for later connections. This also happens when their files
---change. On failure, the listener keeps its certificates.
---@return true? ok
---@return string? message
---@return string? code `"tls"`
function Listener:reload_tls() end

---Reports whether the listener is closed.
---@return boolean
function Listener:is_closed() end

---Closes the listener, and removes the file of a unix socket. Idempotent. A task that waits in `accept` receives
---`false, "closed", "closed"`.
---@return true
function Listener:close() end

---A datagram socket. `<close>` closes it.
---@class lio.Udp
local Udp = {}

---Waits for one datagram and returns it; see `net.recvfrom`.
---@return string? data
---@return string? ip of the sender; on failure the message
---@return integer|string|nil port of the sender; on failure the code
---@return_overload string, string, integer
---@return_overload nil, string, string
function Udp:recvfrom() end

---Sends one datagram; see `net.sendto`.
---@param data string
---@param addr string address or host name
---@param port number 0 to 65535
---@return true? ok
---@return string? message
---@return string? code
function Udp:sendto(data, addr, port) end

---Returns the address to which the socket is bound.
---@return string? ip nil if the socket is closed
---@return integer|string|nil port
---@return string? family `"inet"`, `"inet6"`
function Udp:address() end

---Sets how long `recvfrom` and `sendto` may wait.
---@param read_seconds? number nil: no timeout
---@param write_seconds? number nil: no timeout
---@return true? ok
---@return string? message
---@return string? code
function Udp:timeout(read_seconds, write_seconds) end

---Sets a socket option if a value is given; otherwise reads the option.
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value
---@return string? message
---@return string? code
function Udp:option(name, value) end

---Reports whether the socket is closed.
---@return boolean
function Udp:is_closed() end

---Closes the socket. Idempotent. Calls that wait on it return `nil, "closed", "closed"`.
---@return true
function Udp:close() end

---A server: the result of `net.serve`, and of `listen` of a web app.
---@class lio.Server
---@field listener lio.Listener nil if the server does not listen
---@field count integer current number of connections
---@field url string the URL of a web server, such as `http://127.0.0.1:8080/`
---@field tls? lio.TlsServer TLS of a web server; `server.tls:reload()` reads its certificates again
local Server = {}

---Stops accepting, waits until the handlers have ended or the time has passed, then closes the remaining connections.
---Connections that are still in the system's queue are accepted and served. Call it from a task. A second call does
---nothing.
---@param grace? number maximum seconds to wait; default 0
function Server:stop(grace) end

---Waits until the server has been stopped. Call it from a task.
function Server:wait() end

---Serves a connection that the server has not accepted itself. A web server with TLS, too, serves the connection as it
---is: if it must be encrypted, call `c:start_tls` before.
---@param c lio.Connection
---@return boolean admitted false if the server is stopping or full: the caller keeps the connection
function Server:admit(c) end

---Serves the connections of another listener as well, until that listener is closed or the server stops. They are
---encrypted if that listener has the option `tls`.
---@param listener lio.Listener
function Server:accept_from(listener) end

---Removes a connection from the server, which then does not close it. Call it for a connection that other code has
---taken over.
---@param c lio.Connection
function Server:release(c) end
