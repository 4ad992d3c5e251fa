---@meta skynet.start
-- Definitions of `skynet.start` for the Lua language server. docs/build.lua generates docs/api/skynet.start.md from
-- them.

---Boots a system of skynet services from a table like skynet's configuration. The module can be called:
---`require "skynet.start" { … }`.
---@class skynet.start
---@overload fun(config: skynet.Config|string): integer
local start = {}

---Runs a system until it has ended. If the table is invalid, raises before anything runs. Also raises if the first
---service could not start.
---@param config skynet.Config|string a string: the name of the first service
---@return integer code the exit code
function start.start(config) end

---Reads a configuration file of skynet: a Lua file whose globals are the fields. It may use `include "file"`, whose
---path is relative to the file, and `$NAME`, which is replaced by an environment variable. Raises if a file cannot be
---read or has an error, or if a variable is not set.
---@param path string
---@return skynet.Config config
function start.config(path) end

---The configuration of a system. `skynet.getenv` returns the value of any field, including fields not listed here,
---except for tables. The log names fields that are probably misspelled, and fields of skynet that have no effect.
---@class skynet.Config
---@field start? string the first service; default `"main"`
---@field args? any[] the arguments of its file
---@field thread? integer threads that run services, 1 to 256; default: the number of cores minus one, at least 1
---@field luaservice? string path on which services are found: templates with `?`; default `"./?.lua"`
---@field lua_path? string `package.path` of each service; default: that of the program
---@field lua_cpath? string `package.cpath` of each service; default: that of the program
---@field preload? string a Lua file that runs in each service before its own file
---@field logger? string a file to which the log is appended; default: standard output, and standard error for errors
---@field logservice? string a service that takes the log with `ltask.poplog`; with `"snlua"` its name is in `logger`
---@field ltask? table further fields for `ltask.start`

return start
