---@meta lio.timer
-- Definitions of `lio.timer` for the Lua language server; docs/build.lua makes docs/api/lio.timer.md of them.

---Timer queues, for those who drive a loop of their own; programs use `lio.loop`'s `sleep` and `timeout`.
---@class lio.timer
local timer = {}

---Makes an empty queue.
---@return lio.Timers timers
function timer.new() end

---A queue of timers on the monotonic clock. Each carries a value, which the queue keeps alive. Seconds
---may have fractions; negative counts as 0, more than 3.2e9 as that, and NaN raises. A timer never fires
---early.
---@class lio.Timers
local Timers = {}

---Adds a timer that fires once and then is gone.
---@param seconds number from now
---@param value any
---@return integer id
function Timers:add(seconds, value) end

---Makes a timer that is not set, and stays after it fired until `free`.
---@param value any
---@return integer id
function Timers:create(value) end

---Sets a timer, or moves it; to a later time that costs next to nothing.
---@param id integer
---@param seconds number from now
---@return boolean found whether there is such a timer
function Timers:set(id, seconds) end

---Takes a timer's time away: it does not fire until it is set again.
---@param id integer
---@return boolean found whether there is such a timer
function Timers:clear(id) end

---Removes a timer.
---@param id integer
---@return boolean found whether there was such a timer
function Timers:free(id) end

---Removes a timer: another name of `free`.
---@param id integer
---@return boolean found whether there was such a timer
function Timers:cancel(id) end

---Tells how long it is until the next timer is due.
---@return number? seconds 0 when it is due; nil when none is set
function Timers:next() end

---Takes the next timer that is due.
---@return any value nothing when none is due
---@return integer? id
function Timers:expire() end

---Counts the timers, set or not.
---@return integer count
function Timers:count() end

return timer
