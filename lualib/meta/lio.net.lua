---@meta lio.net
-- Definitions of `lio.net` for the Lua language server; docs/build.lua makes docs/api/lio.net.md of them.
-- luacheck: no max comment line length

---Sockets for coroutines: the coroutine waits, the thread does not. Every call may be made from any task
---of the loop; `listen`, `udp` and `wrap` also before it runs.
---
---Results have one rule: a value on success; `nil` alone is the end of a stream; failures are
---`nil, message, code`, with `recv` and `send` `nil, message, partial, code`; `listen`, `accept`,
---`connect`, `udp` and `wrap` fail with `false, message, code`. The code is a short word: `"timeout"`,
---`"closed"`, `"refused"`, `"reset"`, `"too long"`, `"unresolved"`, `"in use"`, `"EMFILE"` … Misuse raises.
---@class lio.net
---@field instance lio.NetInstance what the module stands for: that of `lio.loop`, unless `use` set another
local net = {}

---@class lio.ListenOptions
---@field backlog? integer 0 to 2147483647; default 1024
---@field reuseport? boolean several sockets may listen on the port
---@field v6only? boolean no IPv4 on an IPv6 socket; default false
---@field mode? integer permission bits of a unix socket's file, 0 to 511

---Listens.
---@param addr string|lio.Socket address, host name, `"unix:/path"`, `"unix:@name"` (abstract), or a listening socket
---@param port? integer 0 to 65535; 0: the system chooses, see `listener:address()`; nil for unix
---@param opts? lio.ListenOptions
---@return lio.Listener|false listener
---@return string? message
---@return string? code
function net.listen(addr, port, opts) end

---Opens a socket that listens, and leaves it to `listen`, of this VM or, by the socket's `detach`, of another.
---@param addr string as for `listen`
---@param port? integer
---@param opts? lio.ListenOptions
---@return lio.Socket? socket
---@return string? message
---@return string? code
function net.bind(addr, port, opts) end

---Takes a connection, waiting for one. Out of descriptors it complains once, pauses and goes on.
---@param listener lio.Listener
---@return lio.Connection|false connection
---@return string? message
---@return string? code `"closed"` when the listener is closed
function net.accept(listener) end

---@class lio.ConnectOptions
---@field timeout? number seconds for all of it, above 0, resolving included; default: none
---@field attempt? lio.Attempt what another task may close meanwhile

---What can be closed while a connect goes on.
---@class lio.Attempt
local Attempt = {}

---Gives the connect up: its result is `false, "closed"`. Idempotent.
---@return true
function Attempt:close() end

---Makes what `opts.attempt` of one connect takes.
---@return lio.Attempt attempt
function net.attempt() end

---Connects. A host name is resolved off-thread, and its addresses are raced (RFC 8305).
---@param addr string address, host name, `"unix:/path"` or `"unix:@name"`
---@param port? integer 0 to 65535; nil for unix
---@param opts? lio.ConnectOptions|"inet"|"inet6" a family counts for nothing: `net.connect(listener:address())` works
---@return lio.Connection|false connection
---@return string? message
---@return string? code `"refused"`, `"timeout"`, `"unresolved"` …
function net.connect(addr, port, opts) end

---Receives. Without `what`: what is there, at least one byte, `nil` at the end. A number: exactly so many
---bytes. `"line"`: up to the next newline, without it (nor a carriage return before it). `"until"`: up to
---a delimiter, without it. `"all"`: up to the end. After a time-out, or "too long", what came stays
---buffered. A second receiver queues behind the first.
---@param c lio.Connection
---@param what? integer|"line"|"until"|"all"
---@param limit? integer bytes, 0 and up; for "until" it stands behind the delimiter
---@return string? data
---@return string? message `"timeout"`, `"closed"`, `"too long"` …
---@return string? partial what came before the failure
---@return string? code
---@overload fun(c: lio.Connection, what: "until", delimiter: string, limit?: integer): string?, string?, string?, string?
function net.recv(c, what, limit) end

---Sends all of the strings, in as few system calls as the system lets; messages of concurrent senders are
---not mixed.
---@param c lio.Connection
---@param ... string
---@return true? ok
---@return string? message
---@return integer? sent bytes that were taken before the failure
---@return string? code
function net.send(c, ...) end

---Sends one message to many connections of this VM, without a wait. What the system does not take at once is kept in
---memory once, however many connections it waits for, and goes out when there is room; a `close` drops it.
---
---A connection gets the whole message or nothing of it. It is left out when it is closed or has failed (`"closed"`), when
---more than `limit` bytes would wait for its peer then, or when a task waits in `send` for it (`"full"`): so a peer that
---does not read takes up no more than that. What becomes of such a connection is the caller's to say; most close it. One
---for which nothing waits takes a message of any length.
---@param list lio.Connection[]
---@param data string
---@param limit? integer bytes, each waiting message counted with 64 more; default 1 MiB
---@return integer taken how many connections have it
---@return table<lio.Connection, "closed"|"full">? missed the others; nil when there are none
function net.broadcast(list, data, limit) end

---Sends a file, or a part of it, by the kernel where there is a call for that. Takes its turn among other
---senders as `send` does; others run in between.
---@param c lio.Connection
---@param source string|lio.File|file* a path, or an open file, which stays open; its position does not count
---@param offset? integer bytes to leave out; default 0
---@param length? integer bytes to send; default: up to the end
---@return true? ok
---@return string? message
---@return integer? sent bytes of the file that the system took before
---@return string? code `"truncated"` when the file has less, or becomes shorter meanwhile
function net.sendfile(c, source, offset, length) end

