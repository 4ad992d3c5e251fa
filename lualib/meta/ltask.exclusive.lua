---@meta ltask.exclusive
-- Definitions of `ltask.exclusive` for the Lua language server; docs/build.lua makes docs/api/ltask.exclusive.md
-- of them.

---What exclusive services have (G1): those that the configuration gives a thread of their own. The main
---function of one is resumed right after each yield, message or not, and blocks by itself. In any other service
---`require` of this module raises.
---@class ltask.exclusive
local exclusive = {}

---Posts a message. One to a full mailbox waits in the sending queue, and is delivered after a yield, in order.
---@param to ltask.Address
---@param session integer
---@param type integer
---@param pointer? lightuserdata it is taken
---@param size? integer
---@return true? ok nothing when the sending queue is full; then the block is still the caller's
function exclusive.send(to, session, type, pointer, size) end

---Gives a function that delivers now what waits in the sending queue.
---@return fun() deliver
function exclusive.scheduling() end

---Does nothing: timers are delivered without help.
---@param blocked? table
---@return table blocked empty
function exclusive.timer_update(blocked) end

---Blocks the thread; the system's end cuts it short.
---@param milliseconds number
function exclusive.sleep(milliseconds) end

---Gives the descriptor that is readable when messages are there, and once at first. Once per service.
---@return fun(): true wait blocks until the descriptor is readable, and takes that
---@return lightuserdata descriptor
function exclusive.eventinit() end

---Makes a new descriptor in the place of the one of `eventinit`, which is closed.
---@return lightuserdata descriptor
function exclusive.eventreset() end

return exclusive
