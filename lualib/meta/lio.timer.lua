---@meta lio.timer
-- Definitions of `lio.timer` for the Lua language server. docs/build.lua generates docs/api/lio.timer.md from them.

---Timer queues, for code that drives its own loop. Programs use `loop.sleep` and `loop.timeout`.
---@class lio.timer
local timer = {}

---Creates an empty queue.
---@return lio.Timers timers
function timer.new() end

---Pauses the clock of this VM, which timers, `lio.now` and servers use. `testing.clock` pauses it, and also makes the
---loop move it.
---@return boolean was_running
function timer.pause() end

---Ends a pause. The clock continues from its current time.
function timer.resume() end

---Moves a paused clock forward. If the clock is not paused, does nothing.
---@param seconds number
function timer.advance(seconds) end

---Reads the monotonic clock, even while the clock of this VM is paused.
---@return number seconds
function timer.real() end

---A queue of timers on the clock of this VM, which is the monotonic clock unless it is paused. Each timer has a value,
---which the queue keeps alive. Seconds may be fractional; a negative number counts as 0, more than 3.2e9 counts as
---3.2e9, and NaN raises. A timer never fires early.
---@class lio.Timers
local Timers = {}

---Adds a timer that fires once and is then removed.
---@param seconds number from now
---@param value any
---@return integer id
function Timers:add(seconds, value) end

---Creates a timer that is not set. It stays in the queue after it has fired, until `free`.
---@param value any
---@return integer id
function Timers:create(value) end

---Sets or moves a timer. Moving it to a later time is cheap.
---@param id integer
---@param seconds number from now
---@return boolean found whether the timer exists
function Timers:set(id, seconds) end

---Clears a timer: it does not fire until it is set again.
---@param id integer
---@return boolean found whether the timer exists
function Timers:clear(id) end

---Removes a timer.
---@param id integer
---@return boolean found whether the timer existed
function Timers:free(id) end

---Removes a timer: another name for `free`.
---@param id integer
---@return boolean found whether the timer existed
function Timers:cancel(id) end

---Returns the time until the next timer is due.
---@return number? seconds 0 if a timer is due; nil if none is set
function Timers:next() end

---Returns the value and the id of the next timer that is due.
---@return any value no results if no timer is due
---@return integer? id
function Timers:expire() end

---Moves a paused clock to the time at which the next timer is due.
---@return boolean found whether a timer is set
function Timers:skip() end

---Returns the number of timers, set or not.
---@return integer count
function Timers:count() end

return timer
