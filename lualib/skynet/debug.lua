-- The commands of the protocol "debug", as in `skynet.call(addr, "debug", "STAT")`, which every service of skynet
-- answers. Used by skynet.boot; programs call `reg_debugcmd`.

local ltask = require "ltask"
local inspect = require "skynet.inspect"
local boot = require "skynet.boot"
local message = require "skynet.message"
local skynet = require "skynet"

local M = {}

-- The function that answers the command INFO.
local info

-- `info_func(f)`: makes the command INFO return the results of `f(…)`.
function M.info_func(f)
  if type(f) ~= "function" then
    error(("bad argument #1 to 'info_func' (function expected, got %s)"):format(type(f)), 2)
  end
  info = f
end

local CMD = {}

-- Returns the memory that this VM uses, in KiB.
function CMD.MEM()
  return collectgarbage "count"
end

local is_collecting = false

function CMD.GC()
  if is_collecting then return end
  is_collecting = true
  local before, began = collectgarbage "count", ltask.counter()
  collectgarbage "collect"
  -- Other GC requests that have already arrived are handled during this call, and do not collect again.
  skynet.yield()
  skynet.error(("GC %.2f KiB -> %.2f KiB in %.2f s"):format(before, collectgarbage "count", ltask.counter() - began))
  is_collecting = false
end

function CMD.STAT()
  return {
    task = inspect.task(),
    mqlen = inspect.stat "mqlen",
    cpu = inspect.stat "cpu",
    message = inspect.stat "message",
  }
end

-- Returns the traceback of the coroutine with that session; if `session` is nil, the tracebacks of all waiting
-- coroutines.
function CMD.TASK(session)
  if session then return inspect.task(session) end
  local list = {}
  inspect.task(list)
  return list
end

CMD.UNIQTASK = inspect.uniqtask

function CMD.KILLTASK(which)
  local co = inspect.killthread(which)
  skynet.error(("KILLTASK %s: %s"):format(which, co and "closed " .. tostring(co) or "not found"))
  if not co then return "Not found" end
end

function CMD.INFO(...)
  if info then return info(...) end
  return nil
end

CMD.EXIT = boot.exit

CMD.TERM = inspect.term

function CMD.SUPPORT(name)
  return message.protocols[name] ~= nil and message.dispatch(name) ~= nil
end

function CMD.PING() end

-- Never answers. The caller gets an error when this service ends.
CMD.LINK = ltask.no_response

function CMD.TRACELOG(name, flag)
  if type(name) ~= "string" then name, flag = "lua", name end
  skynet.traceproto(name, flag)
  skynet.error(("TRACELOG %s: %s"):format(name, flag))
end

-- RUN -----------------------------------------------------------------------------------------

-- Adds the named upvalues of `f`, and those of the functions among them, to `found`. Returns `found`.
local function collect_upvalues(f, found, seen)
  if seen[f] then return found end
  seen[f] = true
  local i = 1
  local name, value = debug.getupvalue(f, i)
  while name do
    if name:find "^[%a_]" and name ~= "_ENV" then
      if found[name] == nil then found[name] = value end
      if type(value) == "function" then collect_upvalues(value, found, seen) end
    end
    i = i + 1
    name, value = debug.getupvalue(f, i)
  end
  return found
end

-- Returns the global variables for the code of `RUN`. `_P` contains the upvalues of each protocol's handler, by
-- protocol; `_U` contains all these upvalues; `print` adds lines to `output`. Other names refer to the service's
-- globals.
local function environment(output)
  local all, by_protocol = {}, {}
  for name, p in pairs(message.protocols) do
    if type(name) == "string" and p.dispatch then
      by_protocol[name] = collect_upvalues(p.dispatch, {}, {})
      collect_upvalues(p.dispatch, all, {})
    end
  end
  local function print(...)
    local line = table.pack(...)
    for i = 1, line.n do line[i] = tostring(line[i]) end
    output[#output + 1] = table.concat(line, "\t")
  end
  return setmetatable({ print = print, _U = all, _P = by_protocol }, { __index = _G })
end

-- `RUN(source, name, …)`: runs Lua code. Returns whether it succeeded, and a string that contains the lines that the
-- code printed and the error that it raised.
function CMD.RUN(source, name, ...)
  local output = {}
  local f, problem = load(source, name or "=RUN", "bt", environment(output))
  if not f then return false, problem end
  local ok, err = xpcall(f, debug.traceback, ...)
  if not ok then output[#output + 1] = tostring(err) end
  return ok, table.concat(output, "\n")
end

-- `reg_debugcmd(name, f)`: adds a command, which returns the results of `f(…)`.
function M.reg_debugcmd(name, f)
  CMD[name] = f
end

-- `command(name, …)`: runs a command. Returns its answer.
function M.command(name, ...)
  local f = CMD[name]
  if not f then error(("there is no debug command '%s'"):format(tostring(name)), 0) end
  return f(...)
end

return M
