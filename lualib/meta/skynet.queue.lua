---@meta skynet.queue
-- Definitions of `skynet.queue` for the Lua language server; docs/build.lua makes docs/api/skynet.queue.md of them.

---Critical sections. The module can be called itself: `local section = require "skynet.queue"()`.
---@class skynet.queue
---@overload fun(): skynet.Section
local queue = {}

---Runs `f(…)` when the calls before have ended, whatever they wait for, and returns its results. An error of `f` is
---raised, and frees the section, as the end of its coroutine does. Inside, the same handler or fork may enter again,
---also in coroutines of its own making.
---@alias skynet.Section fun(f: function, ...: any): any

---Makes a section.
---@return skynet.Section section
function queue.new() end

return queue
