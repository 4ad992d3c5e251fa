---@meta _
-- The lower calls in the definitions of `lio.net`; docs/build.lua makes docs/api/lio.net.protocol.md of them.
-- luacheck: no max comment line length

---The calls for code that drives a loop of its own, and for code that implements a protocol. Programs do not need them.

---@class lio.net
local net = {}

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
