---@meta lio.thread
-- Definitions of `lio.thread` for the Lua language server; docs/build.lua makes docs/api/lio.thread.md of them.

---Light threads: tasks that can be waited for, killed, and bound to a scope, in `lio.loop` and in services. Each
---has a parent, the task or thread that spawned it, or its scope. docs/coroutines.md is the guide.
---
---The result of a thread goes to one who waits, once: then it is reaped. Until that, one that has ended is a
---*zombie*; its parent's end reaps it as well. A failure that nobody waited for is logged then, with its traceback.
---@class lio.thread
local thread = {}

---Makes a thread, which runs at once until its first wait; then the caller goes on. (When 32 threads are
---starting inside each other, the next one is queued.) A parent that ends does not kill its threads.
---@param f function anything that can be called
---@param ... any its arguments
---@return lio.Thread t
function thread.spawn(f, ...) end

---Waits until the first of these has ended; of those that have, the first in the list. Raises when a thread waits
---for itself. A result goes to the first who runs after the thread's end: of those who waited, the first in order.
---@param t lio.Thread
---@param ... lio.Thread
---@return boolean? ok true: it returned; false: it raised or was killed; nil: somebody else had its result
---@return any ... its results, or the error, which of a killed one is `"killed"`; `"already waited"` behind nil
function thread.wait(t, ...) end

---Ends a thread at its wait, or before it began. Its `<close>` variables have run when this returns; they cannot
---wait. Raises for a thread that is running, the caller itself for instance, or one that is spawning the caller.
---@param t lio.Thread
---@return true? killed
---@return string? message `"already ended"`
function thread.kill(t) end

---Tells the state of a thread: `"running"`, also when it is resuming or spawning the caller; `"waiting"`: in a
---wait, or queued; `"zombie"`: it has ended and its result is there; `"dead"`: that was reaped.
---@param t lio.Thread
---@return "running"|"waiting"|"zombie"|"dead" status
function thread.status(t) end

---Makes a scope: `local scope <close> = thread.scope()`. The end of the block, however it is reached, kills the
---scope's threads that are left and awaits them.
---@return lio.Scope scope
function thread.scope() end

---Runs several at a time and waits for all. When one fails, or was killed, the others are killed at once; so are
---those that were made here, when the caller is killed.
---@param list (function|table|lio.Thread)[] functions, `{ f, arguments… }`, and threads
---@return boolean ok
---@return table|any results a list of what `table.pack` makes of each one's results; the first error when `ok` is false
function thread.all(list) end

---Runs several at a time and waits for the first to end, in whichever way. The others are killed. Raises for an
---empty list.
---@param list (function|table|lio.Thread)[] as for `all`
---@return boolean? ok
---@return any ... as of `wait`
function thread.race(list) end

---Runs `f` in a thread and waits for it at most that long. Then it is killed.
---@param seconds number in a service without a loop, rounded up to centiseconds
---@param f function
---@param ... any its arguments
---@return boolean? ok true: it returned; false: it raised; nil: the time was over
---@return any ... its results, or the error; `"timeout"` behind nil
function thread.timeout(seconds, f, ...) end

---What a token of this module stands for, for `lio.tasks`.
---@private
---@return string? text
function thread.describe(token) end

---A thread, by which it is waited for and killed. It has no methods; what it holds is the module's own.
---@class lio.Thread

---Threads that do not outlive a block. The scope is their parent; any task may use it.
---@class lio.Scope
local Scope = {}

---Makes a thread of this scope, as `thread.spawn` does. Raises when the scope is closed.
---@param f function
---@param ... any its arguments
---@return lio.Thread t
function Scope:spawn(f, ...) end

---Waits until all threads of the scope have ended. Its answer counts as having seen their failures.
---@return boolean ok false when one has failed; one that was killed has not
---@return any err of the first that failed
function Scope:wait() end

---Closes the scope, as the end of the block does: kills what is left, the oldest first. A thread that is in the
---middle of this very call is killed as soon as it is not. Nothing for a scope that is closed.
function Scope:close() end

---A thread of the scope has ended.
---@private
function Scope:forget(t, ok, err) end

return thread
