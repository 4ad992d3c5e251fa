-- Threads of `lio.thread`: handles, who waits for them, kills, and parents. Used by the files of this folder.
--
-- A thread that has ended is a zombie until somebody waits for it, or until its parent ends: the task or
-- thread that spawned it, or its scope. The record of a parent is the handle of a thread, a scope, or
-- a table of its own; `parents` finds it by the task's coroutine.
-- Who waits is told of an end also when there is no memory left: what may raise comes before the wakeups, which
-- allocate nothing, and `end_anyway` does what a raise has left undone.
-- Invariants: `t.co` is set while the thread lives; `t.ended` when who waits has been told; `t.result` is there from
-- its end until it is reaped. Who waits on the thread itself came first; the others have tickets, in order. A thread
-- with a collector has no other reference: its end calls the collector, and leaves no result to reap.

local debug <const> = debug or require "lio.debug"
local task = require "lio.task"

local wait <const>, wakeup <const> = task.wait, task.wakeup
local current <const>, is_waiting <const> = task.current, task.is_waiting
local pack <const>, unpack <const> = table.pack, table.unpack
local remove <const> = table.remove
local REAPED <const> = "already waited"
local NO_MEMORY <const> = "not enough memory"
-- Results that are made beforehand.
local TAKEN <const> = { nil, REAPED, n = 2 }
local KILLED <const> = { false, "killed", n = 2 }
local EXHAUSTED <const> = { false, NO_MEMORY, n = 2 }

local M = {}

local Thread = { __name = "lio.thread" }
-- Of a thread that failed with nobody waiting: the collector must not take it without a word.
local Failed = { __name = "lio.thread" }

-- Coroutine → record. Weak: a thread that nobody can wake must not be kept by it.
local parents = setmetatable({}, { __mode = "k" })
local failures = 0 -- so far; numbers them
local nobody = {} -- the parent of what is spawned outside of any task

local function is_thread(value)
  local meta = getmetatable(value)
  return meta == Thread or meta == Failed
end

-- What is no light thread; a value of Lua's type "thread" is a coroutine.
local function check(t, at, call)
  if is_thread(t) then return end
  local kind = type(t)
  kind = kind == "thread" and "a coroutine" or kind == "nil" and "nil" or "a " .. kind
  require("lio.misuse").bad("thread." .. call, at, "light thread expected, got " .. kind)
end

local function check_function(f, at, call)
  if type(f) ~= "function" then require("lio.misuse").check_function(call, at, f) end
end

-- Logs the error of a thread that nobody waited for.
local function complain(t)
  local message = t.trace or t.result[2]
  t.trace = nil
  local ltask = package.loaded.ltask
  if ltask and ltask.log then
    ltask.log.error(tostring(message))
  else
    task.on_error(message)
  end
end

function Failed.__gc(t)
  if t.result and not t.told then
    t.told = true
    complain(t)
  end
end