---Closes a connection, listener or datagram socket. Idempotent; everyone who waits on it is told
---`"closed"`.
---@param x lio.Connection|lio.Listener|lio.Udp
---@return true
function net.close(x) end

---Ends one direction or both, after what is being sent.
---@param c lio.Connection
---@param how? "r"|"w"|"rw" default both
---@return true? ok
---@return string? message
---@return string? code
function net.shutdown(c, how) end

---Sets how long a wait may last; over it the call fails with `"timeout"`, and the connection stays usable.
---@param c lio.Connection|lio.Listener|lio.Udp
---@param read_seconds? number for receiving and accepting; nil: for ever
---@param write_seconds? number for sending; nil: for ever
---@return true? ok
---@return string? message
---@return string? code
function net.timeout(c, read_seconds, write_seconds) end

---Tells the address of the other side.
---@param c lio.Connection
---@return string? address ip, or path
---@return integer|string|nil port for unix the kind of name; the message, when it fails
---@return string? family `"inet"`, `"inet6"`, `"unix"`; the code, when it fails
function net.peer(c) end

---Tells the address of this side.
---@param c lio.Connection
---@return string? address ip, or path
---@return integer|string|nil port for unix the kind of name; the message, when it fails
---@return string? family `"inet"`, `"inet6"`, `"unix"`; the code, when it fails
function net.sock(c) end

---Sets a socket option when a value is given, else reads it.
---@param c lio.Connection|lio.Udp
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value what it is; true when it was set
---@return string? message
---@return string? code
function net.option(c, name, value) end

---Waits until there may be something to read, which is left to the caller.
---@param c lio.Connection
---@param seconds? number default: what `timeout` set
---@return true? ok
---@return string? message `"timeout"` or `"closed"`
---@return string? code
function net.wait_readable(c, seconds) end

---Waits until the peer ends its side or the connection fails; reads nothing.
---@param c lio.Connection
---@param seconds? number default: for ever
---@return true? ok
---@return string? message `"timeout"` or `"closed"`
---@return string? code
function net.wait_closed(c, seconds) end

---Moves a connection to the loop of another service, with what was received and not read and what is queued.
---Waits of others on it end with `"closed"`.
---@param c lio.Connection
---@param service integer a service of `lio.service`
---@param ... any goes to the function of its `on_transfer`
---@return true|integer|nil result true when that function has it; else its handle there, which is this service's
---@return string? message
---@return string? code `"dead"`, `"refused"`: the connection is as before; `"closed"`: it is gone
function net.transfer(c, service, ...) end

---Sets what takes connections that other services transfer to this one: `f(c, …)` runs as a task and owns
---`c`. Without such a function they become handles of who sends them.
---@param f? fun(c: lio.Connection, ...: any)
function net.on_transfer(f) end

---Gives these calls for a service without a loop, done by the service `io`. Connections, listeners and
---datagram sockets have the same methods, but for `handle`; calls for who drives a loop are missing.
---@param io? integer a service of `lio.service`; default: the unique service `lio`
---@return lio.RemoteNet api
function net.remote(io) end

---What `net.remote` returns: the calls of `lio.net`, and those for handles.
---@class lio.RemoteNet: lio.net
---@field connection fun(handle: integer): lio.Connection of a handle that another service has given to this one
---@field listener fun(handle: integer): lio.Listener of a handle of another service, to accept from it
---@field give fun(c: lio.Connection, service: integer): integer? its handle, which is that service's now

---Makes a connection of a connected socket, which it takes over.
---@param s lio.Socket reads as closed afterwards
---@return lio.Connection|false connection
---@return string? message
---@return string? code
function net.wrap(s) end

---@class lio.ServeOptions
---@field max_connections? integer beyond it accepting pauses; default: none
---@field on_error? fun(message: any, c: lio.Connection) in place of the log on standard error
---@field on_stop? fun() runs when a stop begins
---@field attended? boolean the handler runs in the accept loop and must not wait; for protocol code, see `attend`

---Accepts in a task of its own, runs `handler(c)` as a task per connection and closes it afterwards; an
---error that it raises is logged with its traceback.
---@param listener lio.Listener? nil: connections come by `server:admit` alone
---@param handler fun(c: lio.Connection)
---@param opts? lio.ServeOptions
---@return lio.Server server
function net.serve(listener, handler, opts) end

---Resolves a host name off-thread; answers are kept for 30 s. A numeric address is its own answer.
---@param name string
---@param seconds? number how long to wait at most; default: for ever
---@return string[]? addresses in the order of preference
---@return string? message
---@return string? code `"unresolved"`, `"timeout"` …
function net.resolve(name, seconds) end

---Makes a datagram socket.
---@param addr? string numeric address to bind to; default `"0.0.0.0"`
---@param port? integer 0 to 65535; default 0: the system chooses
---@return lio.Udp|false udp
---@return string? message
---@return string? code
function net.udp(addr, port) end

---Receives one datagram, waiting for it. `""` is a datagram of length 0.
---@param u lio.Udp
---@return string? data
---@return string? ip of the sender; the message, when it fails
---@return integer|string|nil port of the sender; the code, when it fails
function net.recvfrom(u) end

---Sends one datagram. A host name is resolved.
---@param u lio.Udp
---@param data string
---@param addr string address or host name
---@param port integer 0 to 65535
---@return true? ok
---@return string? message
---@return string? code
function net.sendto(u, data, addr, port) end

return net
