---@meta _
-- The objects in the definitions of `lio.net`; docs/build.lua makes docs/api/lio.net.sockets.md of them.
-- luacheck: no max comment line length

---Connections, listeners, datagram sockets, and servers.

---A connection. `<close>` and the collector close it.
---@class lio.Connection
local Connection = {}

---Receives, in the forms of `net.recv`.
---@param what? integer|"line"|"until"|"all"
---@param limit? integer bytes
---@return string? data
---@return string? message
---@return string? partial
---@return string? code
---@overload fun(self: lio.Connection, what: "until", delimiter: string, limit?: integer): string?, string?, string?, string?
function Connection:recv(what, limit) end

---Sends all of the strings; see `net.send`.
---@param ... string
---@return true? ok
---@return string? message
---@return integer? sent
---@return string? code
function Connection:send(...) end

---Sends a file; see `net.sendfile`.
---@param source string|lio.File|file*
---@param offset? integer default 0
---@param length? integer default: up to the end
---@return true? ok
---@return string? message
---@return integer? sent
---@return string? code
function Connection:sendfile(source, offset, length) end

---Closes it. Idempotent; everyone who waits on it is told `"closed"`.
---@return true
function Connection:close() end

---Ends one direction or both, after what is being sent.
---@param how? "r"|"w"|"rw" default both
---@return true? ok
---@return string? message
---@return string? code
function Connection:shutdown(how) end

---Sets how long waits may last; see `net.timeout`.
---@param read_seconds? number nil: for ever
---@param write_seconds? number nil: for ever
---@return true? ok
---@return string? message
---@return string? code
function Connection:timeout(read_seconds, write_seconds) end

---Tells the address of the other side; see `net.peer`.
---@return string? address
---@return integer|string|nil port
---@return string? family
function Connection:peer() end

---Tells the address of this side; see `net.sock`.
---@return string? address
---@return integer|string|nil port
---@return string? family
function Connection:sock() end

---Sets a socket option when a value is given, else reads it.
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

---Waits until the peer ends its side or the connection fails; see `net.wait_closed`.
---@param seconds? number
---@return true? ok
---@return string? message
---@return string? code
function Connection:wait_closed(seconds) end

---Moves it to the loop of another service; see `net.transfer`.
---@param service integer
---@param ... any
---@return true|integer|nil result
---@return string? message
---@return string? code
function Connection:transfer(service, ...) end

---Tells whether this side has closed it.
---@return boolean
function Connection:is_closed() end

---Tells whether the peer has ended its side or the connection failed, as far as the loop has heard.
---@return boolean
function Connection:is_over() end

---Tells how many bytes were read from the peer and not received yet.
---@return integer bytes
function Connection:buffered() end

---Tells the descriptor.
---@return lightuserdata handle
function Connection:handle() end

---What `transfer` stands on.
---@private
function Connection:send_off() end

---What sending by `net.remote` stands on.
---@private
function Connection:outlet() end

---Puts bytes before what is buffered, as if they had not been received yet.
---@param bytes string
function Connection:unread(bytes) end

---What `recv` stands on.
---@private
function Connection:take(...) end

---What `send` stands on.
---@private
function Connection:put(sent, ...) end

---What `sendfile` stands on.
---@private
function Connection:put_file(sent, source, offset, length) end

---Reads a part of a file behind what is queued.
---@private
function Connection:queue_file(source, offset, length) end

---What waiting stands on. Returns true, or nil, a message and a code when no event will come.
---@private
function Connection:arm(events) end

---What `close` stands on.
---@private
function Connection:release() end

---What `shutdown` stands on.
---@private
function Connection:cut(how) end

---What `peer` and `sock` stand on.
---@private
function Connection:address(side) end

---What `option` stands on.
---@private
function Connection:set_option(name, value) end

---A listener. `<close>` closes it.
---@class lio.Listener
local Listener = {}

---Takes a connection, waiting for one; see `net.accept`.
---@return lio.Connection|false connection
---@return string? message
---@return string? code
function Listener:accept() end

---Takes a connection that the system has accepted already. Does not wait.
---@return lio.Connection? connection  nil when there is none
function Listener:take_waiting() end

---Tells the address it listens on.
---@return string? address ip, or path
---@return integer|string|nil port for unix the kind of name
---@return string? family `"inet"`, `"inet6"`, `"unix"`
function Listener:address() end

---Sets how long `accept` may wait.
---@param seconds? number nil: for ever
---@return true? ok
---@return string? message
---@return string? code
function Listener:timeout(seconds) end

---Tells whether it is closed.
---@return boolean
function Listener:is_closed() end

---Closes it, and removes the file of a unix socket. Idempotent; who waits in `accept` gets
---`false, "closed"`.
---@return true
function Listener:close() end

---A datagram socket. `<close>` closes it.
---@class lio.Udp
local Udp = {}

---Receives one datagram, waiting for it.
---@return string? data
---@return string? ip
---@return integer|string|nil port
function Udp:recvfrom() end

---Sends one datagram.
---@param data string
---@param addr string address or host name
---@param port integer 0 to 65535
---@return true? ok
---@return string? message
---@return string? code
function Udp:sendto(data, addr, port) end

---Tells the address it is bound to.
---@return string? ip
---@return integer|string|nil port
---@return string? family
function Udp:address() end

---Sets how long `recvfrom` and `sendto` may wait.
---@param read_seconds? number nil: for ever
---@param write_seconds? number nil: for ever
---@return true? ok
---@return string? message
---@return string? code
function Udp:timeout(read_seconds, write_seconds) end

---Sets a socket option when a value is given, else reads it.
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value
---@return string? message
---@return string? code
function Udp:option(name, value) end

---Tells whether it is closed.
---@return boolean
function Udp:is_closed() end

---Closes it. Idempotent; who waits on it gets `nil, "closed"`.
---@return true
function Udp:close() end

---A server: what `net.serve` and a web server's `listen` return.
---@class lio.Server
---@field listener? lio.Listener
---@field count integer how many connections it has now
---@field url? string where a web server is reached, such as `http://127.0.0.1:8080/`
local Server = {}

---Stops accepting, waits for the handlers to end, then closes what is left. Called from a task; a second
---call does nothing.
---@param grace? number seconds to wait at most; default 0
function Server:stop(grace) end

---Waits until the server has been stopped. Called from a task.
function Server:wait() end

---Serves a connection that was not accepted, as if it had been.
---@param c lio.Connection
---@return boolean admitted false when the server stops or is full; the connection is the caller's then
function Server:admit(c) end

---Serves the connections of another listener as well, until that is closed or the server stops.
---@param listener lio.Listener
function Server:accept_from(listener) end

---Forgets a connection that somebody else has taken over.
---@param c lio.Connection
function Server:release(c) end
