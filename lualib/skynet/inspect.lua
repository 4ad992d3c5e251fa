-- The waiting coroutines, the statistics and the memory limit of this service. Used by lualib/skynet.lua and
-- skynet.debug.
--
-- Each waiting coroutine has a number: the session of the message that it waits for, or a new session, which it gets
-- when it is first listed.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local boot = require "skynet.boot"

local M = {}

-- Coroutines ----------------------------------------------------------------------------------

-- The numbers of coroutines that do not wait for a message.
local numbers = setmetatable({}, { __mode = "k" })

local function number_of(co, session)
  if session then
    numbers[co] = nil
    return session
  end
  numbers[co] = numbers[co] or core.new_session()
  return numbers[co]
end

-- Returns the tracebacks of a task's coroutines, innermost first.
local function traceback(co, members)
  local timeouts = require "skynet.task".timeout_places
  if timeouts and timeouts[co] then return timeouts[co] end
  local list = {}
  for i, member in ipairs(members) do list[i] = debug.traceback(member, i > 1 and "resumed by:" or nil) end
  return table.concat(list, "\n")
end

-- Iterates over the waiting tasks: the task, its number, and its coroutines.
local function waiting()
  return coroutine.wrap(function()
    for _, co in ipairs(task.list()) do
      local _, status, members, _, value, session = task.look(co)
      if status == "waiting" and value ~= boot.SCRIPT then coroutine.yield(co, number_of(co, session), members) end
    end
  end)
end

-- `task()`: returns the number of waiting coroutines. With "init": the traceback of the start function, while it runs.
-- With a table: fills it with the tracebacks, by coroutine and session. With a session: its coroutine's traceback.
-- With a coroutine: its session.
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

-- The sessions that are listed for one traceback.
local SESSIONS_MAX <const> = 10

-- `uniqtask()`: returns the different tracebacks of waiting coroutines, by the number of coroutines and their sessions.
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
    if one.count <= SESSIONS_MAX then one.sessions[one.count] = session end
  end
  local result = {}
  for _, text in ipairs(order) do
    local one = stacks[text]
    local rest = one.count > SESSIONS_MAX and "..." or ""
    result[("%d\tsessions:[%s%s]\n"):format(one.count, table.concat(one.sessions, ","), rest)] = text
  end
  return result
end

-- Returns the waiting coroutine with that session, or that part of its name. Returns a coroutine itself unless it is
-- dead.
local function find_coroutine(which)
  if type(which) == "thread" then return task.is_alive(which) and which or nil end
  if type(which) ~= "string" and math.type(which) ~= "integer" then
    error(("bad argument #1 to 'killthread' (a coroutine, a session or a part of its name expected, got %s)")
      :format(type(which)), 3)
  end
  for co, session in waiting() do
    if which == session or type(which) == "string" and tostring(co):find(which, 1, true) then return co end
  end
end

-- `killthread(which)`: closes a coroutine, given by itself, its session or a part of its name. Returns it, or nil if
-- there is none or it is running. If it handles a request, the caller gets an error.
function M.killthread(which)
  local co = find_coroutine(which)
  return co and task.current() ~= co and task.kill(co) and co or nil
end

-- `term(addr)`: calls to that service that wait for an answer raise an error, and answers to it are dropped.
function M.term(addr)
  local id = require "skynet.message".address(addr, "term")
  core.fail_calls(id, ("{service:%d} is dead"):format(id))
  local response = package.loaded["skynet.response"]
  if response then response.forget(id) end
end

-- Statistics ----------------------------------------------------------------------------------

local function own_stat()
  return core.stat(ltask.self())
end

local STATISTICS <const> = {
  mqlen = function() return own_stat().queue end,
  message = function()
    local stat = own_stat()
    return stat.messages - stat.queue
  end,
  cpu = ltask.cpucost,
  time = function() return ltask.cpucost() - own_stat().cpu end,
  endless = function() return core.take_long_slice_report() and 1 or 0 end,
}

-- `stat(name)`: returns a number of this service: "mqlen" unread messages, "message" read messages, "cpu" seconds that
-- it has run, "time" seconds of the running slice, "endless" 1 or 0 as `endless`; nil for other names.
function M.stat(name)
  local f = STATISTICS[name]
  return f and f()
end

-- `mqlen()`: returns the number of unread messages.
M.mqlen = STATISTICS.mqlen

-- `endless()`: returns whether the watchdog has reported this service since the last call.
M.endless = core.take_long_slice_report

-- `memlimit(bytes)`: limits the memory of this VM.
function M.memlimit(bytes)
  ltask.mem_limit(bytes)
end

return M
