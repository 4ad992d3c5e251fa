---@meta skynet.netpack
-- Definitions of `skynet.netpack` for the Lua language server. docs/build.lua generates docs/api/skynet.netpack.md from
-- them.

---Messages with a length of two bytes before them, most significant byte first. `snax.gateserver` uses them. A message
---is a Lua string, and its size the length of the string.
---@class skynet.netpack
local netpack = {}

---The complete messages that wait for `pop`, and the parts of incomplete ones, of all sockets.
---@alias skynet.FrameQueue userdata

---The kind of an event of `filter`.
---@alias skynet.FrameEvent "data"|"more"|"open"|"close"|"error"|"warning"|"init"

---The `unpack` of a protocol with `id = skynet.PTYPE_SOCKET`: cuts the bytes of connections into messages. The further
---results depend on the event. `"data"`: the socket, the message, its size. `"more"`: none; several messages are queued
---for `pop`. `"open"`: the new socket, its address. `"close"`: the socket. `"error"`: the socket, a message.
---`"warning"`: the socket, the KiB that are waiting to be sent. `"init"`: a listener, its address, its port.
---@param queue? skynet.FrameQueue the first result of the last call; nil in the first call
---@param data string the bytes of the event, from the scheduler
---@return skynet.FrameQueue? queue
---@return skynet.FrameEvent? event nil if no message is complete
---@return any ... see above
function netpack.filter(queue, data) end

---Removes the next queued message.
---@param queue? skynet.FrameQueue
---@return integer? id the socket; nil if no message is queued
---@return string? message
---@return integer? size
function netpack.pop(queue) end

---Drops all messages, and what has arrived of incomplete ones.
---@param queue? skynet.FrameQueue
function netpack.clear(queue) end

---Puts the length of a message before it. Raises if the message has more than 65,535 bytes.
---@param message string|lightuserdata a packed message is freed
---@param size? integer the size of a packed message
---@return string bytes
---@return integer size of the bytes
function netpack.pack(message, size) end

---Returns a message as a string.
---@param message? string|lightuserdata nil: returns the empty string
---@param size? integer the size of a packed message
---@return string text
function netpack.tostring(message, size) end

return netpack
