-- The real side of the property test of lio.thread: threads that execute commands of the driver, one at a time, and
-- log the results. tests/model/world.lua predicts the log; run.lua compares both.
-- Invariant: a thread does nothing without a command; between commands it waits for the token "c" and its id.

local coroutine = require "lio.coroutine"
local loop = require "lio.loop"
local task = require "lio.task"
local thread = require "lio.thread"

local real = { log = {} }

local handles, scopes, cos, states = {}, {}, {}, {}

local FAR <const> = 1e6 -- seconds

local function log(...)
  local v = table.pack(...)
  for i = 1, v.n do v[i] = tostring(v[i]) end
  real.log[#real.log + 1] = table.concat(v, " ")
end

-- Returns the results of thread.all, with the values of all threads as one string.
local function flat(ok, list, ...)
  if ok ~= true or type(list) ~= "table" then return ok, list, ... end
  local out = {}
  for i, r in ipairs(list) do out[i] = table.concat(r, ",", 1, r.n) end
  return ok, "[" .. table.concat(out, " ") .. "]", ...
end

-- Misuse raises; other tests check the messages.
local function or_raised(ok, ...)
  if ok then return ... end
  return "raised"
end

local function closer(frame)
  return setmetatable({}, { __close = function(_, e) log("close", frame, e) end })
end

-- `ctx` belongs to one coroutine; `ctx.me` is the thread that runs it now. Another thread may resume a coroutine that
-- has yielded.
local function next_command(ctx)
  local me = ctx.me
  local command = table.remove(me.script, 1)
  return command or loop.wait("c" .. me.id)
end

local ops = {}

local function obey(ctx)
  while true do
    local command = next_command(ctx)
    local op = command.op
    if op == "ret" then return command.value end
    if op == "err" then error(command.value, 0) end
    ops[op](ctx, command)
  end
end

local function frame(ctx, id)
  local _ <close> = closer(id)
  return obey(ctx)
end

local function run_thread(me)
  log("start", me.id)
  return frame({ me = me, own = true }, me.frame)
end

local function new_thread(child)
  local me = { id = child.id, frame = child.frame, script = table.move(child.script, 1, #child.script, 1, {}) }
  states[me.id] = me
  return me
end

-- Returns the handles of the given ids, or nil if one of them has no handle.
local function known(ids)
  local list = {}
  for i, id in ipairs(ids) do
    list[i] = handles[id]
    if not list[i] then return nil end
  end
  return list
end

local function record(ctx, ...)
  log("t" .. ctx.me.id, ...)
end

function ops.spawn(ctx, c)
  handles[c.child.id] = thread.spawn(run_thread, new_thread(c.child))
  record(ctx, "spawned", c.child.id)
end

function ops.scope_spawn(ctx, c)
  local scope = scopes[c.scope]
  if not scope then return record(ctx, "no scope") end
  local ok, h = pcall(scope.spawn, scope, run_thread, new_thread(c.child))
  if ok then handles[c.child.id] = h end
  record(ctx, "spawned in scope", ok)
end

function ops.wait(ctx, c)
  local list = known(c.ids)
  if not list then return record(ctx, "no handle") end
  record(ctx, "wait", or_raised(pcall(thread.wait, table.unpack(list))))
end

function ops.scope_wait(ctx, c)
  local scope = scopes[c.scope]
  if not scope then return record(ctx, "no scope") end
  record(ctx, "scope wait", scope:wait())
end

function ops.kill(ctx, c)
  if not handles[c.id] then return record(ctx, "no handle") end
  record(ctx, "kill", or_raised(pcall(thread.kill, handles[c.id])))
end

function ops.status(ctx, c)
  if not handles[c.id] then return record(ctx, "no handle") end
  record(ctx, "status", thread.status(handles[c.id]))
end

function ops.pcall(ctx, c)
  -- Two statements, because the thread that runs this code when pcall returns may not be the thread that called it.
  local ok, value = pcall(frame, ctx, c.frame)
  record(ctx, "pcall", ok, value)
end

local function scope_frame(ctx, c)
  local scope <close> = thread.scope()
  scopes[c.scope] = scope
  local _ <close> = closer(c.frame)
  return obey(ctx)
end

function ops.scope(ctx, c)
  local value = scope_frame(ctx, c)
  record(ctx, "scope left", value)
end

function ops.create(ctx, c)
  cos[c.co] = coroutine.create(function(me)
    return frame({ me = me }, c.frame)
  end)
  record(ctx, "resume", coroutine.resume(cos[c.co], ctx.me))
end

function ops.yield(ctx)
  if ctx.own then return record(ctx, "nothing to yield to") end
  ctx.me = coroutine.yield "yielded"
  record(ctx, "resumed")
end

function ops.resume(ctx, c)
  if not cos[c.co] then return record(ctx, "no coroutine") end
  record(ctx, "resume", coroutine.resume(cos[c.co], ctx.me))
end

function ops.co_status(ctx, c)
  if not cos[c.co] then return record(ctx, "no coroutine") end
  record(ctx, "coroutine status", coroutine.status(cos[c.co]))
end

function ops.close(ctx, c)
  if not cos[c.co] then return record(ctx, "no coroutine") end
  record(ctx, "closed", or_raised(pcall(coroutine.close, cos[c.co])))
end

function ops.token(ctx)
  record(ctx, "token", pcall(loop.wait, "k" .. ctx.me.id))
end

function ops.sleep(ctx)
  ctx.me.sleeper = task.running()
  record(ctx, "slept", loop.sleep(FAR))
end

function ops.nap(ctx)
  real.timed = true
  loop.sleep(0)
  record(ctx, "napped")
end

function ops.timeout(ctx, c)
  real.timed = real.timed or not c.far
  record(ctx, "timeout", thread.timeout(c.far and FAR or 0, run_thread, new_thread(c.child)))
end

-- Returns the list for `thread.all` and `thread.race`: handles first, then functions with their argument.
local function members(c)
  local list = known(c.ids)
  if not list then return nil end
  for _, child in ipairs(c.children) do list[#list + 1] = { run_thread, new_thread(child) } end
  return list
end

function ops.all(ctx, c)
  local list = members(c)
  if not list then return record(ctx, "no handle") end
  record(ctx, "all", or_raised(pcall(function() return flat(thread.all(list)) end)))
end

function ops.race(ctx, c)
  local list = members(c)
  if not list then return record(ctx, "no handle") end
  record(ctx, "race", or_raised(pcall(thread.race, list)))
end

-- ---------------------------------------------------------------------------------------------
-- The actions of the driver, which is a task but not a thread

local acts = {}

function acts.command(c) log("commanded", loop.wakeup("c" .. c.id, c.command)) end

function acts.interrupt(c) log("interrupted", loop.interrupt("c" .. c.id, c.value)) end

function acts.wake(c) log("woke", loop.wakeup("k" .. c.id, c.value)) end

function acts.interrupt_token(c) log("interrupted", loop.interrupt("k" .. c.id, c.value)) end

function acts.wake_sleeper(c)
  local me = states[c.id]
  log("woke sleeper", me and me.sleeper and loop.wakeup(me.sleeper, c.value))
end

function acts.root(c)
  handles[c.child.id] = thread.spawn(run_thread, new_thread(c.child))
end

function acts.orphan(c)
  local me = new_thread(c.child)
  loop.fork(function() handles[c.child.id] = thread.spawn(run_thread, me) end)
end

function acts.kill(c)
  if not handles[c.id] then return log "no handle" end
  log("kill", or_raised(pcall(thread.kill, handles[c.id])))
end

function acts.status(c)
  if not handles[c.id] then return log "no handle" end
  log("status", thread.status(handles[c.id]))
end

-- The thread has ended, so the driver does not wait.
function acts.reap(c)
  log("reap", thread.wait(handles[c.id]))
end

function acts.collect() collectgarbage() end

--- Performs an action of the driver.
function real.act(action)
  acts[action.act](action)
end

--- Runs all tasks until the ready queue is empty and no timer of 0 seconds is set.
function real.settle()
  repeat
    real.timed = false
    repeat loop.sleep(0) until not task.has_ready()
    -- A timer that was set in the meantime may not have fired yet.
  until not real.timed
end

--- Forgets a thread, scope or coroutine that the model has forgotten.
function real.forget(kind, id)
  if kind == "thread" then
    handles[id], states[id] = nil, nil
  elseif kind == "scope" then
    scopes[id] = nil
  else
    cos[id] = nil
  end
end

--- Forgets everything.
function real.forget_all()
  handles, scopes, cos, states = {}, {}, {}, {}
end

--- Returns the handle of a thread, or nil.
function real.handle(id) return handles[id] end

--- Returns the coroutine with this id, or nil.
function real.coroutine(id) return cos[id] end

--- Logs the failures that lio reports. Returns a function that restores the previous `task.on_error`.
function real.listen()
  local before = task.on_error
  -- Its traceback is not predicted.
  task.on_error = function(message) log("logged", message:match "^[^\n]*") end
  return function() task.on_error = before end
end

return real
