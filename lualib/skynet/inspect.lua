-- The waiting coroutines, the statistics and the memory limit of this service. Used by lualib/skynet.lua and
-- skynet.debug.
--
-- Each waiting coroutine is identified by a number: the session of the message that it waits for, or a new session,
-- which it gets when it is first listed.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local boot = require "skynet.boot"

local M = {}

-- Coroutines ----------------------------------------------------------------------------------

-- Maps a coroutine that does not wait for a message to its number.
local numbers = setmetatable({}, { __mode = "k" })

local function number_of(co, session)
  if session then
    numbers[co] = nil
    return session
  end
  numbers[co] = numbers[co] or core.new_session()
  return numbers[co]
end

-- Returns the tracebacks of a task's coroutines, innermost first; for a task that `timeout` created while
-- `trace_timeout` was on, the place where `timeout` was called.
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

-- `task()`: returns the number of waiting coroutines. With "init", returns the traceback of the coroutine that runs the
-- service's file or start function, or nil if the service has started. With a table, adds the tracebacks to it, by
-- coroutine and session. With a session, returns the traceback of its coroutine, or "No session". With a coroutine,
-- returns its session, or nil if the coroutine is not waiting.
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

-- The maximum number of sessions that `uniqtask` lists for one traceback.
local SESSIONS_MAX <const> = 10

-- `uniqtask()`: returns a table that contains each different traceback of the waiting coroutines once. A key contains
-- the number of coroutines with the traceback, and their sessions.
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

-- Finds the coroutine for `killthread`. `which` is a coroutine, a session, or a part of a coroutine's name. Returns nil
-- if there is none. A session or a name selects only a waiting coroutine; a coroutine may also be running or ready, but
-- must not be dead.
local function find_coroutine(which)
  if type(which) == "thread" then return task.is_alive(which) and which or nil end
  if type(which) ~= "string" and math.type(which) ~= "integer" then
    error(("bad argument #1 to 'killthread' (a coroutine, its session or a part of its name expected, got %s)")
      :format(type(which)), 3)
  end
  for co, session in waiting() do
    if which == session or type(which) == "string" and tostring(co):find(which, 1, true) then return co end
  end
end

-- `killthread(which)`: closes a coroutine. `which` is the coroutine, its session, or a part of its name. Returns the
-- coroutine, or nil if no coroutine matches or the coroutine is running. If the coroutine handles a request, the sender
-- gets an error.
function M.killthread(which)
  local co = find_coroutine(which)
  return co and task.current() ~= co and task.kill(co) and co or nil
end

-- `term(addr)`: raises an error in all calls that wait for an answer from that service, and drops this service's
-- answers to it.
function M.term(addr)
  local id = require "skynet.message".address(addr, "term")
  require "lio.misuse".rename("term", core.fail_calls, id, ("{service:%d} is dead"):format(id))
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

-- `stat(name)`: returns a statistic of this service: "mqlen" is the number of unread messages, "message" is the number
-- of read messages, "cpu" is the service's running time in seconds, "time" is the duration of the current slice in
-- seconds, "endless" is 1 if `endless` returns true, otherwise 0. Returns nil for other names.
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
  require "lio.misuse".rename("memlimit", ltask.mem_limit, bytes)
end

return M
