---@meta ltask.start
-- Definitions of `ltask.start` for the Lua language server; docs/build.lua makes docs/api/ltask.start.md of them.

---Boots a whole system from a table. The module can be called itself: `require "ltask.start" { … }`.
---@class ltask.start
---@overload fun(config: ltask.Config): integer
local start = {}

---Runs a system until it has ended. Raises what is wrong with the table before anything runs, and, when the system
---has ended, what of it could not start: a bootstrap or exclusive service, the logger, `preload` or `root_initfunc`.
---@param config ltask.Config
---@return integer code the exit code
function start.start(config) end

---The table of a system: fields of both generations, and, as in G1, those of `core` beside them. `bootstrap` is
---`{ "main", args… }`, one service (G1); a list of services, started in that order; or a table of them by name,
---started in the order of their names (G2).
---@class ltask.Config : ltask.CoreConfig
---@field bootstrap string|ltask.ServiceEntry|ltask.ServiceEntry[]|table<string, table|true> the first services
---@field service_path? string where services are found: templates with `?`; default `"./?.lua"`
---@field core? ltask.CoreConfig the scheduler's own values (G2)
---@field lua_path? string `package.path` of each service
---@field lua_cpath? string `package.cpath` of each service
---@field preload? string Lua text that runs in each service before its file
---@field logger? string|table|false the logger's service; default: the one that is built in
---@field exclusive? table[] services with threads of their own: names, or `{ name, args… }` (G1)
---@field generation? 1|2 the form of `ltask.parallel`; default 2
---@field grace? number seconds that services have to quit; default 10
---@field mainthread? fun(context: lightuserdata) runs on the main thread when the system does (G2)
---@field root_initfunc? string Lua text that runs in root first, with the table of its requests as argument (G2)
---@field init_service? string accepted and not needed
---@field root? table accepted and not needed
---@field timer? any accepted and not needed

---A service to be made.
---@class ltask.ServiceEntry
---@field name string the file, found by `service_path`
---@field args? table the file's arguments
---@field unique? boolean the one of its name, which does not keep the system going
---@field worker_id? integer the worker to keep it on, from 0
---@field label? string in figures and in the log; default `name`
---@field source? string Lua text in place of a file
---@field initfunc? string the same as `source`
---@field chunkname? string of `source`

return start
