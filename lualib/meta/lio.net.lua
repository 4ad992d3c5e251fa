---@meta lio.net
-- Definitions of `lio.net` for the Lua language server. docs/build.lua generates docs/api/lio.net.md from them.
-- luacheck: no max comment line length

---Sockets for coroutines: a call that waits suspends the task, not the thread. Any task of the loop may make any call;
---`listen`, `bind`, `udp` and `wrap` also work before the loop runs.
---
---On success, a call returns a value. At the end of a stream, `recv()` returns `nil` alone; the forms of `recv` that
---still need bytes return `nil, "closed", partial, "closed"`. On failure, a call returns `nil, message, code`; `recv`,
---`send` and `sendfile` return `nil, message, partial, code`; `listen`, `accept`, `connect`, `udp` and `wrap` return
---`false, message, code`. The code is a short word: `"timeout"`, `"closed"`, `"refused"`, `"reset"`, `"too long"`,
---`"unresolved"`, `"in use"`, `"tls"`, `"EMFILE"` … Misuse raises.
---@class lio.net
---@field instance lio.NetInstance the instance that the module uses: that of `lio.loop`, or the argument of `use`
local net = {}

---@class lio.ListenOptions
---@field backlog? integer length of the system's queue of connections, 0 to 2147483647; default 1024
---@field reuseport? boolean whether to allow several sockets to listen on the port; default false
---@field v6only? boolean whether an IPv6 socket refuses IPv4 connections; default false
---@field mode? integer permission bits of a unix socket's file, 0 to 511; default: the umask decides

---The options of `net.listen`: those of `net.bind`, and `tls`.
---@class lio.NetListenOptions: lio.ListenOptions
---@field tls? lio.TlsServer|lio.TlsServerOptions encrypts the connections; `accept` returns them after their handshakes

---Opens a listener. A unix socket's file that a previous process has left behind is replaced. A host name is resolved;
---before the loop runs, that blocks the thread. An unknown option, or a value out of its range, raises.
---@param addr string|lio.Socket address, host name, `"unix:/path"`, `"unix:@name"` (abstract), or a listening socket
---@param port? number 0 to 65535; 0: the system chooses a port, see `listener:address()`; nil for unix
---@param opts? lio.NetListenOptions
---@return lio.Listener? listener false on failure
---@return string? message
---@return string? code `"in use"`, `"denied"`, `"unresolved"`, `"tls"` …
---@return_overload lio.Listener
---@return_overload nil, string, string
function net.listen(addr, port, opts) end

---Opens a listening socket from which no task accepts yet. Pass the socket to `listen` in this VM, or pass the
---descriptor that its `detach` returns to another VM.
---@param addr string as for `listen`
---@param port? number as for `listen`
---@param opts? lio.ListenOptions
---@return lio.Socket? socket
---@return string? message
---@return string? code
---@return_overload lio.Socket
---@return_overload nil, string, string
function net.bind(addr, port, opts) end

---Waits for a connection and accepts it. If the process has no free descriptor or the system has no memory left, the
---call writes a line to standard error, at most once a minute, and tries again every 0.1 seconds.
---@param listener lio.Listener
---@return lio.Connection? connection false on failure
---@return string? message
---@return string? code `"closed"` if the listener is closed; `"timeout"`
---@return_overload lio.Connection
---@return_overload nil, string, string
function net.accept(listener) end

---@class lio.ConnectOptions
---@field timeout? number seconds for the whole call, including name resolution; above 0; default: no timeout
---@field attempt? lio.Attempt an object with which another task can cancel the call
---@field tls? true|lio.TlsClient|lio.TlsClientOptions encrypts the connection; `timeout` includes the handshake

---A handle with which another task can cancel a `connect`.
---@class lio.Attempt
local Attempt = {}

---Cancels the connect, which returns `false, "closed", "closed"`. Idempotent.
---@return true
function Attempt:close() end

---Creates an object for `opts.attempt` of one `connect`.
---@return lio.Attempt attempt
function net.attempt() end

