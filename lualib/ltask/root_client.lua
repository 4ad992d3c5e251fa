-- The functions of `ltask` that send requests to the root service: to create, find, name and end services.

local ltask = require "ltask"
local core = require "ltask.core"
local require <const> = core.require_now

local ROOT <const> = 1

local M = {}

-- Loads the module only when a check fails.
local function misuse() return require "lio.misuse" end

-- `check_answer(call, pcall(…))`: returns the results of a request to root. If the request has failed, raises the
-- error; `call` is the name of the function that the program has called.
function M.check_answer(call, ok, ...)
  if ok then return ... end
  local err = ...
  -- An error that root raises is an error object, or a message that begins with `{service:`. Other errors come from the
  -- program's call.
  if type(err) ~= "string" or err:find "^{service:" then error(err, 0) end
  misuse().relay(call, (err:gsub("call: cannot wait", call .. ": cannot wait", 1)))
end

-- Returns whether the running task runs this service's file: it handles root's request `init`.
local function is_in_file()
  local from, session = core.current()
  return from == ROOT and session ~= 0
end

-- Sends root the request whose name is `call`, and returns the answer. Root records what a service's file waits for, so
-- that it can report files that wait for each other. The callers do not use a tail call, so that the
-- traceback of an error contains their names.
local function ask_root(call, ...)
  if is_in_file() then return M.check_answer(call, pcall(ltask.call, ROOT, "in_file", call, ...)) end
  return M.check_answer(call, pcall(ltask.call, ROOT, call, ...))
end

local function check_name(call, name)
  if type(name) ~= "string" then misuse().argument(call, 1, "string", name) end
end

-- The name of a new service is also its label.
local function check_new_name(call, name)
  check_name(call, name)
  if not utf8.len(name) then misuse().bad(call, 1, "not valid UTF-8") end
end

local FIELDS <const> = {
  label = "string", source = "string", initfunc = "string", chunkname = "string", worker_id = "integer",
}

-- Also accepts values that Lua converts: a number for a string, and a numeric string for an integer.
local function is_type(wanted, value)
  if wanted == "integer" then return math.tointeger(tonumber(value)) ~= nil end
  return type(value) == wanted or type(value) == "number"
end

local function refuse_field(name, wanted, value)
  local got = math.type(value) or type(value)
  misuse().bad("spawn_service", 1, ("field '%s': %s expected, got %s"):format(name, wanted, got))
end

-- `ltask.spawn(name, …)`: creates a service from the file `name`, which gets the other arguments. Returns its address.
function M.spawn(name, ...)
  check_new_name("spawn", name)
  return (ask_root("spawn", name, ...))
end

-- `ltask.spawn_service{ name=, args=, worker_id=, source=, chunkname=, label=, unique= }`: creates the service that the
-- table describes. Returns its address.
function M.spawn_service(t)
  if type(t) ~= "table" then misuse().argument("spawn_service", 1, "table", t) end
  if type(t.name) ~= "string" then refuse_field("name", "string", t.name) end
  for name, wanted in pairs(FIELDS) do
    local value = t[name]
    if value ~= nil and not is_type(wanted, value) then refuse_field(name, wanted, value) end
  end
  if not utf8.len(t.label or t.name) then misuse().bad("spawn_service", 1, "the label is not valid UTF-8") end
  return (ask_root("spawn_service", t))
end

-- `ltask.uniqueservice(name, …)`: returns the address of the unique service of that name. Creates it if there is none.
function M.uniqueservice(name, ...)
  check_new_name("uniqueservice", name)
  return (ask_root("uniqueservice", name, ...))
end

-- `ltask.queryservice(name)`: waits until a service has that name, and returns its address.
function M.queryservice(name)
  check_name("queryservice", name)
  return (ask_root("queryservice", name))
end

-- `ltask.register(name)`: gives this service a name.
function M.register(name)
  check_name("register", name)
  ask_root("register", name)
end

-- `ltask.kill(addr)`: makes a service quit. Returns whether the service existed and was not killed before.
function M.kill(addr)
  return (ask_root("kill", addr))
end

-- `ltask.servicepath([path])`: sets the path of service files for later spawns. Returns the current path.
function M.servicepath(path)
  if path ~= nil then check_name("servicepath", path) end
  return (ask_root("servicepath", path))
end

return M
