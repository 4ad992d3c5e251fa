---@meta lio.signal
-- Definitions of `lio.signal` for the Lua language server; docs/build.lua makes docs/api/lio.signal.md of them.

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

---Signals as readiness, for those who drive a loop of their own; programs use `lio.loop`'s `signal`.
---@class lio.signal
local signal = {}

---Watches signals, whose default action no longer runs; but a second SIGINT or SIGQUIT that comes before `take` took
---the first one ends the program. An unknown name raises.
---@param ... lio.SignalName one at least
---@return lio.SignalWatcher? watcher
---@return string? message
---@return string? code
function signal.open(...) end

---As `open`, for a program whose watchers are opened later, in other VMs: each watcher that is opened before this one
---closes also gets the signals that came since.
---@param ... lio.SignalName one at least
---@return lio.SignalWatcher? watcher
---@return string? message
---@return string? code
function signal.hold(...) end

---Sends a signal to this process.
---@param name lio.SignalName
function signal.raise(name) end

---A watcher: a descriptor for `lio`'s selector, readable when a signal came. `<close>` and the collector
---close it.
---@class lio.SignalWatcher
local Watcher = {}

---Takes the names of the signals that came since the last call, each once.
---@return lio.SignalName? ... none when nothing came
function Watcher:take() end

---Tells the descriptor.
---@return lightuserdata handle
function Watcher:handle() end

---Ends the watch: what the signals did before comes back. Idempotent.
function Watcher:close() end

return signal