-- A parent has ended: its zombies are reaped.
local function end_parent(parent)
  parent.ended = true
  local failed = parent.failed
  if not failed then return end
  parent.failed = nil
  local list = {}
  for t in pairs(failed) do
    if t.result and not t.told and not t.waited then list[#list + 1] = t end
  end
  table.sort(list, function(a, b) return failed[a] < failed[b] end)
  for _, t in ipairs(list) do
    t.told = true
    complain(t)
  end
end

local function note_failure(t, waited)
  setmetatable(t, Failed)
  local parent = t.parent
  if parent.ended then
    if waited then return end
    t.told = true
    return complain(t)
  end
  parent.failed = parent.failed or setmetatable({}, { __mode = "k" })
  failures = failures + 1
  parent.failed[t] = failures
end

-- The result of a thread that has ended; whoever gets it is the last.
local function reap(t)
  local result = t.result
  t.result = false
  if t.trace then t.trace = nil end
  if not result then return nil, REAPED end
  return unpack(result, 1, result.n)
end

-- The same for one that comes when the thread has ended.
local function reap_late(t)
  if t.parent.ended then return nil, REAPED end
  return reap(t)
end

-- Wakes those who wait, in order: the first to run has the result. So it is not lost with one that is
-- killed before it runs. `t.waited`: a waiter was woken. A ticket is removed after its wakeup, so that this can be
-- called again after a raise.
local function wake(t)
  t.waited = wakeup(t) or t.waited
  local tickets = t.tickets
  while tickets and tickets[1] do
    local ticket = tickets[1]
    if ticket.collect then
      ticket:collect(t, not t.waited and t.result or TAKEN)
      if not t.waited then t.result, t.trace = false, nil end
      t.waited = true
    else
      t.waited = wakeup(ticket, t) or t.waited
    end
    remove(tickets, 1)
  end
  t.tickets = nil
  t.ended = true
end

local function tell(t, ok, ...)
  local collector = t.collector
  -- A collector whose caller was killed in the meantime receives nothing: a failure is reported like any other.
  if collector and not collector.ended then
    collector:collect(t.place, ok, ...)
    t.waited, t.ended = true, true
    return
  end
  t.result = t.killed and KILLED or pack(ok, ...)
  wake(t)
  if not ok and not t.killed and t.result then note_failure(t, t.waited) end
end

-- The end of a thread has raised, for want of memory, before all who wait were told. Allocates nothing.
local function end_anyway(t)
  if t.scope then t.scope:forget(t, false, NO_MEMORY) end
  local collector = t.collector
  if collector then
    collector:collect(t.place, false, NO_MEMORY)
    t.waited, t.ended = true, true
  else
    if not t.waited then t.result = t.killed and KILLED or EXHAUSTED end
    wake(t)
  end
end

local function finish(t, ...)
  local co = t.co
  t.co = false
  t.done = true
  local scope = t.scope
  if scope then scope:forget(t, ...) end
  tell(t, ...)
  if co then parents[co] = nil end
  if t.failed then end_parent(t) end
end

local function kill_off(t)
  t.killed = true
  finish(t, false, "killed")
end

-- The thread's coroutine ends, in whichever way.
function Thread.__close(t)
  if not t.done then
    kill_off(t)
  elseif not t.ended then
    end_anyway(t)
  end
end

Failed.__close = Thread.__close

-- Called at the end of tasks that have a record without being a thread, and of those that failed: a thread among these
-- has raised while it ended, and is done with here, where a service's limit of memory does not count.
task.on_end(function(co)
  local parent = parents[co]
  parents[co] = nil
  if not parent then return end
  if is_thread(parent) and not parent.ended then
    parent.done = true
    end_anyway(parent)
  end
  end_parent(parent)
end)

local function trace(message)
  local t = parents[current()]
  if t and type(message) == "string" then t.trace = debug.traceback(message, 2) end
  return message
end

local function run(t, f, ...)
  local co = current()
  t.co, t.begun = co, true
  parents[co] = t
  local guard <close> = t
  finish(t, xpcall(f, trace, ...))
  return guard and nil
end

local function start(t, f, ...)
  local co = task.spawn(run, t, f, ...)
  -- Nested too deeply to run at once: it has yet to begin.
  if not t.done then t.co = co end
  return t
end

local function parent_of_new()
  local co = current()
  if not co then return nobody end
  local parent = parents[co]
  if not parent then
    parent = {}
    parents[co] = parent
    task.watch_end()
  end
  return parent
end

-- A thread that has yet to run. Its fields are there from the begin, so that the table does not grow.
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

-- `thread.spawn(f, …)` → the thread, which runs `f(…)`: at once, until its first wait. (More than 32
-- inside each other: later.) Its parent is the running task; one that ends does not kill its threads.
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
  -- Those whose waiter was killed stay behind.
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

-- `thread.wait(t1, …)` → true and the results, or false and the error, of the first of them to end;
-- false, "killed"; nil, "already waited" when somebody else had that, or its parent has ended. Of those
-- that have ended already, the first in the list.
function M.wait(t, ...)
  if ... or not is_thread(t) then return wait_for_first(t, ...) end
  if t.done then return reap_late(t) end
  if t.tickets or is_waiting(t) then return wait_for_first(t) end
  check_self(t, "wait")
  wait(t)
  return reap(t)
end

-- `thread.kill(t)` → true: it is closed at its wait, and its `<close>` variables have run. nil,
-- "already ended". Raises for a thread that runs.
function M.kill(t)
  check(t, 1, "kill")
  if t.done then return nil, "already ended" end
  local killed = task.kill(t.co)
  -- One that had not begun has no `<close>` variable that would say so.
  if not t.done and not t.begun then kill_off(t) end
  if killed then return true end
  return nil, "already ended"
end

-- Kills a thread that lives; one that is in the middle of a call as soon as it is not.
local function kill_soon(t)
  if t.done then return end
  if task.is_idle(t.co) then M.kill(t) else task.fork(kill_soon, t) end
end

-- `thread.status(t)` → "running"; "waiting": also for its turn; "zombie": it has ended, and nobody has
-- waited for it; "dead".
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
