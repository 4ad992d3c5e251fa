---@meta lio
-- Definitions of `lio` for the Lua language server. docs/build.lua generates docs/api/lio.md from them.

---A value that a selector accepts as a descriptor: a `lio.socket` object, a connection, a raw descriptor as a
---lightuserdata or an integer, a Lua file, or a table or userdata with a method `handle`, `fileno` or `getfd` that
---returns one of these.
---@alias lio.Descriptor lio.Socket|lio.Connection|lightuserdata|integer|file*|table|userdata

---The selector, which reports the descriptors that are ready for reading or writing. Readiness is level-triggered:
---every `wait` reports it again while it lasts. After `require "lio"`, the `bee.*` modules can be loaded.
---
---On failure, a call returns nil, a message and a code. The message names the call. The code is a short word
---(`"closed"`, `"exists"`, `"EMFILE"` …). Misuse raises.
---@class lio
---@field SELECT_READ integer 1: interest and event bit for reading
---@field SELECT_WRITE integer 2: interest and event bit for writing
---@field VERSION string version of lio, such as `"0.1.0"`
local lio = {}

---Creates a selector.
---@param max_events? integer maximum number of events that one wait takes from the system, 1 to 65536; default 1024
---@return lio.Selector? selector
---@return string? message the system's error (epoll_create1(2))
---@return string? code
function lio.create(max_events) end

---Returns a waker for a selector in another VM of the process.
---@param handle lightuserdata the result of `waker:handle()` in that VM
---@return lio.Waker? waker
---@return string? message if the selector is closed
---@return string? code `"closed"`
function lio.waker(handle) end

---Reads the monotonic clock (clock_gettime(2)), or the virtual time of `testing.clock`. Only the difference between two
---readings is meaningful.
---@return number seconds
function lio.now() end

---Reads the system's clock, which can be set back. The time by which `testing.clock` has advanced is added.
---@return number seconds since the Unix epoch (1970-01-01 00:00 UTC), including a fractional part
function lio.wall() end

---Declares a file that the program uses and that is not Lua code, such as a template. If the program runs under
---`lio --watch`, it is restarted when the file changes, is replaced, or is created. No call is needed for files that
---`require`, `dofile` and `loadfile` load, and for the files of services.
---@param path string a file, which does not have to exist yet; relative to the current directory; not empty
---@return boolean watched whether `lio --watch` runs the program
function lio.watch(path) end

---Lists what each task of this VM is doing, the oldest task first. It is meant for debugging and monitoring.
---@return lio.TaskInfo[] list
function lio.tasks() end

---Returns the sockets that the process was started with, as sd_listen_fds(3) does: reads the environment variables
---`LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`. `net.listen` and `app:listen` accept these sockets. Each call, in
---each VM, returns new duplicates: closing a duplicate leaves the inherited socket open. Inherited descriptors that are
---not sockets are left out.
---@return lio.InheritedSockets? sockets empty if there are none, or if the variables are for another process
---@return string? message
---@return string? code
function lio.systemd() end

---A list of `lio.Socket`, with elements at 1, 2, …
---@class lio.InheritedSockets
---@field names string[] the name of each socket; `"unknown"` for a socket without a name

---The state of one task. The results of `ltask.call(addr, "tasks")` do not have the field `thread`.
---@class lio.TaskInfo
---@field thread thread the task's own coroutine
---@field age number seconds since the task was created
---@field status "running"|"ready"|"waiting" ready: in the ready queue
---@field waits_for? string what a waiting task waits for, as text
---@field traceback string the tracebacks of the task's nested coroutines, the innermost first

---A set of registered descriptors. It keeps the udata of a registration until `event_del`. `close`, `<close>` and the
---collector release everything. If the selector is closed, every method except `close` raises.
---@class lio.Selector
local Selector = {}

---Registers a descriptor. A regular file or directory is refused with `"denied"`, because it is always ready.
---@param fd lio.Descriptor
---@param events integer `SELECT_READ`, `SELECT_WRITE`, their sum, or 0: registered without interest in any event
---@param udata? any the value that `wait` yields for the descriptor; default `fd`
---@return true? ok
---@return string? message
---@return string? code `"exists"`: already registered; `"closed"`: `fd` is closed; `"denied"`
function Selector:event_add(fd, events, udata) end

---Changes the events of a registration, and its udata if one is given.
---@param fd lio.Descriptor
---@param events integer 0 to 3, as for `event_add`
---@param udata? any default: no change
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Selector:event_mod(fd, events, udata) end

---Removes a registration. Its remaining events of the current batch are not delivered.
---@param fd lio.Descriptor
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Selector:event_del(fd) end

---`for udata, events in sel:wait(timeout) do`: blocks until a registration is ready, the timeout has passed, or a waker
---wakes the selector; then yields each ready registration once, with its event bits. An error or a hang-up is reported
---as the bits that the registration requested. Raises if called inside the loop over an earlier wait of the same
---selector. Also raises if nothing is registered, the selector has no waker and no timeout is given.
---@param timeout? number seconds, may be fractional; absent, negative, or at least 10^9: no timeout; 0: returns at once
---@return fun(): any, integer iterator yields udata and event bits
function Selector:wait(timeout) end

---Returns an object that makes a blocked `wait`, or the next one, return. It can be used from any thread.
---@return lio.Waker? waker
---@return string? message
---@return string? code
function Selector:waker() end

---Returns the number of registrations.
---@return integer count
function Selector:count() end

---Closes the selector and releases everything it keeps. Idempotent.
---@return true
function Selector:close() end

---Requests events in addition to those that the registration already requests. From then on, a delivered event is no
---longer requested. Loops use this method for descriptors that are registered with 0.
---@param fd lio.Descriptor
---@param events integer 1: reading; 2: writing; 4: the peer has closed its sending side; or a sum of these
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Selector:arm(fd, events) end

---Changes the udata of a registration, and nothing else.
---@param fd lio.Descriptor
---@param udata any
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Selector:set_udata(fd, udata) end

---Like `event_add`, but with the event bits of epoll(7). `bee.epoll` uses it.
---@param fd lio.Descriptor
---@param mask integer a sum of the bits of `bee.epoll`
---@param udata? any default `fd`
---@return true? ok
---@return string? message
---@return string? code as for `event_add`
function Selector:epoll_add(fd, mask, udata) end

---Like `event_mod`, but with the event bits of epoll(7).
---@param fd lio.Descriptor
---@param mask integer a sum of the bits of `bee.epoll`
---@param udata? any default: no change
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Selector:epoll_mod(fd, mask, udata) end

---Wakes one selector. With `handle` and `lio.waker`, any thread of the process can use it.
---@class lio.Waker
local Waker = {}

---Makes a blocked `wait`, or the next one, return. Several wakes in a row cost one system call.
---@return true? ok
---@return string? message
---@return string? code
function Waker:wake() end

---Returns a value that `lio.waker`, in any VM of the process, turns into a waker.
---@return lightuserdata handle
function Waker:handle() end

return lio