---Connects. A host name is resolved without blocking the thread. Its addresses are tried as in RFC 8305: IPv6 and IPv4
---addresses alternate, and a new attempt begins after 250 ms or after a failure; the first address that connects is
---used.
---@param addr string address, host name, `"unix:/path"` or `"unix:@name"`
---@param port? number|string 0 to 65535; ignored for unix
---@param opts? lio.ConnectOptions|"inet"|"inet6" a family is ignored, so that `net.connect(listener:address())` works
---@return lio.Connection? connection false on failure
---@return string? message
---@return string? code `"refused"`, `"timeout"`, `"unresolved"`, `"tls"`, `"closed"` …
---@return_overload lio.Connection
---@return_overload nil, string, string
function net.connect(addr, port, opts) end

---@class lio.StartTlsOptions
---@field server_name? string name to request and to verify; a client needs it, unless the option `tls` contains it
---@field timeout? number seconds for the handshake, above 0; default `10`
---@field server? boolean whether this is the side of the server, if `settings` is a table; default false

---Encrypts a connection that both peers have used without TLS so far (STARTTLS), and waits for the handshake. No other
---task may use the connection meanwhile. On failure, closes the connection. Raises if bytes are queued that the peer has
---not got yet.
---@param c lio.Connection
---@param settings? true|lio.TlsClient|lio.TlsClientOptions|lio.TlsServer|lio.TlsServerOptions default: a client
---@param opts? lio.StartTlsOptions
---@return true? ok
---@return string? message
---@return string? code `"tls"`, `"timeout"`, `"closed"` …
function net.start_tls(c, settings, opts) end

---Receives bytes.
---
--- - Without `what`: the bytes that are available, at least one; `nil` at the end of the stream.
--- - A number: exactly that number of bytes.
--- - `"line"`: the bytes before the next newline, without a carriage return before it.
--- - `"until"`: the bytes before a delimiter, which is the next argument.
--- - `"all"`: the bytes up to the end of the stream.
---
---After a timeout, or `"too long"`, the received bytes stay buffered for the next call. If the stream ends or fails
---before the requested bytes have arrived, the bytes received so far are returned as `partial`. If another task is
---receiving on the connection, the call waits for its turn.
---@param c lio.Connection
---@param what? integer|"line"|"until"|"all"
---@param limit? integer maximum number of bytes in the result, 0 or more; not for a number; default: no limit
---@return string? data
---@return string? message `"timeout"`, `"closed"`, `"too long"` …
---@return string? partial the bytes received before the end or the failure
---@return string? code
---@overload fun(c: lio.Connection, what: "until", delimiter: string, limit?: integer): string?, string?, string?, string?
function net.recv(c, what, limit) end

---Sends all strings, with as few system calls as possible, and returns when the system has accepted them. The messages
---of concurrent senders are not mixed.
---@param c lio.Connection
---@param ... string
---@return true? ok
---@return string? message
---@return integer? sent number of bytes that the system accepted before the failure
---@return string? code
function net.send(c, ...) end

---Sends one message to many connections of this VM, without waiting. The bytes that the system does not accept at once
---are kept in memory once for all connections, and are sent later. `close` discards them.
---
---A connection receives the whole message or no part of it. It receives nothing if it is closed or has failed
---(`"closed"`), if more than `limit` bytes would be queued for its peer, or if a task is waiting in `send` on it (both
---`"full"`). So the messages queued for a peer that does not read use at most `limit` bytes of memory, or the memory of
---one longer message. The caller decides what to do with such a connection; most programs close it. A connection
---without queued bytes accepts a message of any length. Each queued message counts as its length plus 64 bytes.
---@param list lio.Connection[] an element that is not a connection raises
---@param data string
---@param limit? integer maximum number of queued bytes per connection, 0 or more; default 1 MiB
---@return integer taken number of connections that accepted the message
---@return table<lio.Connection, "closed"|"full">? missed the other connections; nil if there are none
function net.broadcast(list, data, limit) end

---Sends a file, or a part of it, with a system call such as sendfile(2) where possible. Waits for its turn among other
---senders, as `send` does. Other tasks run between the pieces.
---@param c lio.Connection
---@param source string|lio.File|file* a path, or an open file, which stays open; its position is not used
---@param offset? integer bytes to skip, 0 or more; default 0
---@param length? integer bytes to send, 0 or more; default: up to the end
---@return true? ok
---@return string? message
---@return integer? sent number of bytes of the file that the system accepted before the failure
---@return string? code `"truncated"`: the file is too short, or became shorter; `"not found"`, `"not a file"` …
function net.sendfile(c, source, offset, length) end

