---@meta lio.signal
-- Definitions of `lio.signal` for the Lua language server. docs/build.lua generates docs/api/lio.signal.md from them.

---@alias lio.SignalName
---| "SIGHUP"
---| "SIGINT"
---| "SIGQUIT"
---| "SIGTERM"
---| "SIGUSR1"
---| "SIGUSR2"
---| "SIGCHLD"
---| "SIGWINCH"
---| "SIGALRM"
---| "SIGCONT"
---| "SIGPIPE"

---Signals (signal(7)) as readiness of a descriptor, for code that drives its own loop. Programs use `loop.signal`.
---@class lio.signal
local signal = {}

---Watches signals. A process can have up to 8192 watchers. While the watcher is open, their default actions do not run,
---with one exception: a second SIGINT or SIGQUIT that arrives before `take` has returned the first one ends the
---program. Raises for an unknown name.
---@param ... lio.SignalName at least one
---@return lio.SignalWatcher? watcher
---@return string? message
---@return string? code `"EMFILE"` if there are too many watchers or open descriptors
function signal.open(...) end

---Like `open`, but meant for a program that opens its watchers later, in other VMs: a watcher that is opened before
---this one is closed also gets the signals that have arrived in the meantime.
---@param ... lio.SignalName at least one
---@return lio.SignalWatcher? watcher
---@return string? message
---@return string? code as for `open`
function signal.hold(...) end

---Sends a signal to this process. Raises for an unknown name.
---@param name lio.SignalName
function signal.raise(name) end

---A watcher: a descriptor for a selector, readable when a signal has arrived. `<close>` and the collector close it.
---@class lio.SignalWatcher
local Watcher = {}

---Returns the names of the signals that have arrived since the last call, each once.
---@return lio.SignalName? ... no value if no signal has arrived
function Watcher:take() end

---Returns the descriptor.
---@return lightuserdata handle
function Watcher:handle() end

---Closes the watcher. When the last watcher of a signal is closed, the signal's previous action is restored.
---Idempotent.
function Watcher:close() end

return signal
