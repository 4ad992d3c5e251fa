-- `lio.thread`: light threads, that is tasks that can be waited for, killed, and bound to a scope. For `lio.loop` and
-- for services.
--
-- A thread that has ended is a zombie until somebody waits for it, or until its parent ends: the task or
-- thread that spawned it, or its scope. The record of a parent is the handle of a thread, a scope, or
-- a table of its own; `parents` finds it by the task's coroutine.
-- Invariants: `t.co` is set while the thread lives; `t.result` is there from its end until it is reaped. Who
-- waits on the thread itself came first, and is `t.waiter`; the others have tickets, in order.

local task = require "lio.task"

local wait <const>, wakeup <const> = task.wait, task.wakeup
local current <const>, is_waiting <const>, is_alive <const> = task.current, task.is_waiting, task.is_alive
local pack <const>, unpack <const> = table.pack, table.unpack
local REAPED <const> = "already waited"

local M = {}

local Thread = { __name = "lio.thread" }
-- Of a thread that failed with nobody waiting: the collector must not take it without a word.
local Failed = { __name = "lio.thread" }

local parents = {} -- coroutine → record
local failures = 0 -- so far; numbers them
local nobody = {} -- the parent of what is spawned outside of any task

local function is_thread(value)
  local meta = getmetatable(value)
  return meta == Thread or meta == Failed
end

local function check(t, at, call)
  if is_thread(t) then return end
  error(("bad argument #%d to '%s' (thread expected, got %s)"):format(at, call, type(t)), 3)
end

local function check_function(f, at, call)
  local meta = getmetatable(f)
  if type(f) == "function" or meta and meta.__call then return end
  error(("bad argument #%d to '%s' (function expected, got %s)"):format(at, call, type(f)), 3)
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
  if t.result and not t.told then complain(t) end
end

