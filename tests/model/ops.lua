-- The commands of the model's threads, one function each: `op(world, thread, command)`. Called by
-- tests/model/world.lua; tests/model/real.lua contains the real commands under the same names.
-- Invariant: an operation ends its thread, blocks it, or leaves it to take its next command.

local ops = {}

-- In Lua 5.5 a running coroutine may close itself; its resume returns true.
local CLOSES_ITSELF <const> = _VERSION ~= "Lua 5.4"

-- Returns the threads of the given ids, or nil if the handle of one is not known yet.
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
    w:record(th, "pcall", true, c.value)
  elseif frame.kind == "scope" then
    w:record(th, "scope left", c.value)
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
  w:record(th, "spawned", c.child.id)
end

function ops.scope_spawn(w, th, c)
  local scope = w.scopes[c.scope]
  if not scope then return w:record(th, "no scope") end
  -- The new thread may close the scope.
  local open = not scope.closed
  if open then w:spawn(scope, c.child) end
  w:record(th, "spawned in scope", open)
end

-- Calls `fire(one)` once, when the first thread in `list` ends. Returns a function that cancels this call.
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

-- Waits until a thread in `list` ends, and calls `finish(ok, value)`. If threads in the list have already ended, calls
-- `finish` at once for the first of them. A woken thread takes the result when it runs. `off` is called when the wait
-- is cancelled.
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

-- Reports whether a thread is in the list of threads that it would wait for.
local function has_self(th, list)
  for _, one in ipairs(list) do
    if one == th then return true end
  end
end

function ops.wait(w, th, c)
  local list = known(w, c.ids)
  if not list then return w:record(th, "no handle") end
  if has_self(th, list) then return w:record(th, "wait", "raised") end
  wait_for(w, th, list, function(ok, value) w:record(th, "wait", ok, value) end)
end

-- Waits until all threads of the scope have ended, even those that are spawned during the wait.
local function wait_for_scope(w, th, scope)
  if not w:is_busy(scope) then
    local ok, e = w:scope_answer(scope)
    if ok then return w:record(th, "scope wait", true) end
    return w:record(th, "scope wait", false, e)
  end
  local function waiter()
    w:wake(th, function() wait_for_scope(w, th, scope) end)
  end
  table.insert(scope.waiters, waiter)
  w:block(th, "scope wait", function() w:forget_waiter(scope, waiter) end)
end

function ops.scope_wait(w, th, c)
  local scope = w.scopes[c.scope]
  if not scope then return w:record(th, "no scope") end
  wait_for_scope(w, th, scope)
end

function ops.kill(w, th, c)
  local victim = known(w, { c.id })
  if not victim then return w:record(th, "no handle") end
  local ok, why = w:kill(victim[1])
  if ok == false then return w:record(th, "kill", "raised") end
  if ok then w:record(th, "kill", true) else w:record(th, "kill", ok, why) end
end

--- Returns the status of a thread, as thread.status does.
function ops.status_of(w, th)
  if th.ended then return w:is_dead(th) and "dead" or "zombie" end
  return th.running and "running" or "waiting"
end

function ops.status(w, th, c)
  local one = known(w, { c.id })
  if not one then return w:record(th, "no handle") end
  w:record(th, "status", ops.status_of(w, one[1]))
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
  if co.own then return w:record(th, "nothing to yield to") end
  table.remove(th.chain)
  co.status = "suspended"
  w:record(th, "resume", true, "yielded")
end

-- Returns the thread that has the coroutine in its chain.
local function owner(w, co)
  for _, th in pairs(w.threads) do
    for _, one in ipairs(th.chain) do
      if one == co then return th end
    end
  end
end

--- Returns the status of a coroutine, as coroutine.status does in the thread `caller`, or in the driver if `caller` is
--- nil.
function ops.co_status_of(w, co, caller)
  if co.status ~= "chained" then return co.status end
  local th = owner(w, co)
  if not th.running then return "waiting" end
  return (th == caller and w:top(th) == co) and "running" or "normal"
end

function ops.resume(w, th, c)
  local co = w.cos[c.co]
  if not co then return w:record(th, "no coroutine") end
  if co.status == "dead" then return w:record(th, "resume", false, "cannot resume dead coroutine") end
  if co.status == "chained" then
    local waiting = not owner(w, co).running
    return w:record(th, "resume", false, waiting and "cannot resume a coroutine that is waiting"
      or "cannot resume non-suspended coroutine")
  end
  co.status = "chained"
  th.chain[#th.chain + 1] = co
  w:record(th, "resumed")
end

function ops.co_status(w, th, c)
  local co = w.cos[c.co]
  if not co then return w:record(th, "no coroutine") end
  w:record(th, "coroutine status", ops.co_status_of(w, co, th))
end

function ops.close(w, th, c)
  local co = w.cos[c.co]
  if not co then return w:record(th, "no coroutine") end
  if co.status == "chained" then
    local other = owner(w, co)
    if other.running then
      if not CLOSES_ITSELF or w:top(th) ~= co then return w:record(th, "closed", "raised") end
      w:unwind(co)
      return w:leave_coroutine(th, true)
    end
    w:close_waiting(other, co)
    return w:record(th, "closed", true)
  end
  local e = co.error
  co.status, co.error = "dead", nil
  w:unwind(co, e)
  if e then w:record(th, "closed", false, e) else w:record(th, "closed", true) end
end

-- ---------------------------------------------------------------------------------------------
-- Waits

function ops.token(w, th)
  w:block(th, "token")
end

function ops.sleep(w, th)
  w:block(th, "sleep")
end

-- Sets a timer of 0 seconds. Returns a function that cancels it.
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
    w:wake(th, function() w:record(th, "napped") end)
  end))
end

function ops.timeout(w, th, c)
  local scope, off = w:scope(), nil
  local child = w:spawn(scope, c.child)
  child.known = false
  wait_for(w, th, { child }, function(ok, value)
    if off then off() end
    w:leave_scope(scope)
    w:record(th, "timeout", ok, value)
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
      w:record(th, "timeout", nil, "timeout")
    end)
  end)
end

-- Returns a list of threads for `all` and `race` (the threads of the handles, and new threads in a new scope), and the
-- scope. If the list is not valid, records this and returns nothing.
local function members(w, th, c)
  local list, scope = known(w, c.ids), w:scope()
  if not list then return w:record(th, "no handle") end
  if has_self(th, list) then return w:record(th, c.op, "raised") end
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
  if #list == 0 then return w:record(th, "race", "raised") end
  wait_for(w, th, list, function(ok, value)
    kill_all(w, list)
    w:leave_scope(scope)
    w:record(th, "race", ok, value)
  end, function() w:leave_scope(scope) end)
end

-- Collects the results for `all`: takes the result of each thread when the thread ends.
local function gather(w, list, done)
  local got = { values = {}, left = 0 }
  local function collect(one)
    local ok, value = nil, "already waited"
    -- If the end of `one` has already woken a waiting thread, that thread takes the result.
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
    if got.failed then return w:record(th, "all", false, got.failed[1]) end
    local values = {}
    for i, one in ipairs(list) do values[i] = got.values[one] end
    w:record(th, "all", true, "[" .. table.concat(values, " ") .. "]")
  end
  got = gather(w, list, function() w:wake(th, finish) end)
  if got.failed or got.left == 0 then return finish() end
  w:block(th, "all", function()
    unwatch()
    w:leave_scope(scope)
  end)
end

return ops
