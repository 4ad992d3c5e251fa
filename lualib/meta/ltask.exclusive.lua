---@meta ltask.exclusive
-- Definitions of `ltask.exclusive` for the Lua language server. docs/build.lua generates docs/api/ltask.exclusive.md
-- from them.

---Calls for exclusive services (G1, see `ltask`): the configuration gives each of them its own thread. The main
---function of an exclusive service is resumed after each yield, with or without a message, and must block when it has
---nothing to do. In any other service, `require` of this module raises.
---@class ltask.exclusive
local exclusive = {}

---Posts a message. If the mailbox is full, the message waits in the sending queue and is delivered after a yield, in
---order.
---@param to ltask.Address
---@param session integer 0: no answer is expected
---@param type integer 0 to 254, as in `ltask.PostedMessage`
---@param pointer? lightuserdata the message takes ownership of it
---@param size? integer
---@return true? ok nothing if the sending queue is full: the caller still owns the block
function exclusive.send(to, session, type, pointer, size) end

---Returns a function that delivers the messages of the sending queue now.
---@return fun() deliver
function exclusive.scheduling() end

---Does nothing, because the scheduler runs the timers.
---@param blocked? table
---@return table blocked empty
function exclusive.timer_update(blocked) end

---Blocks the thread. Returns early if the system ends.
---@param milliseconds number a negative number counts as 0
function exclusive.sleep(milliseconds) end

---Returns the descriptor of this service. The descriptor is readable at first, and whenever messages have arrived. A
---second call raises.
---@return fun(): true wait blocks until the descriptor is readable, and makes it unreadable
---@return lightuserdata descriptor
function exclusive.eventinit() end

---Closes the descriptor of `eventinit` and returns a new one.
---@return lightuserdata descriptor
function exclusive.eventreset() end

return exclusive
