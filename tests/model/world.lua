-- The model of lio.thread for the property test. It predicts the log of threads that execute commands, and runs no
-- coroutines itself: a thread is represented by a chain of coroutines, and a coroutine by a list of frames. A thread
-- that waits has a `blocked` record, and a woken thread is in the ready queue. tests/model/real.lua executes the same
-- commands.
-- Invariant: between two calls of `settle` every thread is blocked, queued or ended, and none runs.

local ops = require "tests.model.ops"

local World = {}
World.__index = World

--- Returns an empty world. Its only thread is the driver, which never ends.
function World.new()
  return setmetatable({
    log = {}, threads = {}, scopes = {}, cos = {},
    ready = {}, first = 1, last = 0, ends = 0,
    late = {}, -- failures that the garbage collector may report
    zero = {}, -- timers of 0 seconds, which fire when the ready queue is empty
    driver = { id = 0, children = {} },
  }, World)
end

function World:write(...)
  local v = table.pack(...)
  for i = 1, v.n do v[i] = tostring(v[i]) end
  self.log[#self.log + 1] = table.concat(v, " ")
end

--- Adds a line of a thread to the log, after the id of the thread.
function World:record(th, ...)
  self:write("t" .. th.id, ...)
end

-- ---------------------------------------------------------------------------------------------
-- Running

--- Queues a blocked thread; a thread that is queued keeps its place. `finish` is called when the thread runs, and ends
-- its wait.
function World:wake(th, finish)
  if th.queued then
    th.queued.finish = finish
    return
  end
  th.queued = { thread = th, finish = finish }
  self.last = self.last + 1
  self.ready[self.last] = th.queued
end

--- Blocks a thread. `cancel` (optional) is called if the wait is cancelled.
function World.block(_, th, kind, cancel)
  th.blocked = { kind = kind, cancel = cancel }
end

-- Runs a thread until it waits or ends.
local function continue(self, th)
  while not th.blocked and not th.ended do
    local command = table.remove(th.script, 1)
    if command then
      ops[command.op](self, th, command)
    else
      self:block(th, "idle")
    end
  end
end

local function run(self, th, f)
  th.running = true
  f()
  continue(self, th)
  th.running = false
end

--- Runs all threads until the ready queue is empty and no timer of 0 seconds is set.
function World:settle()
  while true do
    while self.first <= self.last do
      local entry = self.ready[self.first]
      self.ready[self.first] = nil
      self.first = self.first + 1
      if entry.start then
        entry.start()
      elseif not entry.dead then
        local th = entry.thread
        th.queued, th.blocked = nil, nil
        run(self, th, entry.finish)
      end
    end
    local fire = table.remove(self.zero, 1)
    if not fire then return end
    fire()
  end
end

--- Starts a thread and runs it until its first wait. `parent`: a thread, a scope, the driver or a task.
function World:spawn(parent, child)
  local scope = parent.members and parent
  local th = {
    id = child.id, parent = parent, children = {}, waiters = {}, scope = scope,
    script = table.move(child.script, 1, #child.script, 1, {}),
  }
  th.chain = { { own = true, frames = { { kind = "base", id = child.frame } } } }
  self.threads[th.id] = th
  parent.children[#parent.children + 1] = th
  if scope then scope.members[#scope.members + 1] = th end
  run(self, th, function() self:write("start", th.id) end)
  th.known = true
  return th
end

--- Queues a forked task, which spawns a thread and ends.
function World:fork_spawn(child)
  self.last = self.last + 1
  self.ready[self.last] = { start = function()
    local task = { children = {} }
    local th = self:spawn(task, child)
    self:end_parent(task)
    return th
  end }
end

-- ---------------------------------------------------------------------------------------------
-- Frames

--- Returns the innermost coroutine of a thread.
function World.top(_, th)
  return th.chain[#th.chain]
end

--- Leaves the innermost frame of a coroutine, which closes its <close> variables.
function World:pop(co, e)
  local frame = table.remove(co.frames)
  self:write("close", frame.id, e)
  if frame.scope then self:leave_scope(frame.scope) end
  return frame
end

function World:unwind(co, e)
  while #co.frames > 0 do self:pop(co, e) end
end

--- Ends the innermost coroutine of a chain of several; the coroutine that resumed it continues.
function World:leave_coroutine(th, ...)
  local co = table.remove(th.chain)
  co.status = "dead"
  self:record(th, "resume", ...)
end

--- Raises `e` in the innermost frame of a thread.
function World:raise(th, e)
  local co = self:top(th)
  local caught
  for i = #co.frames, 1, -1 do
    if co.frames[i].kind == "pcall" then
      caught = i
      break
    end
  end
  if caught then
    while #co.frames >= caught do self:pop(co, e) end
    self:record(th, "pcall", false, e)
  elseif co.own then
    self:unwind(co, e)
    self:finish(th, false, e)
  else
    -- As the Lua manual says, its frames stay until the coroutine is closed.
    co.error = e
    self:leave_coroutine(th, false, e)
  end
end

-- ---------------------------------------------------------------------------------------------
-- Ends

-- Reports the failure of an ended thread whose result can no longer be read, except by a thread that its end has woken.
-- If the woken thread is killed before it runs, the garbage collector reports the failure later.
local function report_unread(self, th)
  if th.outcome[1] ~= false or th.killed or th.reported then return end
  if th.waited then
    self.late[th.outcome[2]] = th
  else
    self:write("logged", th.outcome[2])
  end
end

--- Records that a parent has ended: its zombies are dead from now on.
function World:end_parent(parent)
  parent.ended_parent = true
  local zombies = {}
  for _, th in ipairs(parent.children) do
    if th.ended and not th.reaped then zombies[#zombies + 1] = th end
  end
  table.sort(zombies, function(a, b) return a.end_order < b.end_order end)
  for _, th in ipairs(zombies) do report_unread(self, th) end
  parent.children = {}
end

--- Reports whether a thread has ended and its result can no longer be read.
function World.is_dead(_, th)
  return th.ended and (th.reaped or th.parent.ended_parent) or false
end

--- Takes the result of a thread; only the first call gets it, and later calls return nil and "already waited". If
-- `woken` is true, the end of the thread has woken the caller, which gets the result even if the parent has ended
-- since.
function World:take(th, woken)
  if th.reaped or (self:is_dead(th) and not woken) then return nil, "already waited" end
  th.reaped = true
  self.late[th.outcome[2]] = nil
  local siblings = th.parent.children
  for i, one in ipairs(siblings) do
    if one == th then table.remove(siblings, i) break end
  end
  return th.outcome[1], th.outcome[2]
end

--- Ends a thread whose frames have been left.
function World:finish(th, ok, value)
  self.ends = self.ends + 1
  th.ended, th.outcome, th.blocked, th.end_order = true, { ok, value }, nil, self.ends
  th.chain = {}
  if th.scope then self:member_ended(th.scope, th) end
  local waiters = th.waiters
  th.waiters = {}
  for _, waiter in ipairs(waiters) do waiter(th) end
  if not th.reaped and th.parent.ended_parent then report_unread(self, th) end
  self:end_parent(th)
end

--- Removes a waiter from `th.waiters`, if present.
function World.forget_waiter(_, th, waiter)
  for i, one in ipairs(th.waiters) do
    if one == waiter then return table.remove(th.waiters, i) end
  end
end

-- Ends the wait of a thread without a result.
local function cancel(th)
  local blocked = th.blocked
  if th.queued then th.queued.dead, th.queued = true, nil end
  th.blocked = nil
  if blocked and blocked.cancel then blocked.cancel() end
end

--- Kills a waiting thread and returns true. Returns nil and a reason if the thread has ended, and false if it is
--- running.
function World:kill(th)
  if th.ended then return nil, "already ended" end
  if th.running then return false end
  if th.dying then return nil, "already ended" end
  th.dying = true
  cancel(th)
  for i = #th.chain, 1, -1 do
    self:unwind(th.chain[i])
    th.chain[i].status = "dead"
  end
  th.killed = true
  self:finish(th, false, "killed")
  return true
end

--- Closes a coroutine in the chain of a thread, and the coroutines inside it. The thread is queued first, unless it is
-- already queued, and the resume of the closed coroutine fails.
function World:close_waiting(th, co)
  local blocked = th.blocked
  self:block(th, "closed")
  self:wake(th, function() self:record(th, "resume", false, "coroutine was closed") end)
  if blocked.cancel then blocked.cancel() end
  local inner = {}
  repeat
    inner[#inner + 1] = table.remove(th.chain)
  until inner[#inner] == co
  -- Their <close> variables may end the thread itself.
  for _, one in ipairs(inner) do
    self:unwind(one)
    one.status = "dead"
  end
end

-- ---------------------------------------------------------------------------------------------
-- Scopes

--- Returns an open scope. The scopes of `all`, `race` and `timeout` have no `id`.
function World:scope(id)
  local scope = { id = id, children = {}, members = {}, waiters = {} }
  if id then self.scopes[id] = scope end
  return scope
end

--- Reports whether a thread of the scope has not ended.
function World.is_busy(_, scope)
  return scope.members[1] ~= nil
end

--- Returns the results of scope:wait for a scope whose threads have ended, and marks their failures as reported.
function World.scope_answer(_, scope)
  if not scope.problem then return true end
  for _, th in ipairs(scope.children) do th.reported = true end
  return false, scope.problem
end

--- Records that a member of a scope has ended.
function World:member_ended(scope, th)
  for i, one in ipairs(scope.members) do
    if one == th then table.remove(scope.members, i) break end
  end
  if th.outcome[1] == false and not th.killed then scope.problem = scope.problem or th.outcome[2] end
  if self:is_busy(scope) then return end
  local waiters = scope.waiters
  scope.waiters = {}
  for _, waiter in ipairs(waiters) do waiter() end
end

--- Queues the kill of a running thread.
function World:kill_late(th)
  self.last = self.last + 1
  self.ready[self.last] = { start = function() self:kill(th) end }
end

--- Leaves the frame of a scope and kills the scope's threads; a running thread is killed when it waits.
function World:leave_scope(scope)
  scope.closed = true
  for _, th in ipairs(table.move(scope.members, 1, #scope.members, 1, {})) do
    if th.running then self:kill_late(th) else self:kill(th) end
  end
  self:end_parent(scope)
end

return World
