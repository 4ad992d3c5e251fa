-- The commands that the model's threads obey, one function each: `op(world, thread, command)`. Called by
-- tests/model/world.lua; tests/model/real.lua has the real ones under the same names.
-- Invariant: an operation ends its thread, blocks it, or leaves it to take its next command.

local ops = {}

-- In Lua 5.5 the running coroutine may be closed; who resumed it hears true.
local CLOSES_ITSELF <const> = _VERSION ~= "Lua 5.4"

-- The threads of the given ids; nil when the handle of one is not known yet.
local function known(w, ids)
  local list = {}
  for i, id in ipairs(ids) do
    local th = w.threads[id]
    if not (th and th.known) then return nil end
    list[i] = th
  end
  return list
end

function ops.ret(w, th, c)
  local co = w:top(th)
  local frame = w:pop(co)
  if frame.kind == "pcall" then
    w:tell(th, "pcall", true, c.value)
  elseif frame.kind == "scope" then
    w:tell(th, "scope left", c.value)
  elseif co.own then
    w:finish(th, true, c.value)
  else
    w:leave_coroutine(th, true, c.value)
  end
end

function ops.err(w, th, c)
  w:raise(th, c.value)
end

function ops.spawn(w, th, c)
  w:spawn(th, c.child)
  w:tell(th, "spawned", c.child.id)
end

function ops.scope_spawn(w, th, c)
  local scope = w.scopes[c.scope]
  if not scope then return w:tell(th, "no scope") end
  -- What is spawned may close it.
  local open = not scope.closed
  if open then w:spawn(scope, c.child) end
  w:tell(th, "spawned in scope", open)
end

