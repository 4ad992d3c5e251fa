---@meta lio.thread
-- Definitions of `lio.thread` for the Lua language server. docs/build.lua generates docs/api/lio.thread.md from them.

---Light threads: tasks that can be waited for, killed, and bound to a scope. They work in `lio.loop` and in services.
---Each thread has a parent: the task or thread that spawned it, or its scope. docs/coroutines.md is the guide.
---
---The result of a thread is returned once, to one waiter. A thread that has ended and whose result has not been
---returned is a *zombie*; it is reaped when its result is returned, or when its parent ends. If a zombie with an error
---is reaped because its parent ended, the error is logged with its traceback.
---@class lio.thread
local thread = {}

---Creates a thread and runs it until its first wait; then the caller continues. If 32 of these calls are nested, the
---next thread is appended to the ready queue instead. A thread is not killed when its parent ends.
---@param f function anything that can be called
---@param ... any the arguments of `f`
---@return lio.Thread t
function thread.spawn(f, ...) end

---Waits until one of the threads has ended. If several have ended, the first in the list is used. If several tasks wait
---for one thread, the first of them that runs receives the result; they are woken in the order in which they started
---waiting. Raises if a thread waits for itself.
---@param t lio.Thread
---@param ... lio.Thread
---@return boolean? ok true: the thread returned; false: it raised or was killed; nil: it has already been reaped
---@return any ... its results; the error (`"killed"` for a killed thread); `"already waited"` after nil
function thread.wait(t, ...) end

---Kills a thread that is waiting or ready. When `kill` returns, the thread's `<close>` variables have been closed; a
---wait in a `__close` metamethod raises. Raises if the thread is running: it is the caller, or it is spawning the
---caller.
---@param t lio.Thread
---@return true? killed
---@return string? message `"already ended"`
function thread.kill(t) end

---Returns the status of a thread. `"running"`: it runs, or is resuming or spawning the caller. `"waiting"`: in a wait
---or in the ready queue. `"zombie"`: it has ended and its result has not been returned. `"dead"`: it was reaped.
---@param t lio.Thread
---@return "running"|"waiting"|"zombie"|"dead" status
function thread.status(t) end

---Creates a scope: `local scope <close> = thread.scope()`. When the block ends, for any reason, the remaining threads
---of the scope are killed.
---@return lio.Scope scope
function thread.scope() end

---Runs several threads and waits for all of them. If a thread fails or is killed, the other threads are killed at once.
---If the caller is killed, the threads that `all` created are killed. If an element is invalid, raises before any
---thread is started.
---@param list (function|table|lio.Thread)[] functions, `{ f, arguments… }`, and threads
---@return boolean ok
---@return table|any results for each element, the `table.pack` of its results; if `ok` is false, the first error
function thread.all(list) end

---Runs several threads and waits until the first of them ends. Then kills the other threads. Raises for an empty list.
---@param list (function|table|lio.Thread)[] as for `all`
---@return boolean? ok as for `wait`
---@return any ... as for `wait`
function thread.race(list) end

---Runs `f` in a thread and waits for it. If `f` has not ended when the time has passed, the thread is killed.
---@param seconds number rounded up to centiseconds in a service that has not used `lio.loop` or `lio.net`
---@param f function
---@param ... any the arguments of `f`
---@return boolean? ok true: `f` returned; false: it raised; nil: the time has passed
---@return any ... its results; the error; `"timeout"` after nil
function thread.timeout(seconds, f, ...) end

---Returns the text that `lio.tasks` shows for a token.
---@private
---@return string? text nil if the token does not belong to this module
function thread.describe(token) end

---A thread, as an opaque value for the functions of this module.
---@class lio.Thread

---The parent of threads that do not outlive a block. Any task may use a scope.
---@class lio.Scope
local Scope = {}

---Creates a thread of this scope, as `thread.spawn` does. Raises if the scope is closed.
---@param f function anything that can be called
---@param ... any the arguments of `f`
---@return lio.Thread t
function Scope:spawn(f, ...) end

---Waits until all threads of the scope have ended. The failures of its threads are then not logged.
---@return boolean ok false if a thread has failed; a killed thread does not count as failed
---@return any err the error from the first thread that failed
function Scope:wait() end

---Closes the scope, as the end of the block does: kills the remaining threads, the oldest first. A thread that makes
---this call is killed as soon as the call has ended. If the scope is already closed, does nothing.
function Scope:close() end

---Called when a thread of the scope has ended.
---@private
function Scope:forget(t, ok, err) end

return thread
