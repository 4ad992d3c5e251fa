---@meta lio.net.driver
-- Definitions of `lio.net.driver` for the Lua language server. docs/build.lua generates docs/api/lio.net.driver.md from
-- them.
-- luacheck: no max comment line length

---The loop under an instance of `lio.net`: for code that drives the loop of a VM, and for protocol code that serves
---connections itself. Programs use `lio.net`.
---@class lio.net.driver
local drivers = {}

---Creates an instance of `lio.net` on a selector and a scheduler. The VM's main loop calls `step` of the result.
---@param selector lio.Selector
---@param scheduler lio.Scheduler
---@return lio.Driver driver
function drivers.new(selector, scheduler) end

---Returns the driver of an instance. Raises for a table that leads to no instance, such as a result of `net.remote`.
---@param net lio.NetInstance an instance, the module `lio.net`, or a table whose `__index` leads to one of these
---@return lio.Driver driver
function drivers.of(net) end

---@class lio.Driver
---@field net lio.NetInstance the calls for programs
---@field selector lio.Selector
---@field timers lio.Timers the timers of the loop; the value of a timer is an object with a method `expired`
---@field scheduler lio.DriverScheduler
---@field round_time number the time of `lio.now` at which the last round received its events
local Driver = {}

---The scheduler of a driver: the functions of the scheduler that `new` was given, and replacements for those that it
---lacks.
---@class lio.DriverScheduler
---@field wait fun(token: any): any
---@field wakeup fun(token: any, ...: any): true?
---@field fork fun(f: function, ...: any)
---@field start fun(f: function, ...: any) runs a task at once if `starts_at_once` is true; otherwise works like `fork`
---@field starts_at_once boolean

---Runs one round of the loop: sends the queued bytes, waits for I/O until the next timer, and wakes the tasks whose
---sockets are ready.
---@param seconds? number maximum wait; default: until the next event or timer
function Driver:step(seconds) end

---Wakes the tasks that wait for events of a socket.
---@param x lio.Connection|lio.Socket
---@param events integer 1: reading; 2: writing; 4: the peer has closed its sending side; or a sum of these
function Driver:dispatch(x, events) end

---Changes the number of results that other threads compute for tasks of this loop.
---@param change integer 1 before the wait for a result, -1 after it
function Driver:expect(change) end

---Reports whether another thread is working for a task, such as resolving a host name. The task may then be woken
---without I/O.
---@return boolean
function Driver:is_expecting() end

---Calls `f` whenever a descriptor is readable.
---@param descriptor lio.Descriptor
---@param f fun()
---@return true? ok
---@return string? message
---@return string? code
function Driver:watch(descriptor, f) end

---Ends a `watch`.
---@param descriptor lio.Descriptor
---@return true? ok
---@return string? message
---@return string? code
function Driver:unwatch(descriptor) end

---Sets the function that is called when a timer of a shared queue `timers` fires.
---@param f fun(value: any, id: integer) must pass values that are not its own to `fire`
function Driver:set_timer_handler(f) end

---Calls a function after some time, outside of tasks. The tests of `lio.testing` may leave such a timer behind.
---@param seconds number
---@param f fun()
function Driver:call_later(seconds, f) end

---Performs the action of a timer. If `value` is a table, calls its method `expired`. Any other value is a token: the
---wait on it returns `"timeout"`.
---@param value any
function Driver:fire(value) end

---Describes the wait of a task on a token, for `lio.tasks`.
---@param token any
---@return string? text nil if the token does not belong to this driver
function Driver:describe(token) end

---Makes sure that waits can end: if nothing runs the loop, attaches a service of lio's scheduler to an I/O thread, and
---raises in a service of another scheduler.
---@param call string the name of the call for the message, a format for `string.format`
---@param ... any the arguments of the format
function Driver:check_loop(call, ...) end