-- Calls `fire(one)` once, when the first of `list` ends. Returns what takes that back.
local function watch(w, list, fire)
  local function forget(waiter)
    for _, one in ipairs(list) do w:forget_waiter(one, waiter) end
  end
  local function waiter(one)
    forget(waiter)
    fire(one)
  end
  for _, one in ipairs(list) do one.waiters[#one.waiters + 1] = waiter end
  return function() forget(waiter) end
end

-- Waits for the first of `list` to end, and calls `finish(ok, value)`; at once for the first in the list that has
-- ended. Who is woken takes the result when it runs. `off`: what else is to be done when the wait is cancelled.
local function wait_for(w, th, list, finish, off)
  for _, one in ipairs(list) do
    if one.ended then return finish(w:take(one)) end
  end
  local unwatch = watch(w, list, function(one)
    one.waited = true
    w:wake(th, function() finish(w:take(one, true)) end)
  end)
  w:block(th, "wait", function()
    unwatch()
    if off then off() end
  end)
end

-- Whether a thread stands in the list of those it is to wait for.
local function has_self(th, list)
  for _, one in ipairs(list) do
    if one == th then return true end
  end
end

function ops.wait(w, th, c)
  local list = known(w, c.ids)
  if not list then return w:tell(th, "no handle") end
  if has_self(th, list) then return w:tell(th, "wait", "raised") end
  wait_for(w, th, list, function(ok, value) w:tell(th, "wait", ok, value) end)
end

-- Waits until no thread of the scope lives, again when others have been spawned meanwhile.
local function wait_for_scope(w, th, scope)
  if not w:is_busy(scope) then
    local ok, e = w:scope_answer(scope)
    if ok then return w:tell(th, "scope wait", true) end
    return w:tell(th, "scope wait", false, e)
  end
  local function waiter()
    w:wake(th, function() wait_for_scope(w, th, scope) end)
  end
  table.insert(scope.waiters, waiter)
  w:block(th, "scope wait", function() w:forget_waiter(scope, waiter) end)
end

function ops.scope_wait(w, th, c)
  local scope = w.scopes[c.scope]
  if not scope then return w:tell(th, "no scope") end
  wait_for_scope(w, th, scope)
end

function ops.kill(w, th, c)
  local victim = known(w, { c.id })
  if not victim then return w:tell(th, "no handle") end
  local ok, why = w:kill(victim[1])
  if ok == false then return w:tell(th, "kill", "raised") end
  if ok then w:tell(th, "kill", true) else w:tell(th, "kill", ok, why) end
end

--- A thread's status as thread.status tells it.
function ops.status_of(w, th)
  if th.ended then return w:is_dead(th) and "dead" or "zombie" end
  return th.running and "running" or "waiting"
end

function ops.status(w, th, c)
  local one = known(w, { c.id })
  if not one then return w:tell(th, "no handle") end
  w:tell(th, "status", ops.status_of(w, one[1]))
end

function ops.pcall(w, th, c)
  table.insert(w:top(th).frames, { kind = "pcall", id = c.frame })
end

function ops.scope(w, th, c)
  table.insert(w:top(th).frames, { kind = "scope", id = c.frame, scope = w:scope(c.scope) })
end

-- ---------------------------------------------------------------------------------------------
-- Coroutines

function ops.create(w, th, c)
  local co = { frames = { { kind = "base", id = c.frame } }, status = "suspended" }
  w.cos[c.co] = co
  th.chain[#th.chain + 1] = co
  co.status = "chained"
end

function ops.yield(w, th)
  local co = w:top(th)
  if co.own then return w:tell(th, "nothing to yield to") end
  table.remove(th.chain)
  co.status = "suspended"
  w:tell(th, "resume", true, "yielded")
end

-- Who has the coroutine in its chain.
local function owner(w, co)
  for _, th in pairs(w.threads) do
    for _, one in ipairs(th.chain) do
      if one == co then return th end
    end
  end
end

--- A coroutine's status as coroutine.status tells it to the thread `asks`, or to the driver.
function ops.co_status_of(w, co, asks)
  if co.status ~= "chained" then return co.status end
  local th = owner(w, co)
  if not th.running then return "waiting" end
  return (th == asks and w:top(th) == co) and "running" or "normal"
end

function ops.resume(w, th, c)
  local co = w.cos[c.co]
  if not co then return w:tell(th, "no coroutine") end
  if co.status == "dead" then return w:tell(th, "resume", false, "cannot resume dead coroutine") end
  if co.status == "chained" then
    local waiting = not owner(w, co).running
    return w:tell(th, "resume", false, waiting and "cannot resume a coroutine that is waiting"
      or "cannot resume non-suspended coroutine")
  end
  co.status = "chained"
  th.chain[#th.chain + 1] = co
  w:tell(th, "resumed")
end

function ops.co_status(w, th, c)
  local co = w.cos[c.co]
  if not co then return w:tell(th, "no coroutine") end
  w:tell(th, "coroutine status", ops.co_status_of(w, co, th))
end

function ops.close(w, th, c)
  local co = w.cos[c.co]
  if not co then return w:tell(th, "no coroutine") end
  if co.status == "chained" then
    local other = owner(w, co)
    if other.running then
      if not CLOSES_ITSELF or w:top(th) ~= co then return w:tell(th, "closed", "raised") end
      w:unwind(co)
      return w:leave_coroutine(th, true)
    end
    w:close_waiting(other, co)
    return w:tell(th, "closed", true)
  end
  local e = co.error
  co.status, co.error = "dead", nil
  w:unwind(co, e)
  if e then w:tell(th, "closed", false, e) else w:tell(th, "closed", true) end
end

-- ---------------------------------------------------------------------------------------------
-- Waits

function ops.token(w, th)
  w:block(th, "token")
end

function ops.sleep(w, th)
  w:block(th, "sleep")
end

-- A timer of 0 seconds. Returns what takes it back.
local function at_once_later(w, fire)
  table.insert(w.zero, fire)
  return function()
    for i, one in ipairs(w.zero) do
      if one == fire then return table.remove(w.zero, i) end
    end
  end
end

function ops.nap(w, th)
  w:block(th, "nap", at_once_later(w, function()
    w:wake(th, function() w:tell(th, "napped") end)
  end))
end

function ops.timeout(w, th, c)
  local scope, off = w:scope(), nil
  local child = w:spawn(scope, c.child)
  child.known = false
  wait_for(w, th, { child }, function(ok, value)
    if off then off() end
    w:leave_scope(scope)
    w:tell(th, "timeout", ok, value)
  end, function()
    if off then off() end
    w:leave_scope(scope)
  end)
  if c.far or not th.blocked then return end
  off = at_once_later(w, function()
    child.waiters = {}
    w:wake(th, function()
      w:kill(child)
      w:leave_scope(scope)
      w:tell(th, "timeout", nil, "timeout")
    end)
  end)
end

-- The threads of all and race: handles, and what is spawned for them in a scope of their own. Nothing when it
-- cannot be, which is told.
local function members(w, th, c)
  local list, scope = known(w, c.ids), w:scope()
  if not list then return w:tell(th, "no handle") end
  if has_self(th, list) then return w:tell(th, c.op, "raised") end
  for _, child in ipairs(c.children) do
    local one = w:spawn(scope, child)
    one.known = false
    list[#list + 1] = one
  end
  return list, scope
end

local function kill_all(w, list)
  for _, one in ipairs(list) do w:kill(one) end
end

function ops.race(w, th, c)
  local list, scope = members(w, th, c)
  if not list then return end
  if #list == 0 then return w:tell(th, "race", "raised") end
  wait_for(w, th, list, function(ok, value)
    kill_all(w, list)
    w:leave_scope(scope)
    w:tell(th, "race", ok, value)
  end, function() w:leave_scope(scope) end)
end

-- What all has got of its threads: each one's result is taken when it ends.
local function gather(w, list, done)
  local got = { values = {}, left = 0 }
  local function collect(one)
    local ok, value = nil, "already waited"
    -- Who was woken before by the same end comes first.
    if not (got.began and one.waited) then ok, value = w:take(one, got.began) end
    got.values[one], got.left = value, got.left - 1
    if not ok and not got.failed then got.failed = { value } end
    if got.waits and (got.failed or got.left == 0) then done() end
  end
  got.collect = collect
  local seen = {}
  for _, one in ipairs(list) do
    if not seen[one] then
      seen[one], got.left = true, got.left + 1
      if one.ended then collect(one) else table.insert(one.waiters, collect) end
    end
  end
  got.began, got.waits = true, true
  return got
end

function ops.all(w, th, c)
  local list, scope = members(w, th, c)
  if not list then return end
  local got
  local function unwatch()
    for _, one in ipairs(list) do w:forget_waiter(one, got.collect) end
  end
  local function finish()
    got.waits = false
    if got.failed then kill_all(w, list) end
    unwatch()
    w:leave_scope(scope)
    if got.failed then return w:tell(th, "all", false, got.failed[1]) end
    local values = {}
    for i, one in ipairs(list) do values[i] = got.values[one] end
    w:tell(th, "all", true, "[" .. table.concat(values, " ") .. "]")
  end
  got = gather(w, list, function() w:wake(th, finish) end)
  if got.failed or got.left == 0 then return finish() end
  w:block(th, "all", function()
    unwatch()
    w:leave_scope(scope)
  end)
end

return ops
