-- The core of `lio.thread`: thread handles, the tasks that wait for threads, kills, and parents. Used by the files of
-- this folder.
--
-- A thread that has ended is a zombie until a task waits for it, or until its parent ends. The parent is the task or
-- thread that spawned it, or its scope. The record of a parent is the handle of a thread, a scope, or a separate table;
-- `parents` maps the parent's coroutine to it. When a thread ends, the waiting tasks are woken even if no memory is
-- left: code that can raise comes before the wakeups, which allocate nothing. If that code raises, `end_after_raise`
-- does the rest. Invariants: `t.co` is set until the thread ends, `t.ended` once the waiting tasks have been woken, and
-- `t.result` from the thread's end until the thread is reaped. The first waiting task waits on the thread itself; the
-- others wait on tickets, in order. The program has no reference to a thread with a collector: when such a thread ends,
-- it passes its result to the collector, and leaves no result to reap.

local debug <const> = debug or require "lio.debug"
local failure = require "lio.thread.failure"
local run_time = require "lio.run_time"
local task = require "lio.task"

local wait <const>, wakeup <const> = task.wait, task.wakeup
local current <const>, is_waiting <const> = task.current, task.is_waiting
local spawn <const>, is_alive <const> = task.spawn, task.is_alive
local pack <const>, unpack <const> = table.pack, table.unpack
local remove <const> = table.remove
local end_parent <const> = failure.end_parent

local REAPED <const> = "already waited"
local NO_MEMORY <const> = "not enough memory"
-- Results that are created in advance, so that returning them needs no memory.
local TAKEN <const> = { nil, REAPED, n = 2 }
local KILLED <const> = { false, "killed", n = 2 }
local EXHAUSTED <const> = { false, NO_MEMORY, n = 2 }

local M = {}

local Thread = { __name = "lio.thread" }
local Failed <const> = failure.Failed

-- Maps the coroutine of a parent to the parent's record. Weak, so that the table does not keep alive a thread that can
-- never be woken.
local parents = setmetatable({}, { __mode = "k" })
local NO_TASK <const> = {} -- the parent of threads that are spawned outside of tasks

local function is_thread(value)
  local meta = getmetatable(value)
  return meta == Thread or meta == Failed
end

-- Raises unless the value is a light thread; Lua's type "thread" is a coroutine.
local function check(t, at, call)
  if is_thread(t) then return end
  local kind = type(t)
  kind = kind == "thread" and "a coroutine" or kind == "nil" and "nil" or "a " .. kind
  require("lio.misuse").bad("thread." .. call, at, "light thread expected, got " .. kind)
end

local function check_function(f, at, call)
  if type(f) ~= "function" then require("lio.misuse").check_function(call, at, f) end
end

-- Takes and returns the result of a thread that has ended. If the result was already taken, returns nil, "already
-- waited".
local function reap(t)
  local result = t.result
  t.result = false
  if t.traceback then t.traceback = nil end
  if not result then return nil, REAPED end
  return unpack(result, 1, result.n)
end

-- Like `reap`, for a task that starts waiting after the thread has ended. If the parent has ended too, returns nil,
-- "already waited".
local function reap_late(t)
  if t.parent.ended then return nil, REAPED end
  return reap(t)
end

-- Wakes the waiting tasks in order. The first of them that runs gets the result, so that the result is not lost with a
-- task that is killed before it runs. `t.waited`: whether a task was woken. A ticket is removed after its wakeup, so
-- that this function can be called again if it raises.
local function wake_waiting(t)
  t.waited = wakeup(t) or t.waited
  local tickets = t.tickets
  while tickets and tickets[1] do
    local ticket = tickets[1]
    if ticket.collect then
      ticket:collect(t, not t.waited and t.result or TAKEN)
      if not t.waited then t.result, t.traceback = false, nil end
      t.waited = true
    else
      t.waited = wakeup(ticket, t) or t.waited
    end
    remove(tickets, 1)
  end
  t.tickets = nil
  t.ended = true
end

local function deliver(t, ok, ...)
  local collector = t.collector
  -- If the call of `thread.all` has ended meanwhile, the collector gets nothing, and a failure is reported as usual.
  if collector and not collector.ended then
    collector:collect(t.place, ok, ...)
    t.waited, t.ended = true, true
    return
  end
  t.result = t.killed and KILLED or pack(ok, ...)
  wake_waiting(t)
  if not ok and not t.killed and t.result then failure.record(t, t.waited) end
end

-- Called if the code that ends a thread has raised, for lack of memory, before all waiting tasks were woken. Allocates
-- nothing.
local function end_after_raise(t)
  if t.scope then t.scope:forget(t, false, NO_MEMORY) end
  local collector = t.collector
  if collector then
    collector:collect(t.place, false, NO_MEMORY)
    t.waited, t.ended = true, true
  else
    if not t.waited then t.result = t.killed and KILLED or EXHAUSTED end
    wake_waiting(t)
  end
end

local function finish(t, ...)
  local co = t.co
  t.co = false
  t.done = true
  local scope = t.scope
  if scope then scope:forget(t, ...) end
  deliver(t, ...)
  if co then parents[co] = nil end
  if t.failed then end_parent(t) end
end

local function kill_off(t)
  t.killed = true
  finish(t, false, "killed")
end

-- Ends a thread that has not begun, because memory or stack space ran out. Allocates nothing.
local function end_unbegun(t)
  t.co, t.done = false, true
  end_after_raise(t)
end

-- Called when the thread's coroutine ends: by a return, an error or a kill.
function Thread.__close(t)
  if not t.begun then
    end_unbegun(t)
  elseif not t.done then
    kill_off(t)
  elseif not t.ended then
    end_after_raise(t)
  end
end

