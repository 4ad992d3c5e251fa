-- The runner of the property test of lio.thread: executes random operations in real threads (tests/model/real.lua) and
-- in the model (world.lua), and compares the logs of both after each step. Called by
-- tests/thread_model_test.lua and tests/long/thread_model.lua.
-- Invariant: the same seed and number of operations give the same run; no task, timer or socket is left at its end.

local coroutine = require "lio.coroutine"
local lio = require "lio"
local task = require "lio.task"
local thread = require "lio.thread"
local counts = require "tests.model.counts"
local choose = require "tests.model.choose"
local ops = require "tests.model.ops"
local real = require "tests.model.real"
local World = require "tests.model.world"
local t = require "tests.kit"

local run = {}

local HISTORY <const> = 30
local OPEN_SCOPES <const> = 100 -- an open scope may be used until this many more ids exist
local CHECK_EVERY <const> = 64 -- steps between two comparisons of every status

-- ---------------------------------------------------------------------------------------------
-- The actions of the driver in the model

local acts = {}

-- Reports whether a thread is blocked in a wait of this kind and has not been woken.
local function is_blocked(th, kind)
  return th and th.blocked and th.blocked.kind == kind and not th.queued
end

-- Wakes a thread if it is blocked in a wait of this kind. Returns true or nil, as loop.wakeup does.
local function wake(w, id, kind, finish)
  local th = w.threads[id]
  if not is_blocked(th, kind) then return nil end
  w:wake(th, function() finish(th) end)
  return true
end

function acts.command(w, c)
  w:write("commanded", wake(w, c.id, "idle", function(th) ops[c.command.op](w, th, c.command) end))
end

function acts.interrupt(w, c)
  w:write("interrupted", wake(w, c.id, "idle", function(th) w:raise(th, c.value) end))
end

function acts.wake(w, c)
  w:write("woke", wake(w, c.id, "token", function(th) w:record(th, "token", true, c.value) end))
end

function acts.interrupt_token(w, c)
  w:write("interrupted", wake(w, c.id, "token", function(th) w:record(th, "token", false, c.value) end))
end

function acts.wake_sleeper(w, c)
  w:write("woke sleeper", wake(w, c.id, "sleep", function(th) w:record(th, "slept", c.value) end))
end

function acts.root(w, c) w:spawn(w.driver, c.child) end

function acts.orphan(w, c) w:fork_spawn(c.child) end

function acts.kill(w, c)
  local th = w.threads[c.id]
  if not (th and th.known) then return w:write "no handle" end
  local ok, why = w:kill(th)
  if ok then w:write("kill", true) else w:write("kill", ok, why) end
end

function acts.status(w, c)
  local th = w.threads[c.id]
  if not (th and th.known) then return w:write "no handle" end
  w:write("status", ops.status_of(w, th))
end

function acts.reap(w, c) w:write("reap", w:take(w.threads[c.id])) end

function acts.collect() end

-- ---------------------------------------------------------------------------------------------
-- Comparing

-- Removes the reports of the garbage collector from the log, if the model allows them.
local function drop_late(w)
  for i = #real.log, 1, -1 do
    local value = real.log[i]:match "^logged (.*)"
    if value and w.late[value] and real.log[i] ~= w.log[i] then
      w.late[value] = nil
      table.remove(real.log, i)
    end
  end
end

