---@meta ltask.start
-- Definitions of `ltask.start` for the Lua language server. docs/build.lua generates docs/api/ltask.start.md from them.

---Boots a system from a table. The module can be called: `require "ltask.start" { … }`.
---@class ltask.start
---@overload fun(config: ltask.Config): integer
local start = {}

---Runs a system until it has ended. If the table is invalid, raises before anything runs. If a part of the system could
---not start (a bootstrap or exclusive service, the logger, `preload` or `root_initfunc`), raises the error from that
---part after the system has ended.
---@param config ltask.Config
---@return integer code the exit code
function start.start(config) end

---The table of a system. It has the fields of both generations (G1 and G2, see `ltask`) and, as in G1, may have the
---fields of `core` itself. `bootstrap` is `{ "main", args… }`, one service (G1); a list of services, which are started
---in that order; or a table of services by name, which are started in the order of their names (G2). Unknown fields and
---wrong types raise.
---@class ltask.Config : ltask.CoreConfig
---@field bootstrap string|ltask.ServiceEntry|ltask.ServiceEntry[]|table<string, table|true> the first services
---@field service_path? string path on which services are found: templates with `?`; default `"./?.lua"`
---@field core? ltask.CoreConfig the scheduler's own settings (G2)
---@field lua_path? string `package.path` of each service; default: that of the program
---@field lua_cpath? string `package.cpath` of each service; default: that of the program
---@field preload? string Lua code that runs in each service before its file
---@field logger? string|table|false the logger's service; default: the built-in one; false: none
---@field exclusive? table[] services with their own threads: names, or `{ name, args… }` (G1)
---@field generation? 1|2 the form of `ltask.parallel`; default 2
---@field grace? number seconds that services have to quit; default 10
---@field mainthread? fun(context: lightuserdata) runs on the main thread while the system runs (G2)
---@field root_initfunc? string Lua code that runs in root first; its argument is root's request table (G2)
---@field init_service? string accepted and ignored
---@field root? table accepted and ignored
---@field timer? any accepted and ignored

---The description of a service.
---@class ltask.ServiceEntry
---@field name string the file, found by `service_path`
---@field args? table the arguments of the file
---@field unique? boolean whether the service is unique; a unique service does not keep the system running
---@field worker_id? integer the worker to which the service is bound, counted from 0; default: any
---@field label? string label in statistics and in the log; default `name`
---@field source? string Lua code instead of a file
---@field initfunc? string the same as `source`
---@field chunkname? string chunk name of `source`

return start