Failed.__close = Thread.__close

-- Called when a task that has a record but is not a thread ends, and when a task has failed. If the failed task is a
-- thread, `finish` has raised for lack of memory: the thread ends here, where a service's memory limit does not apply.
task.on_end(function(co)
  local parent = parents[co]
  parents[co] = nil
  if not parent then return end
  if is_thread(parent) and not parent.ended then
    parent.done = true
    end_after_raise(parent)
  end
  end_parent(parent)
end)

local function keep_traceback(message)
  local t = parents[current()]
  if t and type(message) == "string" then t.traceback = debug.traceback(message, 2) end
  run_time.pause()
  return message
end

local function run(t, f, ...)
  local guard <close> = t
  local co = current()
  t.co = co
  parents[co] = t
  t.begun = true
  finish(t, xpcall(f, keep_traceback, ...))
  return guard and nil
end

local function start(t, f, ...)
  local ok, co = pcall(spawn, run, t, f, ...)
  if t.done then return t end
  if not ok then
    -- The caller gets the error, so the thread's scope does not record it.
    t.killed = true
    end_unbegun(t)
    error(co, 0)
  end
  -- If threads are nested too deeply, `f` has not begun, and `run` has not set `t.co`.
  t.co = co
  if not t.begun and not is_alive(co) then end_unbegun(t) end
  return t
end

local function parent_of_new()
  local co = current()
  if not co then return NO_TASK end
  local parent = parents[co]
  if not parent then
    parent = {}
    parents[co] = parent
    task.watch_end()
  end
  return parent
end

-- Returns a thread that has not run yet. All fields are set now, so that the table does not grow later.
local function new(parent, scope, before)
  return setmetatable({
    parent = parent,
    scope = scope,
    before = before,
    linked = scope and true,
    co = false,
    begun = false,
    done = false,
    result = false,
    waited = false,
    ended = false,
  }, Thread)
end

-- `thread.spawn(f, …)` returns a thread, which runs `f(…)` at once, until its first wait. (If more than 32 threads are
-- nested, the thread begins later.) The parent is the running task; when the parent ends, the thread continues.
function M.spawn(f, ...)
  check_function(f, 1, "thread.spawn")
  return start(new(parent_of_new()), f, ...)
end

local function add_ticket(t, ticket)
  local tickets = t.tickets
  if not tickets then
    t.tickets = { ticket }
    return
  end
  -- After every 16 tickets, remove those of tasks that were killed.
  if #tickets % 16 == 0 then
    local left = {}
    for _, other in ipairs(tickets) do
      if other.collect or is_waiting(other) then left[#left + 1] = other end
    end
    tickets = left
    t.tickets = left
  end
  tickets[#tickets + 1] = ticket
end

local function drop_ticket(t, ticket)
  local tickets = t.tickets
  if not tickets then return end
  for at, other in ipairs(tickets) do
    if other == ticket then return table.remove(tickets, at) end
  end
end

local function drop_tickets(list, ticket)
  for _, t in ipairs(list) do drop_ticket(t, ticket) end
end

local function check_self(t, call)
  if t.co and t.co == current() then require("lio.misuse").raise(call .. ": a thread cannot wait for itself") end
end

local function wait_for_first(...)
  local list, ticket = { ... }, {}
  for at = 1, select("#", ...) do check(list[at], at, "wait") end
  for _, t in ipairs(list) do check_self(t, "wait") end
  for _, t in ipairs(list) do
    if t.done then return reap_late(t) end
  end
  for _, t in ipairs(list) do add_ticket(t, ticket) end
  local ended = wait(ticket)
  drop_tickets(list, ticket)
  return reap(ended)
end

-- `thread.wait(t1, …)` waits until one of the threads ends. If several threads have already ended, uses the first of
-- them in the list. Returns true and the thread's results; false and its error; false, "killed"; or nil, "already
-- waited" if another task got the result, or the thread's parent has ended.
function M.wait(t, ...)
  if ... or not is_thread(t) then return wait_for_first(t, ...) end
  if t.done then return reap_late(t) end
  if t.tickets or is_waiting(t) then return wait_for_first(t) end
  check_self(t, "wait")
  wait(t)
  return reap(t)
end

-- `thread.kill(t)` kills a waiting thread, closes its `<close>` variables, and returns true; or returns nil, "already
-- ended". Raises if the thread is running.
function M.kill(t)
  check(t, 1, "kill")
  if t.done then return nil, "already ended" end
  local killed = task.kill(t.co)
  -- If the thread has not begun, it has no `<close>` variable that records its end.
  if not t.done and not t.begun then kill_off(t) end
  if killed then return true end
  return nil, "already ended"
end

-- Kills a thread unless it has ended. If the thread is in the middle of a call, kills it when the call has ended.
local function kill_soon(t)
  if t.done then return end
  if not (t.co and is_alive(t.co)) then
    t.killed = true
    end_unbegun(t)
  elseif task.is_idle(t.co) then
    M.kill(t)
  else
    task.fork(kill_soon, t)
  end
end

-- `thread.status(t)` returns "running"; "waiting" if the thread is waiting or ready to run; "zombie" if it has ended
-- and its result was not taken; or "dead".
function M.status(t)
  check(t, 1, "status")
  if t.done then
    return (t.parent.ended or not t.result) and "dead" or "zombie"
  end
  return task.is_idle(t.co) and "waiting" or "running"
end

-- For the other files of this folder.
M.internal = {
  new = new,
  is_thread = is_thread,
  check_function = check_function,
  check_self = check_self,
  start = start,
  reap = reap,
  reap_late = reap_late,
  add_ticket = add_ticket,
  drop_tickets = drop_tickets,
  end_parent = end_parent,
  kill_soon = kill_soon,
}

return M