---Makes a service of lio's scheduler the owner of a loop, with a separate thread. Does nothing in other VMs, and in a
---service that owns a loop. For protocol code with many events, such as a web server. Raises if the service has its own
---event descriptor.
---@param call string the name of the call for the message
function Driver:take_loop(call) end

---Passes the events of a connection to protocol code: the loop calls `handler:on_events(events)`. This method must not
---wait, and must pass events that it does not handle to `dispatch`.
---@param c lio.Connection
---@param handler? table nil: events wake tasks again
---@return true? ok
---@return string? message
---@return string? code
function Driver:set_event_handler(c, handler) end

---Adds protocol code that serves many connections natively: the loop calls `hooks:before_wait()` before each wait, and
---`hooks:after_events()` after the events of a round. Neither may wait.
---@param hooks table
function Driver:add_hooks(hooks) end

---Removes hooks.
---@param hooks table
function Driver:remove_hooks(hooks) end

---Calls `f` once, after the events of this round. For event handlers.
---@param f fun()
function Driver:defer(f) end

---Sends the queued bytes of a connection before the loop waits again.
---@param c lio.Connection
---@param before? fun() called just before sending; may queue more bytes
function Driver:flush_later(c, before) end

---Registers a connection that belongs to no loop yet, so that this loop reports its events.
---@param c lio.Connection
---@return lio.Connection c
function Driver:register(c) end

---Ends all waits on a socket that is closed or has another owner: the tasks get `"closed"`.
---@param x lio.Connection|lio.Socket
function Driver:forget(x) end

---Waits until a connection that the caller has armed is readable.
---@param c lio.Connection
---@param seconds? number default: the limit of `net.timeout`
---@return true|string reason true, `"timeout"`, `"closed"`, or the reason that `wake_reader` was given
function Driver:wait_readable(c, seconds) end

---Wakes the task that waits to read from a connection.
---@param c lio.Connection
---@param reason any the result of its `wait_readable`
---@return boolean woken whether a task was waiting
function Driver:wake_reader(c, reason) end

---Creates a token, on which one task can wait.
---@return table token
function Driver:new_token() end

---Suspends the running task until `wake` is called for the token.
---@param token table
---@param seconds? number default: no limit
---@return any value the value of `wake`, or `"timeout"`
function Driver:wait(token, seconds) end

---Wakes the task that waits on a token.
---@param token table
---@param value any
---@return boolean woken whether a task was waiting
function Driver:wake(token, value) end

---Suspends the running task.
---@param seconds number
function Driver:sleep(seconds) end

---Starts a server whose connections a backend owns and serves.
---@param listener? lio.Listener nil: all connections come from `server:admit`
---@param backend lio.ServerBackend
---@return lio.Server server
function Driver:serve(listener, backend) end

---The connections of a server, and how they are served. All functions are called as methods.
---@class lio.ServerBackend
---@field admit fun(self: lio.ServerBackend, c: lio.Connection) serves a connection
---@field release fun(self: lio.ServerBackend, c: lio.Connection) removes a connection that another owner has taken over
---@field count fun(self: lio.ServerBackend): integer returns the number of connections
---@field is_full fun(self: lio.ServerBackend): boolean reports whether no further connection may be accepted now
---@field notify_leave fun(self: lio.ServerBackend) requests a call of `on_leave` when the next connection is removed
---@field on_leave? fun() set by the server
---@field stop fun(self: lio.ServerBackend) starts a graceful stop
---@field close fun(self: lio.ServerBackend) ends a stop: closes the remaining connections
---@field listen? fun(self: lio.ServerBackend, socket: lio.Socket) sets the socket that `accept` uses
---@field accept? fun(self: lio.ServerBackend): boolean?, string?, string? accepts waiting peers; true: it has accepted connections or is full; false: no peer waits, and the socket is armed; nil, a message and a code: it has failed; default: the server accepts
---@field accept_waiting? fun(self: lio.ServerBackend): boolean? accepts a waiting peer even if the server is full

return drivers
