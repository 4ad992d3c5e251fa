-- The commands of protocol "debug", as in `skynet.call(addr, "debug", "STAT")`: every service of skynet's answers
-- them. Called by skynet.boot; `reg_debugcmd` by programs.

local ltask = require "ltask"
local inspect = require "skynet.inspect"
local boot = require "skynet.boot"
local message = require "skynet.message"
local skynet = require "skynet"

local M = {}

local info

-- `info_func(f)`: what `f(…)` returns is the answer to the command INFO.
function M.info_func(f)
  if type(f) ~= "function" then
    error(("bad argument #1 to 'info_func' (function expected, got %s)"):format(type(f)), 2)
  end
  info = f
end

local CMD = {}

-- Kibibytes of Lua's.
function CMD.MEM()
  return collectgarbage "count"
end

local collecting = false

function CMD.GC()
  if collecting then return end
  collecting = true
  local before, began = collectgarbage "count", ltask.counter()
  collectgarbage "collect"
  -- Further requests for the same that are there now.
  skynet.yield()
  skynet.error(("GC %.2f KiB -> %.2f KiB in %.2f s"):format(before, collectgarbage "count", ltask.counter() - began))
  collecting = false
end

function CMD.STAT()
  return {
    task = inspect.task(),
    mqlen = inspect.stat "mqlen",
    cpu = inspect.stat "cpu",
    message = inspect.stat "message",
  }
end

-- The tracebacks of all coroutines that wait, or that of one session.
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

-- Answered with an error when this service ends, and not before.
CMD.LINK = ltask.no_response

function CMD.TRACELOG(name, flag)
  if type(name) ~= "string" then name, flag = "lua", name end
  skynet.traceproto(name, flag)
  skynet.error(("TRACELOG %s: %s"):format(name, flag))
end

-- RUN -----------------------------------------------------------------------------------------

-- The named upvalues of `f`, and of the functions among them.
local function upvalues(f, into, seen)
  if seen[f] then return into end
  seen[f] = true
  local i = 1
  local name, value = debug.getupvalue(f, i)
  while name do
    if name:find "^[%a_]" and name ~= "_ENV" then
      if into[name] == nil then into[name] = value end
      if type(value) == "function" then upvalues(value, into, seen) end
    end
    i = i + 1
    name, value = debug.getupvalue(f, i)
  end
  return into
end

-- What the text sees: `_P`, by protocol the upvalues of its handler; `_U`, all of them; `print` writes into
-- `output`; else the service's globals.
local function environment(output)
  local all, by_protocol = {}, {}
  for name, p in pairs(message.protocols) do
    if type(name) == "string" and p.dispatch then
      by_protocol[name] = upvalues(p.dispatch, {}, {})
      upvalues(p.dispatch, all, {})
    end
  end
  local function print(...)
    local line = table.pack(...)
    for i = 1, line.n do line[i] = tostring(line[i]) end
    output[#output + 1] = table.concat(line, "\t")
  end
  return setmetatable({ print = print, _U = all, _P = by_protocol }, { __index = _G })
end

-- `RUN(source, name, …)` → whether the text ran, and what it printed, or its error.
function CMD.RUN(source, name, ...)
  local output = {}
  local f, problem = load(source, name or "=RUN", "bt", environment(output))
  if not f then return false, problem end
  local ok, err = xpcall(f, debug.traceback, ...)
  if not ok then output[#output + 1] = tostring(err) end
  return ok, table.concat(output, "\n")
end

-- `reg_debugcmd(name, f)`: one more command; what `f(…)` returns is the answer.
function M.reg_debugcmd(name, f)
  CMD[name] = f
end

-- `command(name, …)` → its answer.
function M.command(name, ...)
  local f = CMD[name]
  if not f then error(("there is no debug command '%s'"):format(tostring(name)), 0) end
  return f(...)
end

return M
