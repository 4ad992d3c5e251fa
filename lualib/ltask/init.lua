-- A service's start: what root asks of it first. Run once and not kept. `t`: `name`, `args`, and how to find
-- the service's file.

local ltask = require "ltask"
local core = require "ltask.core"
local t = ...

local function find()
  if t.source then return load(t.source, t.chunkname or "=" .. t.name) end
  local path, problem = package.searchpath(t.name, t.service_path or "")
  if path then return loadfile(path) end
  for _, name in ipairs { "ltask." .. t.name, t.name .. ".service" } do
    local text, chunkname = core.embedded(name)
    if text then return load(text, chunkname) end
  end
  return nil, ("cannot find service '%s':%s"):format(t.name, problem or "")
end

local function start()
  if t.lua_path then package.path = t.lua_path end
  if t.lua_cpath then package.cpath = t.lua_cpath end
  if t.generation then core.generation(t.generation) end
  if t.preload then assert(load(t.preload, "=preload"))() end
  local f, problem = find()
  if not f then error(problem, 0) end
  local args = t.args or {}
  local handlers = f(table.unpack(args, 1, args.n or #args))
  if type(handlers) == "table" then ltask.dispatch(handlers) end
end

if ltask.self() ~= 1 then return start() end
local ok, problem = xpcall(start, debug.traceback)
if ok then return end
-- Without root there is nobody to end the system.
ltask.log.error(problem)
require "ltask.root".set_exit_code(1)
core.finish()