local function difference(w)
  drop_late(w)
  for i = 1, math.max(#w.log, #real.log) do
    if w.log[i] ~= real.log[i] then
      local text = "event %d differs\n   got: %s\n  want: %s\nreal log:\n  %s\npredicted log:\n  %s"
      return text:format(i, real.log[i], w.log[i], table.concat(real.log, "\n  "), table.concat(w.log, "\n  "))
    end
  end
end

-- Compares the status of every thread and coroutine, and the number of tasks. Returns a description of the first
-- difference, or nil.
local function compare_states(w, tasks)
  local living = 0
  for id, th in pairs(w.threads) do
    if not th.ended then living = living + 1 end
    local h = th.known and real.handle(id)
    if th.known and (h and thread.status(h)) ~= ops.status_of(w, th) then
      return ("thread %d is %s, want %s"):format(id, h and thread.status(h), ops.status_of(w, th))
    end
  end
  for id, co in pairs(w.cos) do
    local got, want = coroutine.status(real.coroutine(id)), ops.co_status_of(w, co)
    if got ~= want then return ("coroutine %d is %s, want %s"):format(id, got, want) end
  end
  local count = counts.now().tasks - tasks
  if count ~= living then return ("%d tasks have not ended, want %d"):format(count, living) end
end

local function report(problem, opts, history, done)
  local lines = {}
  for i = math.max(1, done - HISTORY + 1), done do
    lines[#lines + 1] = ("  %d %s"):format(i, t.show(history[i % HISTORY]))
  end
  return ("seed %d, operation %d: %s\nthe last operations:\n%s"):format(
    opts.seed, done, problem, table.concat(lines, "\n"))
end

-- ---------------------------------------------------------------------------------------------
-- The run

local function forget(w, chooser)
  for id, th in pairs(w.threads) do
    if w:is_dead(th) and chooser:is_old("thread", id) then
      w.threads[id] = nil
      real.forget("thread", id)
    end
  end
  for id, scope in pairs(w.scopes) do
    -- A scope stays open if the coroutine of its frame was not closed.
    if chooser:is_old("scope", scope.closed and id or id + OPEN_SCOPES) then
      w.scopes[id] = nil
      real.forget("scope", id)
    end
  end
  for id, co in pairs(w.cos) do
    if co.status ~= "chained" and chooser:is_old("co", id) then
      w.cos[id] = nil
      real.forget("co", id)
    end
  end
end

local function clear(list)
  for i = #list, 1, -1 do list[i] = nil end
end

-- One step: up to three operations, all done before any thread runs.
local function step(w, chooser, history, done)
  local batch = chooser:batch(w)
  for i, action in ipairs(batch) do
    history[(done + i) % HISTORY] = action
    real.act(action)
    acts[action.act](w, action)
  end
  real.settle()
  w:settle()
  return #batch, difference(w)
end

local function end_all(w)
  for id in pairs(w.threads) do
    local h = real.handle(id)
    if h then
      thread.kill(h)
      if thread.status(h) == "zombie" then thread.wait(h) end
    end
  end
  real.forget_all()
end

-- After a difference the state is unknown: kill all tasks, so that the loop ends.
local function abandon()
  for _, co in ipairs(task.list()) do
    if co ~= task.running() then pcall(task.kill, co) end
  end
end

local function drive(opts)
  clear(real.log)
  local chooser, w = choose.new(opts.seed, opts), World.new()
  local before, history, done, steps = counts.now(), {}, 0, 0
  local started = lio.now()
  while done < opts.operations do
    local n, problem = step(w, chooser, history, done)
    done, steps = done + n, steps + 1
    if not problem and steps % CHECK_EVERY == 0 then
      problem = compare_states(w, before.tasks)
      forget(w, chooser)
      if opts.progress then opts.progress(done) end
      if opts.seconds and lio.now() - started > opts.seconds then break end
    end
    if problem then return done, report(problem, opts, history, done) end
    clear(w.log)
    clear(real.log)
  end
  end_all(w)
  real.settle()
  return done, nil, before
end

--- Runs `opts.operations` operations from `opts.seed`, for `opts.seconds` at most. Calls `opts.progress(done)` every
-- 64 steps. `opts.without` = { [operation] = true } excludes operations. The caller must be the only task of the loop.
-- Returns the number of operations that were done, and the report of the first difference or nil.
function run.check(opts)
  local restore = real.listen()
  local done, problem, before = drive(opts)
  if problem then abandon() end
  restore()
  if problem then return done, problem end
  counts.expect(before)
  return done
end

return run
