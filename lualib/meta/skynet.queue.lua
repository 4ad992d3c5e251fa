---@meta skynet.queue
-- Definitions of `skynet.queue` for the Lua language server. docs/build.lua generates docs/api/skynet.queue.md from
-- them.

---Critical sections. The module can be called: `local section = require "skynet.queue"()`.
---@class skynet.queue
---@overload fun(): skynet.Section
local queue = {}

---Runs `f(…)` after the earlier calls of the section have ended, and returns the results of `f`. While `f` waits, no
---other call enters the section. If `f` raises, the section is released and the call raises the error; if the coroutine
---of `f` is closed, the section is released too. Inside `f`, the same handler or fork may enter the section again, even
---from coroutines that it created.
---@alias skynet.Section fun(f: function, ...: any): any

---Creates a section.
---@return skynet.Section section
function queue.new() end

return queue
