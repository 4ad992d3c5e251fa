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

---Makes requests to other services possible. For who drives.
---@param call fun(service: integer, name: string, ...: any): ...: any
function net.join(call) end

---Takes a connection that was sent off. For who drives.
---@param number integer
---@return lio.Connection? connection
---@return string? message
---@return string? code
function net.adopt(number) end

---Hands a connection to the function of `on_transfer`. For who drives.
---@param c lio.Connection
---@param ... any
---@return boolean taken whether there is one
function net.receive(c, ...) end

---Does what `transfer` does, on behalf of another service. For who drives.
---@param c lio.Connection
---@param service integer
---@param owner? integer whose its handle becomes; default: this service
---@param ... any
---@return true|integer|nil result
---@return string? message
---@return string? code
function net.send_off(c, service, owner, ...) end

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

---@class lio.Keeper
---@field listen fun(selector: lio.Selector, socket: lio.Socket) it accepts from that one
---@field accept fun(selector: lio.Selector, all?: boolean): boolean?, string?, string? true: some came, or there is no room; false: nobody, the socket being armed; `all`: also where there is no room
---@field admit fun(selector: lio.Selector, c: lio.Connection) takes one that was not accepted
---@field release fun(c: lio.Connection) forgets one
---@field count fun(): integer how many there are
---@field is_full fun(): boolean whether none is to be accepted
---@field watch fun() asks for a call of `left`, which `keep` sets, when the next one leaves
---@field left? fun()
---@field stop fun() a stop begins
---@field close fun() a stop ends: closes what is left

---As `serve`, for protocol code that accepts and looks after connections itself.
---@param listener lio.Listener?
---@param keeper lio.Keeper
---@return lio.Server server
function net.keep(listener, keeper) end

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

---What `net.new` needs of a scheduler.
---@class lio.Scheduler
---@field wait fun(token: any): any waits until the token is woken
---@field wakeup fun(token: any, ...: any): true? wakes it; nil when nobody waits
---@field fork fun(f: function, ...: any)
---@field running fun(): thread
---@field start? fun(f: function, ...: any) as `lio.task` has it
---@field timers? lio.Timers a queue to share
---@field on_abandon? fun(f: fun(token: any)) as `lio.task` has it; needed when tasks can be killed
---@field on_stop? fun(f: fun(grace: number)): fun() as `lio.loop` has it

---The calls of this module, but for `new` and `use`, on one selector and scheduler.
---@class lio.NetInstance: lio.net
---@field starts boolean whether `start` runs a task at once
---@field clock number seconds of `lio.now` when the loop's last round had its events; free to read
---@field selector lio.Selector that of the loop, for protocol code
---@field timers lio.Timers the loop's timers; a value is a table with a method `expired`

---Builds these calls on a selector and a scheduler. Whoever drives the VM calls `step` on the result.
---@param selector lio.Selector
---@param sched lio.Scheduler
---@return lio.NetInstance api
function net.new(selector, sched) end

---Makes an instance the one that `require "lio.net"` stands for in this VM.
---@param api lio.NetInstance
---@return lio.net module
function net.use(api) end

---Does one round: flushes, waits for I/O until the next timer, and wakes whom it concerns. For who drives.
---@param seconds? number the longest wait; default: until something happens
function net.step(seconds) end

---Raises in a service that owns no loop, where `call` would wait for ever. For libraries that wait on the loop of
---`lio.loop`; an instance of `net.new` does not have it.
---@param call string the name for the message
---@param level? integer whose line the message names, as for `error`; default 1, the caller of `check_loop`
function net.check_loop(call, level) end

---Waits, as a task.
---@param seconds number
function net.rest(seconds) end

---Makes what one task parks on. For protocol code.
---@return table ticket
function net.ticket() end

---Waits for `unpark`. For protocol code.
---@param ticket table
---@param seconds? number
---@return any value what `unpark` was given, or `"timeout"`
function net.park(ticket, seconds) end

---Wakes who parks on a ticket. For protocol code.
---@param ticket table
---@param value any
---@return boolean whether somebody did
function net.unpark(ticket, value) end

---Runs `f` once, when the loop has gone through the events that it has. For `attend`'s protocol code.
---@param f fun()
function net.defer(f) end

---Runs `f` as a task: at once where the scheduler can, else as `fork` does.
---@param f function
---@param ... any its arguments
function net.start(f, ...) end

---Tells whether a name's answer is awaited. For who drives.
---@return boolean
function net.is_resolving() end

---Calls `f` whenever a descriptor is readable. For who drives.
---@param descriptor lio.Descriptor
---@param f fun()
---@return true? ok
---@return string? message
---@return string? code
function net.watch(descriptor, f) end

---Ends a `watch`.
---@param descriptor lio.Descriptor
---@return true? ok
---@return string? message
---@return string? code
function net.unwatch(descriptor) end

---Sets what happens when a timer of shared `timers` fires. For who drives.
---@param f fun(value: any, id: integer) passes values that are not its own to `expired`
function net.on_timer(f) end

---Does what a timer's value of this module means when it fires. For who drives.
---@param value any
function net.expired(value) end

---Hands a connection's events to protocol code: the loop calls `protocol:ready(events)`, which must not
---wait; nil: as usual again.
---@param c lio.Connection
---@param protocol? table
---@return true? ok
---@return string? message
---@return string? code
function net.attend(c, protocol) end

---Has the loop look after a connection that was no loop's. For protocol code.
---@param c lio.Connection
---@return lio.Connection c
function net.take_in(c) end

---Has the loop call `protocol:flush()` before each wait, and `protocol:arrived()` when it has gone through its events.
---Neither may wait. For protocol code that serves many connections natively.
---@param protocol table
function net.join_loop(protocol) end

---Ends that.
---@param protocol table
function net.leave_loop(protocol) end

---Wakes whom events of a connection concern. For protocol code that does not want them itself.
---@param c lio.Connection
---@param events integer 1 reading, 2 writing, 4 the peer's end, or a sum of these
function net.ready(c, events) end

---Sends what is queued on a connection before the loop waits next. For protocol code.
---@param c lio.Connection
---@param before? fun() called just then, to queue what was held back
function net.flush_later(c, before) end

---Waits on a connection that a call which would block has armed. For protocol code.
---@param c lio.Connection
---@param writing boolean wait for writing; else for reading
---@param seconds? number default: what `timeout` set
---@return true|string reason true, `"timeout"`, `"closed"`, or what `wake_reader` was given
function net.wait_armed(c, writing, seconds) end

---Tells what a token that somebody waits on stands for, for `lio.tasks`.
---@param token any
---@return string? text nil when it is none of this module
function net.describe(token) end

---Wakes who waits for reading on a connection. For protocol code.
---@param c lio.Connection
---@param reason any what its `wait_armed` returns
---@return boolean woken whether somebody waited
function net.wake_reader(c, reason) end

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

return net