---Closes a connection, listener, datagram socket or attempt. Idempotent. Calls that wait on it fail with `"closed"`.
---@param x lio.Connection|lio.Listener|lio.Udp|lio.Attempt
---@return true
function net.close(x) end

---Shuts down one direction or both (shutdown(2)). For `"w"` and `"rw"`, first sends the bytes that are queued, also those
---of `broadcast`, and waits for that as `send` does. After a `"timeout"` the connection is not shut down.
---@param c lio.Connection
---@param how? "r"|"w"|"rw" default `"rw"`
---@return true? ok
---@return string? message
---@return string? code
function net.shutdown(c, how) end

---Sets how long one wait may last. When the time has passed, the call fails with `"timeout"`, and the connection stays
---usable. By default there is no timeout.
---@param c lio.Connection|lio.Listener|lio.Udp
---@param read_seconds? number for receiving and accepting, 0 or more; nil: no timeout
---@param write_seconds? number for sending and `shutdown`, 0 or more; nil: no timeout
---@return true? ok
---@return string? message
---@return string? code
function net.timeout(c, read_seconds, write_seconds) end

---Returns the address of the peer (getpeername(2)).
---@param c lio.Connection
---@return string? address ip, or path
---@return integer|string|nil port for unix: the kind of the name, see `lio.Endpoint`; on failure the message
---@return string? family `"inet"`, `"inet6"`, `"unix"`; on failure the code
function net.peer(c) end

---Returns the address of this side (getsockname(2)).
---@param c lio.Connection
---@return string? address ip, or path
---@return integer|string|nil port for unix: the kind of the name, see `lio.Endpoint`; on failure the message
---@return string? family `"inet"`, `"inet6"`, `"unix"`; on failure the code
function net.sock(c) end

---Sets a socket option if a value is given; otherwise reads the option. `lio.Option` in the reference of
---[`lio.socket`](lio.socket.md) lists the options. An unknown name raises.
---@param c lio.Connection|lio.Udp
---@param name lio.Option
---@param value? boolean|integer
---@return boolean|integer|nil value the option's value; true if it was set
---@return string? message
---@return string? code
function net.option(c, name, value) end

---Waits until there may be something to read. Reads nothing.
---@param c lio.Connection
---@param seconds? number default: the read timeout of `timeout`
---@return true? ok
---@return string? message `"timeout"` or `"closed"`
---@return string? code
function net.wait_readable(c, seconds) end

---Waits until the peer has shut down its sending side or the connection has failed. Reads nothing.
---@param c lio.Connection
---@param seconds? number default: no timeout
---@return true? ok
---@return string? message `"timeout"` or `"closed"`
---@return string? code
function net.wait_closed(c, seconds) end

---Moves a connection to another service, with its unread bytes and the bytes that are queued to be sent. Other tasks
---that wait on the connection get `"closed"`. Fails with `"refused"` if the service has not called `on_transfer`; only
---the service `lio` then makes the connection a handle, see the guide to the network. Raises if the loop does not belong
---to a service, or if an argument cannot be sent in a message.
---@param c lio.Connection
---@param service integer the address of the service
---@param ... any further arguments for the function that the service has set with `on_transfer`
---@return true|integer|nil result true if the function took `c`; a handle of the service `lio`, which this service owns
---@return string? message
---@return string? code `"dead"`, `"refused"`: `c` is unchanged; `"closed"`: `c` is closed
function net.transfer(c, service, ...) end

---Sets the function for connections that other services transfer to this one: `f(c, …)` runs as a task and owns `c`. If
---`f` raises, `c` is closed, and the error is logged. Without a function, transfers to this service fail with
---`"refused"`; in the service `lio`, each connection becomes a handle that belongs to its sender.
---@param f? fun(c: lio.Connection, ...: any) nil removes the function
function net.on_transfer(f) end

---Returns the calls of this module for a service without a loop; the service `io` executes them. Connections, listeners
---and datagram sockets have the same methods, except `handle` and `queued`. The calls `bind`, `broadcast`, `on_transfer` and `step`
---are missing. A missing call or method raises. The options of TLS must be tables.
---@param io? integer the address of a service `lio`; default: the unique service `lio`
---@return lio.RemoteNet api
function net.remote(io) end

