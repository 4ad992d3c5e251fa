---@meta lio.net.driver
-- Definitions of `lio.net.driver` for the Lua language server; docs/build.lua makes docs/api/lio.net.driver.md of them.
-- luacheck: no max comment line length

---The loop under an instance of `lio.net`: for code that drives the loop of a VM, and for protocol code that serves
---connections itself. Programs use `lio.net`.
---@class lio.net.driver
local drivers = {}

---Makes an instance of `lio.net` on a selector and a scheduler. The VM's main loop calls `step` of the result.
---@param selector lio.Selector
---@param scheduler lio.Scheduler
---@return lio.Driver driver
function drivers.new(selector, scheduler) end

---Returns the driver of an instance.
---@param net lio.NetInstance an instance, or the module `lio.net`
---@return lio.Driver driver
function drivers.of(net) end

---@class lio.Driver
---@field net lio.NetInstance the calls for programs
---@field selector lio.Selector
---@field timers lio.Timers the timers of the loop; the value of a timer is an object with a method `expired`
---@field scheduler lio.DriverScheduler
---@field round_time number seconds of `lio.now` when the last round had its events
local Driver = {}

---The functions of a driver's scheduler, with those that the scheduler given to `new` left out.
---@class lio.DriverScheduler
---@field wait fun(token: any): any
---@field wakeup fun(token: any, ...: any): true?
---@field fork fun(f: function, ...: any)
---@field start fun(f: function, ...: any) runs a task at once if `starts_at_once`, else as `fork`
---@field starts_at_once boolean

---Does one round of the loop: sends what is queued, waits for I/O until the next timer, and wakes the tasks whose sockets
---are ready.
---@param seconds? number the longest wait; default: until something happens
function Driver:step(seconds) end

---Wakes the tasks that wait for events of a socket.
---@param x lio.Connection|lio.Socket
---@param events integer 1 reading, 2 writing, 4 the peer's end, or a sum of these
function Driver:dispatch(x, events) end

---Reports whether a name's addresses are being resolved, so that a task may be woken without I/O.
---@return boolean
function Driver:is_resolving() end

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

---Sets what happens when a timer of shared `timers` fires.
---@param f fun(value: any, id: integer) passes values that are not its own to `fire`
function Driver:set_timer_handler(f) end

---Does what a timer with this value does, unless the value is that of the code that drives the loop.
---@param value any
function Driver:fire(value) end

---Describes what a task waits for that waits on a token, for `lio.tasks`.
---@param token any
---@return string? text nil when it is no token of this driver
function Driver:describe(token) end

---Raises if nothing runs the loop, as in a service that owns none: a wait would never end.
---@param call string the name of the call for the message, as for `string.format`
---@param ... any
function Driver:check_loop(call, ...) end

---Passes the events of a connection to protocol code: the loop calls `handler:on_events(events)`, which must not wait,
---and passes events that it does not want to `dispatch`.
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

---Sends what is queued on a connection before the loop waits next.
---@param c lio.Connection
---@param before? fun() called just before that, to queue more
function Driver:flush_later(c, before) end

---Makes the loop report the events of a connection that no loop had before.
---@param c lio.Connection
---@return lio.Connection c
function Driver:register(c) end

---Ends all waits on a socket that is closed or has another owner: the tasks get `"closed"`.
---@param x lio.Connection|lio.Socket
function Driver:forget(x) end

---Waits until a connection that the caller has armed is readable.
---@param c lio.Connection
---@param seconds? number default: the limit of `net.timeout`
---@return true|string reason true, `"timeout"`, `"closed"`, or the reason of `wake_reader`
function Driver:wait_readable(c, seconds) end

---Wakes the task that waits to read from a connection.
---@param c lio.Connection
---@param reason any the result of its `wait_readable`
---@return boolean woken whether a task waited
function Driver:wake_reader(c, reason) end

---Makes a token, on which one task can wait.
---@return table token
function Driver:new_token() end

---Waits for `wake`, as a task.
---@param token table
---@param seconds? number default: no limit
---@return any value that of `wake`, or `"timeout"`
function Driver:wait(token, seconds) end

---Ends the wait on a token.
---@param token table
---@param value any
---@return boolean woken whether a task waited
function Driver:wake(token, value) end

---Waits, as a task.
---@param seconds number
function Driver:sleep(seconds) end

---Starts a server whose connections are held and served by a backend.
---@param listener? lio.Listener nil: connections come by `server:admit` only
---@param backend lio.ServerBackend
---@return lio.Server server
function Driver:serve(listener, backend) end

---The connections of a server, and how they are served. All functions are called as methods.
---@class lio.ServerBackend
---@field admit fun(self: lio.ServerBackend, c: lio.Connection) serves a connection
---@field release fun(self: lio.ServerBackend, c: lio.Connection) forgets a connection that another owner has taken over
---@field count fun(self: lio.ServerBackend): integer how many connections it has
---@field is_full fun(self: lio.ServerBackend): boolean whether no connection is to be accepted now
---@field notify_leave fun(self: lio.ServerBackend) requests a call of `on_leave` when the next connection leaves
---@field on_leave? fun() set by the server
---@field stop fun(self: lio.ServerBackend) a stop begins
---@field close fun(self: lio.ServerBackend) a stop ends: closes the connections that are left
---@field listen? fun(self: lio.ServerBackend, socket: lio.Socket) the socket that `accept` uses
---@field accept? fun(self: lio.ServerBackend): boolean?, string?, string? true: it has accepted, or has no room; false: no peer waits, and the socket is armed; default: the server accepts
---@field accept_waiting? fun(self: lio.ServerBackend): boolean? accepts a peer that waits, also without room

return drivers
