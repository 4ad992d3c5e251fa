---@meta ltask.root
-- Definitions of `ltask.root` for the Lua language server; docs/build.lua makes docs/api/ltask.root.md of them.

---What root alone may do, for those who write a root service; in any other service `require` of this module
---raises. A new number comes from the schedule message NEW (`ltask.send_message(0, 0, 0)`), and is free again
---after DEL (`ltask.send_message(0, id, 1)`).
---@class ltask.root
local root = {}

---Makes the service of a number. Without a chunk name a source that begins with `@` names a file, and failures
---raise (G1).
---@param id ltask.Address
---@param label string
---@param source string Lua text or a precompiled chunk
---@param chunkname? string
---@param worker? integer the worker to keep it on, from 0
---@return boolean ok
---@return string? message
function root.init_service(id, label, source, chunkname, worker) end

---Closes a service that has died, or makes one die: at once, or, when it runs, at the end of its slice, with a
---signal.
---@param id ltask.Address
---@return integer[] unanswered from, session, from, session, … of the requests that died with it
function root.close_service(id) end

---Sets what the process's run call returns.
---@param code integer
function root.set_exit_code(code) end

return root