-- A parent has ended: its zombies are reaped.
local function end_parent(parent)
  parent.ended = true
  local failed = parent.failed
  if not failed then return end
  parent.failed = nil
  local list = {}
  for t in pairs(failed) do
    if t.result and not t.told then list[#list + 1] = t end
  end
  table.sort(list, function(a, b) return failed[a] < failed[b] end)
  for _, t in ipairs(list) do
    t.told = true
    complain(t)
  end
end

task.on_end(function(co)
  local parent = parents[co]
  parents[co] = nil
  if parent then end_parent(parent) end
end)

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

-- Wakes those who wait, in order: the first to run has the result. So it is not lost with one that is
-- killed before it runs.
local function tell(t, ok, ...)
  t.result = pack(ok, ...)
  local waited = wakeup(t)
  local tickets = t.tickets
  if tickets then
    t.tickets = nil
    for _, ticket in ipairs(tickets) do
      if ticket.collect then
        ticket:collect(t)
        waited = true
      else
        waited = wakeup(ticket, t) or waited
      end
    end
  end
  if not ok and not t.killed then note_failure(t, waited) end
end

local function finish(t, ...)
  local co = t.co
  if co then
    parents[co] = nil
    t.co = nil
  end
  t.done = true
  local scope = t.scope
  if scope then scope:forget(t, ...) end
  tell(t, ...)
  end_parent(t)
end

local function kill_off(t)
  t.killed = true
  finish(t, false, "killed")
end

-- The thread's coroutine ends, in whichever way.
function Thread.__close(t)
  if not t.done then kill_off(t) end
end

Failed.__close = Thread.__close

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

-- `thread.spawn(f, …)` → the thread, which runs `f(…)`: at once, until its first wait. (More than 32
-- inside each other: later.) Its parent is the running task; one that ends does not kill its threads.
function M.spawn(f, ...)
  check_function(f, 1, "spawn")
  return start(setmetatable({ parent = parent_of_new() }, Thread), f, ...)
end

-- The result of a thread that has ended; whoever gets it is the last.
local function reap(t)
  local result = t.result
  t.result, t.trace, t.waiter = nil, nil, nil
  if not result then return nil, REAPED end
  return unpack(result, 1, result.n)
end

-- Whether nobody who comes now gets the result of a thread that has ended: its parent has ended, or who
-- waited has yet to run.
local function is_taken(t)
  return t.parent.ended or t.waiter and is_alive(t.waiter)
end

local function reap_late(t)
  if is_taken(t) then return nil, REAPED end
  return reap(t)
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
  if t.co and t.co == current() then error(call .. ": a thread cannot wait for itself", 3) end
end

local function wait_for_first(...)
  local list, ticket = { ... }, {}
  for at = 1, select("#", ...) do check((select(at, ...)), at, "wait") end
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
  if ... or not is_thread(t) or t.tickets or is_waiting(t) then return wait_for_first(t, ...) end
  if t.done then return reap_late(t) end
  check_self(t, "wait")
  t.waiter = current()
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

-- `thread.status(t)` → "running"; "waiting": also for its turn; "zombie": it has ended, and nobody has
-- waited for it; "dead".
function M.status(t)
  check(t, 1, "status")
  if t.done then
    return (t.parent.ended or not t.result) and "dead" or "zombie"
  end
  return task.is_idle(t.co) and "waiting" or "running"
end

-- What a token of this module stands for, for `lio.tasks`.
function M.describe(token)
  if is_thread(token) then return "the end of a thread" end
  local meta = getmetatable(token)
  if meta and meta.__name == "lio.scope.wait" then return "the threads of a scope" end
end

-- Scopes ----------------------------------------------------------------------------------------

local Scope = { __name = "lio.scope" }
Scope.__index = Scope
local WAIT <const> = { __name = "lio.scope.wait" }

-- A thread of the scope has ended.
function Scope:forget(t, ok, err)
  local before, after = t.before, t.after
  if before then before.after = after else self.first = after end
  if after then after.before = before else self.last = before end
  t.scope, t.before, t.after = nil, nil, nil
  self.count = self.count - 1
  if not ok and not t.killed and not self.problem then self.problem = { err } end
  if self.count > 0 then return end
  local waiters = self.waiters
  self.waiters = {}
  for _, token in ipairs(waiters) do wakeup(token) end
end

-- `scope:spawn(f, …)` → a thread that does not outlive the scope; see `thread.spawn`.
function Scope:spawn(f, ...)
  check_function(f, 1, "spawn")
  if self.ended then error("spawn: the scope is closed", 2) end
  local t = setmetatable({ parent = self, scope = self, before = self.last }, Thread)
  if self.last then self.last.after = t else self.first = t end
  self.last = t
  self.count = self.count + 1
  return start(t, f, ...)
end

-- `scope:wait()`: until all its threads have ended. → true; false and the error of the first that failed.
function Scope:wait()
  while self.count > 0 do
    local token = setmetatable({}, WAIT)
    self.waiters[#self.waiters + 1] = token
    wait(token)
  end
  local problem = self.problem
  if not problem then return true end
  for t in pairs(self.failed or {}) do t.told = true end
  return false, problem[1]
end

local function kill_late(t)
  if not t.done then M.kill(t) end
end

-- `scope:close()`: kills the threads that are left, the oldest first, and waits for them: at the end of the
-- block of `local scope <close>`, in whichever way it is left. One that is in the middle of this very call
-- is killed as soon as it is not.
function Scope:close()
  if self.ended then return end
  self.ended = true
  local t = self.first
  while t do
    local after = t.after
    if task.is_idle(t.co) then M.kill(t) elseif is_alive(t.co) then task.fork(kill_late, t) end
    -- What a `<close>` variable did in between may have ended the next one.
    t = after and (after.scope and after or self.first)
  end
  end_parent(self)
end

Scope.__close = Scope.close

-- `thread.scope()` → a scope, for `local scope <close> = thread.scope()`.
function M.scope()
  return setmetatable({ count = 0, waiters = {} }, Scope)
end

-- Several at a time -----------------------------------------------------------------------------

local function check_list(list, call)
  if type(list) ~= "table" then
    error(("bad argument #1 to '%s' (table expected, got %s)"):format(call, type(list)), 3)
  end
  for at, one in ipairs(list) do
    if is_thread(one) then
      check_self(one, call)
    elseif type(one) ~= "function" and not (type(one) == "table" and type(one[1]) == "function") then
      error(("bad element #%d of the list of '%s' (function, { function, … } or thread expected, got %s)")
        :format(at, call, type(one)), 3)
    end
  end
end

-- The threads of a list of functions, `{ f, … }` and threads.
local function start_all(scope, list)
  local threads = {}
  for at, one in ipairs(list) do
    if is_thread(one) then
      threads[at] = one
    elseif type(one) == "table" then
      threads[at] = scope:spawn(unpack(one, 1, one.n or #one))
    else
      threads[at] = scope:spawn(one)
    end
  end
  return threads
end

local function kill_all(threads)
  for _, t in ipairs(threads) do
    if not t.done and task.is_idle(t.co) then M.kill(t) end
  end
end

local Ticket = {}
Ticket.__index = Ticket

function Ticket:collect(t)
  local result = pack(reap(t))
  self.results[t] = result
  self.left = self.left - 1
  if not result[1] then self.failed = self.failed or result end
  if self.failed or self.left == 0 then wakeup(self) end
end

function Ticket:__close()
  drop_tickets(self.threads, self)
end

-- `thread.all{ f1, … }` → true and the list of their packed results (`table.pack`), when all have ended;
-- false and the error of the first that failed: then the others are killed. Elements are functions,
-- `{ f, arguments… }` and threads.
function M.all(list)
  check_list(list, "all")
  local scope <close> = M.scope()
  local threads = start_all(scope, list)
  local ticket <close> = setmetatable({ results = {}, left = 0, threads = threads }, Ticket)
  for _, t in ipairs(threads) do
    if ticket.results[t] == nil then
      ticket.left = ticket.left + 1
      ticket.results[t] = false
      if not t.done then
        add_ticket(t, ticket)
      elseif is_taken(t) then
        ticket.failed = ticket.failed or { false, REAPED }
      else
        ticket:collect(t)
      end
    end
  end
  if ticket.left > 0 and not ticket.failed then wait(ticket) end
  if ticket.failed then
    kill_all(threads)
    return false, ticket.failed[2]
  end
  local results = {}
  for at, t in ipairs(threads) do
    local result = ticket.results[t]
    results[at] = pack(unpack(result, 2, result.n))
  end
  return true, results
end

-- `thread.race{ f1, … }` → as `wait` for the first to end; the others are killed.
function M.race(list)
  check_list(list, "race")
  if #list == 0 then error("race: the list is empty", 2) end
  local scope <close> = M.scope()
  local threads = start_all(scope, list)
  local result = pack(M.wait(unpack(threads)))
  kill_all(threads)
  return unpack(result, 1, result.n)
end

-- Calls `f` after so many seconds, in the VM's loop or by the scheduler's clock. → what takes it back.
local function after(seconds, f)
  local loop = package.loaded["lio.loop"]
  local ltask = package.loaded.ltask
  if (not loop or not loop.drives()) and ltask and ltask.sleep then
    local co = task.spawn(function()
      ltask.sleep(math.ceil(seconds * 100))
      f()
    end)
    return function() task.kill(co) end
  end
  loop = loop or require "lio.loop"
  local id = loop.timeout(seconds, f)
  return function() loop.cancel(id) end
end

local LATE <const> = {}


-- `thread.timeout(seconds, f, …)` → true and the results of `f(…)`, or false and its error; nil, "timeout"
-- when it has not ended after that time: then it is killed. A service's clock has centiseconds.
function M.timeout(seconds, f, ...)
  if type(seconds) ~= "number" or seconds ~= seconds then
    error(("bad argument #1 to 'timeout' (number expected, got %s)"):format(type(seconds)), 2)
  end
  check_function(f, 2, "timeout")
  local scope <close> = M.scope()
  local t = scope:spawn(f, ...)
  if t.done then return reap(t) end
  local ticket = {}
  local cancel = after(seconds, function() wakeup(ticket, LATE) end)
  local guard <close> = setmetatable(ticket, { __close = cancel })
  add_ticket(t, guard)
  if wait(guard) ~= LATE or t.done then return reap(t) end
  M.kill(t)
  return nil, "timeout"
end

return M
