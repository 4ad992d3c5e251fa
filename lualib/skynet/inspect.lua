-- What a service can learn of itself, and end: its coroutines, its figures, its limits. Called through
-- lualib/skynet.lua and by skynet.debug.
--
-- A coroutine that waits has a number. It is the session where it waits for a message; others get one when they
-- are first looked at.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local boot = require "skynet.boot"

local M = {}

-- Coroutines ----------------------------------------------------------------------------------

local numbers = setmetatable({}, { __mode = "k" }) -- coroutine that waits for no message → its number

local function number_of(co, session)
  if session then
    numbers[co] = nil
    return session
  end
  numbers[co] = numbers[co] or core.new_session()
  return numbers[co]
end

-- Where a task is: the traceback of the innermost coroutine first.
local function traceback(co, members)
  local timeouts = require "skynet.task".timeouts
  if timeouts and timeouts[co] then return timeouts[co] end
  local list = {}
  for i, member in ipairs(members) do list[i] = debug.traceback(member, i > 1 and "resumed by:" or nil) end
  return table.concat(list, "\n")
end

-- Goes through the coroutines that wait: co, number, members.
local function waiting()
  return coroutine.wrap(function()
    for _, co in ipairs(task.list()) do
      local _, status, members, _, value, session = task.look(co)
      if status == "waiting" and value ~= boot.SCRIPT then coroutine.yield(co, number_of(co, session), members) end
    end
  end)
end

-- `task()` → how many coroutines wait. With "init", the traceback of the start function, while it runs; with a table,
-- that is filled with the tracebacks, by coroutine and session; with a session, its coroutine's traceback; with a
-- coroutine, its session.
function M.task(what)
  if what == "init" then return boot.starter and debug.traceback(boot.starter) end
  local kind = type(what)
  if kind ~= "nil" and kind ~= "table" and kind ~= "number" and kind ~= "thread" then
    error(("bad argument #1 to 'task' (nothing, \"init\", a table, a session or a coroutine expected, got %s)")
      :format(kind), 2)
  end
  local count = 0
  for co, session, members in waiting() do
    count = count + 1
    if kind == "table" then
      what[("%s session: %d"):format(co, session)] = traceback(co, members)
    elseif what == session then
      return traceback(co, members)
    elseif what == co then
      return session
    end
  end
  if what == nil then return count end
  if kind == "number" then return "No session" end
  return nil
end

-- So many sessions of one traceback are named.
local NAMED <const> = 10

-- `uniqtask()` → a table of the different tracebacks of coroutines that wait: by how many there are, and their
-- sessions.
function M.uniqtask()
  local stacks, order = {}, {}
  for co, session, members in waiting() do
    local text = traceback(co, members)
    local one = stacks[text]
    if not one then
      one = { count = 0, sessions = {} }
      stacks[text] = one
      order[#order + 1] = text
    end
    one.count = one.count + 1
    if one.count <= NAMED then one.sessions[one.count] = session end
  end
  local result = {}
  for _, text in ipairs(order) do
    local one = stacks[text]
    local more = one.count > NAMED and "..." or ""
    result[("%d\tsessions:[%s%s]\n"):format(one.count, table.concat(one.sessions, ","), more)] = text
  end
  return result
end

-- The coroutine that is meant: itself, its session, or a part of its name.
local function meant(which)
  if type(which) == "thread" then return task.is_alive(which) and which or nil end
  if type(which) ~= "string" and math.type(which) ~= "integer" then
    error(("bad argument #1 to 'killthread' (a coroutine, a session or a part of its name expected, got %s)")
      :format(type(which)), 3)
  end
  for co, session in waiting() do
    if which == session or type(which) == "string" and tostring(co):find(which, 1, true) then return co end
  end
end

-- `killthread(which)` → the coroutine, which is closed now; nil when there is none, and when it runs. Who waits for
-- an answer of it gets an error.
function M.killthread(which)
  local co = meant(which)
  return co and task.current() ~= co and task.kill(co) and co or nil
end

-- `term(addr)`: each call that waits for an answer of that service raises, and answers for it are dropped.
function M.term(addr)
  local id = require "skynet.message".address(addr, "term")
  core.fail_calls(id, ("{service:%d} is dead"):format(id))
  local response = package.loaded["skynet.response"]
  if response then response.forget(id) end
end

-- Figures -------------------------------------------------------------------------------------

local function own_stat()
  return core.stat(ltask.self())
end

local FIGURES <const> = {
  mqlen = function() return own_stat().queue end,
  message = function()
    local stat = own_stat()
    return stat.messages - stat.queue
  end,
  cpu = ltask.cpucost,
  time = function() return ltask.cpucost() - own_stat().cpu end,
  endless = function() return core.was_endless() and 1 or 0 end,
}

-- `stat(what)` → a figure of this service: "mqlen" unread messages, "message" read ones, "cpu" seconds that it has
-- run, "time" seconds of its present turn, "endless" 1 or 0 as `endless`; nil for other names.
function M.stat(what)
  local f = FIGURES[what]
  return f and f()
end

-- `mqlen()` → how many messages are unread.
M.mqlen = FIGURES.mqlen

-- `endless()` → whether the watchdog has reported this service since the last call.
M.endless = core.was_endless

-- `memlimit(bytes)`: the service's VM may hold so much.
function M.memlimit(bytes)
  ltask.mem_limit(bytes)
end

return M
