---@meta lio
-- Definitions of `lio` for the Lua language server; docs/build.lua makes docs/api/lio.md of them.

---What a selector takes as a descriptor: a `lio.socket` object, a connection, a lightuserdata that holds
---a raw descriptor, an integer, a Lua file, or a table or userdata with a method `handle`, `fileno` or
---`getfd` that returns one of these.
---@alias lio.Descriptor lio.Socket|lio.Connection|lightuserdata|integer|file*|table|userdata

---The selector: which descriptors are ready for reading or writing. Readiness is level-triggered: it is
---told again on every `wait` while it lasts. Requiring `lio` also makes the `bee.*` modules loadable.
---
---Calls that reach the system fail with `nil, message, code`; the message names the call, the code is a
---short word (`"closed"`, `"exists"`, `"EMFILE"` …). Misuse raises.
---@class lio
---@field SELECT_READ integer 1: interest and event bit for reading
---@field SELECT_WRITE integer 2: interest and event bit for writing
---@field VERSION string version of lio, such as `"0.1.0"`
local lio = {}

---Makes a selector.
---@param max_events? integer how many events one wait takes from the system, 1 to 65536; default 1024
---@return lio.Selector? selector
---@return string? message why the system refused (epoll_create1(2))
---@return string? code
function lio.create(max_events) end

---Takes a waker over from another VM of the process.
---@param handle lightuserdata what `waker:handle()` gave there
---@return lio.Waker? waker
---@return string? message when its selector is gone
---@return string? code `"closed"`
function lio.waker(handle) end

---Reads the monotonic clock (clock_gettime(2)); only differences mean something.
---@return number seconds
function lio.now() end

---Reads the system's clock, with fractions; it may be set back.
---@return number seconds since 1970
function lio.wall() end

---Names a file that the program uses and that is not Lua code, such as a template. When `lio --watch` runs the
---program, it restarts when the file changes, is replaced, or appears. What `require`, `dofile` and `loadfile`
---load, and the files of services, need no call.
---@param path string a file, which need not be there yet; relative to the current folder
---@return boolean watched whether `lio --watch` runs the program
function lio.watch(path) end

---Lists what each task of this VM is doing, the oldest first. For people who look after a program, not for its
---logic.
---@return lio.TaskInfo[] list
function lio.tasks() end

---The sockets that the process was started with, after sd_listen_fds(3): variables `LISTEN_PID`, `LISTEN_FDS`
---and `LISTEN_FDNAMES`. `net.listen` and `app:listen` take them. Each call, in each VM, gives duplicates of the
---same sockets: to close one leaves the inherited socket open. Descriptors that are no sockets are left out.
---@return lio.InheritedSockets? sockets empty when there are none, or the variables are for another process
---@return string? message
---@return string? code
function lio.systemd() end

---A list of `lio.Socket`, whose elements are at 1, 2, …
---@class lio.InheritedSockets
---@field names string[] the name of each; `"unknown"` without one

---One task. In what `ltask.call(addr, "tasks")` returns there is no `thread`.
---@class lio.TaskInfo
---@field thread thread its own coroutine
---@field age number seconds since it was made
---@field status "running"|"ready"|"waiting" ready: queued
---@field waits_for? string what a waiting one waits for, in words
---@field traceback string of each of the coroutines that are resuming each other, the innermost first

---A set of registered descriptors. It holds its udata until `event_del`; `close`, `<close>` and the
---collector give everything back. Every method but `close` raises when it is closed.
---@class lio.Selector
local Selector = {}

---Registers a descriptor. A regular file is refused, as it is always ready (code `"denied"`).
---@param fd lio.Descriptor
---@param events integer `SELECT_READ`, `SELECT_WRITE`, both, or 0: registered, nothing asked
---@param udata? any what the loop yields for it; default `fd`
---@return true? ok
---@return string? message
---@return string? code `"exists"` when it is registered already
function Selector:event_add(fd, events, udata) end

---Changes what is asked for, and the udata when one is given.
---@param fd lio.Descriptor
---@param events integer 0 to 3, as for `event_add`
---@param udata? any
---@return true? ok
---@return string? message
---@return string? code `"not found"` when it is not registered
function Selector:event_mod(fd, events, udata) end

---Forgets a descriptor; what this batch still had of it is not delivered.
---@param fd lio.Descriptor
---@return true? ok
---@return string? message
---@return string? code `"not found"` when it is not registered
function Selector:event_del(fd) end

---`for udata, events in sel:wait(timeout) do`: blocks until something is ready, then yields each ready
---registration once with its ready bits. Errors and hang-ups count as the bits that were asked for.
---Raises inside a loop over an earlier wait of the same selector, and when nothing is registered, no
---waker was taken and no timeout is given.
---@param timeout? number seconds, fractions allowed; absent or negative: for ever; 0: poll
---@return fun(): any, integer iterator udata and bits
function Selector:wait(timeout) end

---Gives an object that makes a blocked or the next `wait` return, from any thread.
---@return lio.Waker? waker
---@return string? message
---@return string? code
function Selector:waker() end

---Counts the registrations.
---@return integer count
function Selector:count() end

---Gives everything back. Idempotent.
---@return true
function Selector:close() end

---Asks for events in addition, for one delivery. What loops use for descriptors registered with 0.
---@param fd lio.Descriptor
---@param events integer 1 reading, 2 writing, 4 the peer's end, or a sum of these
---@return true? ok
---@return string? message
---@return string? code `"not found"` when it is not registered
function Selector:arm(fd, events) end

---Changes what the loop yields for a descriptor, and nothing else.
---@param fd lio.Descriptor
---@param udata any
---@return true? ok
---@return string? message
---@return string? code `"not found"` when it is not registered
function Selector:set_udata(fd, udata) end

---`event_add` with epoll(7)'s event bits, on which `bee.epoll` stands.
---@param fd lio.Descriptor
---@param mask integer the bits of `bee.epoll`
---@param udata? any default `fd`
---@return true? ok
---@return string? message
---@return string? code
function Selector:epoll_add(fd, mask, udata) end

---`event_mod` with epoll(7)'s event bits.
---@param fd lio.Descriptor
---@param mask integer
---@param udata? any
---@return true? ok
---@return string? message
---@return string? code
function Selector:epoll_mod(fd, mask, udata) end

---Wakes one selector. May be used on any thread of the process, through `handle`.
---@class lio.Waker
local Waker = {}

---Makes a blocked or the next `wait` return. A burst of wakes costs one system call.
---@return true? ok
---@return string? message
---@return string? code
function Waker:wake() end

---Gives a number that `lio.waker` in any VM of the process turns into a waker.
---@return lightuserdata handle
function Waker:handle() end

return lio
