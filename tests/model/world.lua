-- The model of lio.thread for the property test: what threads that obey commands write down, predicted
-- without a coroutine. A thread is a chain of coroutines, a coroutine a list of frames; what waits has a
-- `blocked` record, what is woken stands in one queue. tests/model/real.lua does the same for real.
-- Invariant: between two calls of `settle` a thread is blocked, queued or ended; nothing runs.

local ops = require "tests.model.ops"

local World = {}
World.__index = World

--- An empty world: no thread but the driver, which never ends.
function World.new()
  return setmetatable({
    log = {}, threads = {}, scopes = {}, cos = {},
    ready = {}, first = 1, last = 0, ends = 0,
    late = {}, -- failures that the collector may tell of
    zero = {}, -- timers of 0 seconds, which fire when all is quiet
    driver = { id = 0, children = {} },
  }, World)
end

function World:write(...)
  local v = table.pack(...)
  for i = 1, v.n do v[i] = tostring(v[i]) end
  self.log[#self.log + 1] = table.concat(v, " ")
end

--- What a thread writes: its number stands before it.
function World:tell(th, ...)
  self:write("t" .. th.id, ...)
end

-- ---------------------------------------------------------------------------------------------
-- Running

--- Queues a blocked thread; one that is queued keeps its place. `finish` is called when it runs, and ends its
-- wait.
function World:wake(th, finish)
  if th.queued then
    th.queued.finish = finish
    return
  end
  th.queued = { thread = th, finish = finish }
  self.last = self.last + 1
  self.ready[self.last] = th.queued
end

--- Makes a thread wait. `cancel`, if any, is called when the wait ends without having been served.
function World.block(_, th, kind, cancel)
  th.blocked = { kind = kind, cancel = cancel }
end

-- Lets a thread go on until it waits or has ended.
local function go_on(self, th)
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
  go_on(self, th)
  th.running = false
end

--- Lets everything run until nothing is queued and no timer of 0 seconds is set.
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

--- A thread begins, up to its first wait. `parent`: a thread, a scope, the driver or a task.
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

--- Queues what a forked task does: it spawns, and ends.
function World:fork_spawn(child)
  self.last = self.last + 1
  self.ready[self.last] = { start = function()
    local task = { children = {} } -- the forked one
    local th = self:spawn(task, child)
    self:bury(task)
    return th
  end }
end

-- ---------------------------------------------------------------------------------------------
-- Frames

--- The innermost coroutine of a thread.
function World.top(_, th)
  return th.chain[#th.chain]
end

--- Leaves a coroutine's innermost frame: its <close> variables run.
function World:pop(co, e)
  local frame = table.remove(co.frames)
  self:write("close", frame.id, e)
  if frame.scope then self:leave_scope(frame.scope) end
  return frame
end

function World:unwind(co, e)
  while #co.frames > 0 do self:pop(co, e) end
end

--- Ends the innermost coroutine of a chain of several; who resumed it goes on.
function World:leave_coroutine(th, ...)
  local co = table.remove(th.chain)
  co.status = "dead"
  self:tell(th, "resume", ...)
end

--- A command's function raises `e` in the innermost frame.
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
    self:tell(th, "pcall", false, e)
  elseif co.own then
    self:unwind(co, e)
    self:finish(th, false, e)
  else
    -- As the manual says: its frames stay until somebody closes it.
    co.error = e
    self:leave_coroutine(th, false, e)
  end
end

-- ---------------------------------------------------------------------------------------------
-- Ends

-- Nobody will ask for a thread any more, but who was woken by its end. Should that one be killed before it runs,
-- the collector tells of the failure, when it comes to that.
local function bury_one(self, th)
  if th.outcome[1] ~= false or th.killed or th.told then return end
  if th.waited then
    self.late[th.outcome[2]] = th
  else
    self:write("logged", th.outcome[2])
  end
end

--- The end of a parent: its zombies are dead.
function World:bury(parent)
  parent.buried = true
  local zombies = {}
  for _, th in ipairs(parent.children) do
    if th.ended and not th.reaped then zombies[#zombies + 1] = th end
  end
  table.sort(zombies, function(a, b) return a.end_order < b.end_order end)
  for _, th in ipairs(zombies) do bury_one(self, th) end
  parent.children = {}
end

--- Whether a thread has ended and nobody who comes now would get its result.
function World.is_dead(_, th)
  return th.ended and (th.reaped or th.parent.buried) or false
end

--- Takes a thread's result: the first who does gets it. `woken`: the taker was woken by the thread's end, which
-- counts also when the parent has ended since.
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

--- A thread has ended; its frames are gone.
function World:finish(th, ok, value)
  self.ends = self.ends + 1
  th.ended, th.outcome, th.blocked, th.end_order = true, { ok, value }, nil, self.ends
  th.chain = {}
  if th.scope then self:left_by(th.scope, th) end
  local waiters = th.waiters
  th.waiters = {}
  for _, waiter in ipairs(waiters) do waiter(th) end
  if not th.reaped and th.parent.buried then bury_one(self, th) end
  self:bury(th)
end

--- Takes back a waiter that `th.waiters` may hold.
function World.forget_waiter(_, th, waiter)
  for i, one in ipairs(th.waiters) do
    if one == waiter then return table.remove(th.waiters, i) end
  end
end

-- The wait of a thread ends without what it waited for.
local function cancel(th)
  local blocked = th.blocked
  if th.queued then th.queued.dead, th.queued = true, nil end
  th.blocked = nil
  if blocked and blocked.cancel then blocked.cancel() end
end

--- Kills a thread that waits. → true; nil and a reason; or false for one that runs.
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

--- Closes a coroutine of somebody's chain, and those inside of it; who was resuming it is queued first, unless
-- the thread was queued already, and hears of that.
function World:close_waiting(th, co)
  local blocked = th.blocked
  self:block(th, "closed")
  self:wake(th, function() self:tell(th, "resume", false, "coroutine was closed") end)
  if blocked.cancel then blocked.cancel() end
  local inner = {}
  repeat
    inner[#inner + 1] = table.remove(th.chain)
  until inner[#inner] == co
  -- What their <close> variables do may end the thread itself.
  for _, one in ipairs(inner) do
    self:unwind(one)
    one.status = "dead"
  end
end

-- ---------------------------------------------------------------------------------------------
-- Scopes

--- An open scope; one that has no `id` is all's, race's or timeout's own.
function World:scope(id)
  local scope = { id = id, children = {}, members = {}, waiters = {} }
  if id then self.scopes[id] = scope end
  return scope
end

--- Whether a thread of the scope lives.
function World.is_busy(_, scope)
  return scope.members[1] ~= nil
end

--- What scope:wait answers when no thread of the scope lives: its failures are known from then on.
function World.scope_answer(_, scope)
  if not scope.problem then return true end
  for _, th in ipairs(scope.children) do th.told = true end
  return false, scope.problem
end

--- A member of a scope has ended.
function World:left_by(scope, th)
  for i, one in ipairs(scope.members) do
    if one == th then table.remove(scope.members, i) break end
  end
  if th.outcome[1] == false and not th.killed then scope.problem = scope.problem or th.outcome[2] end
  if self:is_busy(scope) then return end
  local waiters = scope.waiters
  scope.waiters = {}
  for _, waiter in ipairs(waiters) do waiter() end
end

--- Queues the kill of a thread that runs.
function World:kill_late(th)
  self.last = self.last + 1
  self.ready[self.last] = { start = function() self:kill(th) end }
end

--- The scope's frame is left: what lives in it is killed, what runs will be when it does not.
function World:leave_scope(scope)
  scope.closed = true
  for _, th in ipairs(table.move(scope.members, 1, #scope.members, 1, {})) do
    if th.running then self:kill_late(th) else self:kill(th) end
  end
  self:bury(scope)
end

return World