---The result of `net.remote`: the calls of `lio.net`, and calls for handles.
---@class lio.RemoteNet: lio.net
---@field connection fun(handle: integer): lio.Connection returns the connection for a handle that this service owns
---@field listener fun(handle: integer): lio.Listener returns the listener for a handle, which any service may own
---@field give fun(c: lio.Connection, service: integer): integer? gives `c` to another service, returns its handle

---Turns a connected socket into a connection.
---@param s lio.Socket `wrap` closes it; the connection takes over its descriptor
---@return lio.Connection? connection false on failure
---@return string? message
---@return string? code
function net.wrap(s) end

---@class lio.ServeOptions
---@field max_connections? number number of connections at which accepting pauses; default `math.huge`
---@field on_error? fun(message: any, c: lio.Connection) called for an error in the handler, which is then not logged
---@field on_stop? fun() called when a stop of the server begins
---@field attended? boolean whether the handler runs in the accept loop, where it must not wait; for protocol code

---Starts a server: a task accepts connections, and runs `handler(c)` as a task for each connection. When the handler
---has ended, the connection is closed. An error in the handler is written to standard error, or in a service to the log,
---with its traceback. Raises if the listener is closed.
---@param listener lio.Listener? nil: all connections come from `server:admit`
---@param handler fun(c: lio.Connection)
---@param opts? lio.ServeOptions
---@return lio.Server server
function net.serve(listener, handler, opts) end

---Resolves a host name without blocking the thread. Results are cached for 30 seconds. The result for a numeric address
---is the address.
---@param name string
---@param seconds? number maximum wait; default: no timeout
---@return string[]? addresses in order of preference
---@return string? message
---@return string? code `"unresolved"`, `"timeout"` …
function net.resolve(name, seconds) end

---Opens a datagram socket.
---@param addr? string numeric address to bind to; default `"0.0.0.0"`
---@param port? number 0 to 65535; default 0: the system chooses a port
---@return lio.Udp? udp false on failure
---@return string? message
---@return string? code `"EINVAL"` for an address that is not numeric; `"in use"`, `"denied"` …
---@return_overload lio.Udp
---@return_overload nil, string, string
function net.udp(addr, port) end

---Waits for one datagram and returns it. `""` is a datagram of length 0.
---@param u lio.Udp
---@return string? data
---@return string? ip of the sender; on failure the message
---@return integer|string|nil port of the sender; on failure the code
---@return_overload string, string, integer
---@return_overload nil, string, string
function net.recvfrom(u) end

---Sends one datagram. A host name is resolved to its first address of the socket's family.
---@param u lio.Udp
---@param data string
---@param addr string address or host name
---@param port number 0 to 65535
---@return true? ok
---@return string? message
---@return string? code `"too long"`, `"unresolved"` …
function net.sendto(u, data, addr, port) end

---The functions of a scheduler that `net.new` needs.
---@class lio.Scheduler
---@field wait fun(token: any): any waits until `wakeup` is called with the token
---@field wakeup fun(token: any, ...: any): true? wakes the task that waits on the token; returns nil if there is none
---@field fork fun(f: function, ...: any) creates a task
---@field start? fun(f: function, ...: any) as in `lio.task`
---@field timers? lio.Timers a queue to share
---@field on_abandon? fun(f: fun(token: any)) as in `lio.task`; needed if tasks can be killed
---@field on_stop? fun(f: fun(grace: number), waits_for?: fun(): string?): fun() as in `lio.loop`
---@field check? fun(call: string, ...: any) raises if nothing runs the loop; `call:format(...)` is the call's name

---The calls of this module, except `new`, `use` and `remote`, on one selector and one scheduler.
---@class lio.NetInstance: lio.net
---@field instance lio.NetInstance the instance itself

---Creates an instance on a selector and a scheduler. The code that drives the VM calls `step` of the result.
---@param selector lio.Selector
---@param sched lio.Scheduler
---@return lio.NetInstance api
function net.new(selector, sched) end

---Makes `require "lio.net"` refer to an instance in this VM.
---@param api lio.NetInstance
---@return lio.net module
function net.use(api) end

---Runs one round of the loop: sends the queued bytes, waits for I/O until the next timer, and wakes the tasks whose
---sockets are ready. For code that drives the loop.
---@param seconds? number maximum wait; default: until the next event or timer
function net.step(seconds) end

return net
