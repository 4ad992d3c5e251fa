---@meta _
-- The lower calls in the definitions of `lio.net`. docs/build.lua generates docs/api/lio.net.protocol.md from them.
-- luacheck: no max comment line length

---Calls for code that drives its own loop, and for code that implements a protocol. Programs do not need them.

---@class lio.net
local net = {}

---Sets the function that makes requests to other services. For loop code.
---@param call fun(service: integer, name: string, ...: any): ...: any
function net.join(call) end

---Takes a connection that another service has sent. For loop code.
---@param number integer the number under which it was sent, 1 and up
---@return lio.Connection? connection
---@return string? message
---@return string? code `"closed"` if it was taken already
function net.adopt(number) end

---Passes a connection to the function of `on_transfer`. For loop code.
---@param c lio.Connection
---@param ... any further arguments for the function
---@return boolean taken whether there is such a function
function net.receive(c, ...) end

---Does what `transfer` does, on behalf of another service. For loop code.
---@param c lio.Connection
---@param service integer the address of the receiving service
---@param owner? integer the service that owns the handle; default: this service
---@param ... any further arguments for the function of `on_transfer`
---@return true|integer|nil result
---@return string? message
---@return string? code
function net.send_off(c, service, owner, ...) end

---Protocol code that accepts connections and serves them itself.
---@class lio.Keeper
---@field listen fun(selector: lio.Selector, socket: lio.Socket) begins to accept from the socket
---@field accept fun(selector: lio.Selector, all?: boolean): boolean?, string?, string? true: it has accepted connections or has no room; false: no connection waits, and the socket is armed; `all`: accept also without room
---@field admit fun(selector: lio.Selector, c: lio.Connection) takes a connection that was not accepted
---@field release fun(c: lio.Connection) gives up a connection
---@field count fun(): integer returns the number of connections
---@field is_full fun(): boolean reports whether no further connection may be accepted
---@field watch fun() requests a call of `left`, which `keep` sets, when the next connection ends
---@field left? fun()
---@field stop fun() called when a stop begins
---@field close fun() called when a stop ends: closes the remaining connections

---As `serve`, for protocol code that accepts connections and serves them itself.
---@param listener lio.Listener?
---@param keeper lio.Keeper
---@return lio.Server server
function net.keep(listener, keeper) end

---The functions of a scheduler that `net.new` needs.
---@class lio.Scheduler
---@field wait fun(token: any): any waits until the token is woken
---@field wakeup fun(token: any, ...: any): true? wakes the token; nil if no task waits on it
---@field fork fun(f: function, ...: any) creates a task
---@field running fun(): thread returns the running coroutine
---@field start? fun(f: function, ...: any) as in `lio.task`
---@field timers? lio.Timers a queue to share
---@field on_abandon? fun(f: fun(token: any)) as in `lio.task`; needed if tasks can be killed
---@field on_stop? fun(f: fun(grace: number)): fun() as in `lio.loop`

---The calls of this module, except `new` and `use`, on one selector and one scheduler.
---@class lio.NetInstance: lio.net
---@field starts boolean whether `start` runs a task at once
---@field clock number seconds of `lio.now` when the loop last received its events
---@field selector lio.Selector the selector of the loop, for protocol code
---@field timers lio.Timers the timers of the loop; each value is a table with a method `expired`

---Creates an instance on a selector and a scheduler. The code that drives the VM calls `step` of the result.
---@param selector lio.Selector
---@param sched lio.Scheduler
---@return lio.NetInstance api
function net.new(selector, sched) end

---Makes an instance the one to which `require "lio.net"` refers in this VM.
---@param api lio.NetInstance
---@return lio.net module
function net.use(api) end

---Runs one round of the loop: flushes, waits for I/O until the next timer, and wakes the waiting tasks. For loop code.
---@param seconds? number maximum wait; default: until the next event or timer
function net.step(seconds) end

---Raises in a service that owns no loop, where a wait on `lio.loop` would never end. For libraries that wait on that
---loop. An instance of `net.new` does not have this call.
---@param call string the name of the call, for the message
---@param level? integer the level of the line in the message, as for `error`; default 1: the caller of `check_loop`
function net.check_loop(call, level) end

---Suspends the running task.
---@param seconds number a negative number counts as 0; NaN raises
function net.rest(seconds) end

---Creates a ticket, on which one task can park. For protocol code.
---@return table ticket
function net.ticket() end

---Waits for `unpark`. For protocol code.
---@param ticket table
---@param seconds? number default: no timeout
---@return any value the value passed to `unpark`, or `"timeout"`
function net.park(ticket, seconds) end

---Wakes the task that is parked on a ticket. For protocol code.
---@param ticket table
---@param value any the result of `park`
---@return boolean whether a task was parked
function net.unpark(ticket, value) end

---Runs `f` once, after the loop has dispatched its current events. For the protocol code of `attend`.
---@param f fun()
function net.defer(f) end

---Runs `f` as a task: at once if the scheduler can do that, otherwise as `fork` does.
---@param f function
---@param ... any the arguments of `f`
function net.start(f, ...) end

---Reports whether a name is being resolved. For loop code.
---@return boolean
function net.is_resolving() end

---Calls `f` each time a descriptor is readable. For loop code.
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

---Sets the function that is called when a timer of shared `timers` fires. For loop code.
---@param f fun(value: any, id: integer) passes the values that it does not know to `expired`
function net.on_timer(f) end

---Handles the value of one of this module's timers that has fired. For loop code.
---@param value any
function net.expired(value) end

---Passes the events of a connection to protocol code: the loop calls `protocol:ready(events)`, which must not wait.
---@param c lio.Connection
---@param protocol? table nil: the connection handles its events itself again
---@return true? ok
---@return string? message
---@return string? code
function net.attend(c, protocol) end

---Registers a connection that belongs to no loop with this loop. For protocol code.
---@param c lio.Connection
---@return lio.Connection c
function net.take_in(c) end

---Makes the loop call `protocol:flush()` before each wait, and `protocol:arrived()` after it has dispatched its events.
---Neither may wait. For protocol code that serves many connections natively.
---@param protocol table
function net.join_loop(protocol) end

---Ends a `join_loop`.
---@param protocol table
function net.leave_loop(protocol) end

---Wakes the tasks that wait for these events of a connection. For protocol code that does not handle the events itself.
---@param c lio.Connection
---@param events integer 1 reading, 2 writing, 4 the peer's end, or a sum of these
function net.ready(c, events) end

---Sends the queued bytes of a connection before the next wait of the loop. For protocol code.
---@param c lio.Connection
---@param before? fun() called just before that; it may queue bytes
function net.flush_later(c, before) end

---Waits on a connection that a call has armed because it would block. For protocol code.
---@param c lio.Connection
---@param writing boolean true: wait for writing; false: for reading
---@param seconds? number default: the timeout of `timeout`
---@return true|string reason true, `"timeout"`, `"closed"`, or the reason passed to `wake_reader`
function net.wait_armed(c, writing, seconds) end

---Returns the text for a token in the list of `lio.tasks`.
---@param token any
---@return string? text nil if the token does not belong to this module
function net.describe(token) end

---Wakes the task that waits for reading on a connection. For protocol code.
---@param c lio.Connection
---@param reason any the result of its `wait_armed`
---@return boolean woken whether a task waited
function net.wake_reader(c, reason) end
