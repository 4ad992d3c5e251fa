-- The fuzzer of tasks: each byte of the input is an operation of a task or of the program, and a model says what must
-- happen. `src/fuzzing/tasks.rs` runs this file with the input, and checks the values that it returns.

local data <const> = ...
local task = require "lio.task"
local c = require "lio.coroutine"

local MAX_SPAWNS <const>, MAX_DEPTH <const> = 6, 12

-- The first violation. A check raises it as well, so that no task continues.
local failure
local function check(ok, message)
  if ok then return end
  failure = failure or message
  error("violation: " .. message, 2)
end

local at = 0
local function byte()
  at = at + 1
  return data:byte(at) or 0
end
local function is_over() return at >= #data end

-- The model ---------------------------------------------------------------------------------------------------------

-- Records of tasks that have not ended: their state ("ready", "waiting", "running"), their token, their open guards.
local live, live_count = {}, 0
local records = {}
-- The records of ready tasks, in the order in which they must run.
local queue = {}
local current
local spawns = 0
-- How often each token must be, and was, reported as abandoned.
local abandoned = { expected = {}, seen = {} }
local stats = { forked = 0, resumed = 0, killed = 0, failed = 0, lost = 0 }
-- The task of each coroutine; a coroutine is used again for other tasks. A key stays until its finalizers have run.
local owners = setmetatable({}, { __mode = "k" })
-- The tasks of nested coroutines.
local members = setmetatable({}, { __mode = "k" })
-- Everything that must be collected in the end.
local payloads = setmetatable({}, { __mode = "k" })
local tokens = { "a", 2, {}, function() end, 1.5, true }
local waiting = {}
local is_killing_all = false

local ORPHAN <const> = {}
local function count(list, token)
  -- The token of an orphan is reported only until the collector has found that no code refers to it.
  if getmetatable(token) ~= ORPHAN then list[token] = (list[token] or 0) + 1 end
end

local function payload()
  local value = { known = true }
  payloads[value] = true
  return value
end

local function coroutine_of(record)
  for co, owner in pairs(owners) do
    if owner == record then return co end
  end
end

local function new_record(is_protected)
  local record = { number = #records + 1, state = "ready", is_protected = is_protected, guards = {}, ends = 0 }
  records[#records + 1] = record
  live[record] = true
  live_count = live_count + 1
  stats.forked = stats.forked + 1
  return record
end

local function forget(record)
  if record.state == "waiting" and record.token ~= nil then waiting[record.token] = nil end
  for index = #queue, 1, -1 do
    if queue[index] == record then table.remove(queue, index) end
  end
  record.strong = nil
end

local function mark_ended(record)
  check(record.state ~= "ended", "a task ended twice")
  forget(record)
  record.state = "ended"
  live[record] = nil
  live_count = live_count - 1
end

-- Called when a task runs: it must be the next one.
local function mark_running(record)
  check(record.state == "ready", "a task runs that is " .. record.state)
  check(queue[1] == record, "a task runs before its turn")
  table.remove(queue, 1)
  record.state = "running"
  current = record
end

local function check_model()
  check(task.count() == live_count, ("%d tasks instead of %d"):format(task.count(), live_count))
  for _, token in ipairs(tokens) do
    check(task.is_waiting(token) == (waiting[token] ~= nil), "is_waiting differs")
  end
  if #queue > 0 then check(task.has_ready(), "ready tasks are not known") end
end

-- Operations --------------------------------------------------------------------------------------------------------

local act

local function body(record)
  mark_running(record)
  record.has_run = true
  local co = task.current()
  check(co == c.running(), "the coroutine of a task")
  local owner = owners[co]
  check(owner == nil or owner == record or owner.state == "ended", "the coroutine of another task")
  owners[co] = record
  if record.is_watched then task.watch_end() end
  if not record.is_protected then
    act(record, 0)
  else
    local ok, err = pcall(act, record, 0)
    if not ok and not (type(err) == "table" and err.known) then check(false, tostring(err)) end
  end
  check(#record.guards == 0, "a task returns before its guards are closed")
  mark_ended(record)
end

local function fork(start)
  local flags = byte()
  local record = new_record(flags & 1 == 0)
  record.is_watched = flags & 6 == 2
  queue[#queue + 1] = record
  local co = start(body, record)
  if co then
    local owner = owners[co]
    check(owner == nil or owner == record or owner.state == "ended", "the coroutine of another task")
    owners[co] = record
  end
  return record
end

-- Starts a task that runs at once.
local function run_now(start)
  local before = current
  spawns = spawns + 1
  local record
  fork(function(f, one)
    record = one
    table.remove(queue)
    table.insert(queue, 1, one)
    return start(f, one)
  end)
  check(record.state ~= "ready" or record.has_run, "a spawned task has not run")
  spawns = spawns - 1
  current = before
end

local function check_resumed(record, expected, ...)
  mark_running(record)
  record.has_run = true
  stats.resumed = stats.resumed + 1
  check(select("#", ...) == expected.n, "the number of values of a wait")
  check(expected.n == 0 or (...) == expected.value, "the value of a wait")
end

local function wait(record, token, is_orphan)
  if waiting[token] then
    local ok, err = pcall(task.wait, token)
    check(not ok and tostring(err):find "already waiting", "a second wait on a token")
    return
  end
  record.state, record.token, record.is_orphan = "waiting", token, is_orphan
  record.woken, record.has_run, record.wakeup = false, true, nil
  if is_orphan then
    record.token = nil
  else
    waiting[token] = record
  end
  local results = table.pack(pcall(task.wait, token))
  if failure then error(failure, 0) end
  check(record.wakeup, "a wait ends without a wakeup")
  local wakeup = record.wakeup
  record.wakeup, record.woken = nil, false
  if wakeup.raises then
    mark_running(record)
    check(not results[1] and results[2] == wakeup.value, "the error of an interrupt")
    error(wakeup.value, 0)
  end
  check(results[1], tostring(results[2]))
  check_resumed(record, wakeup, table.unpack(results, 2, results.n))
end

local function wake(token, raises)
  local record = waiting[token]
  local value, values = payload(), byte() & 1
  if raises then
    if record then count(abandoned.expected, token) end
    local result = task.interrupt(token, value)
    check(result == (record and true or nil), "the result of interrupt")
  elseif values == 1 then
    check(task.wakeup(token, value) == (record and true or nil), "the result of wakeup")
  else
    check(task.wakeup(token) == (record and true or nil), "the result of wakeup")
  end
  if not record then return end
  waiting[token] = nil
  record.state, record.strong = "ready", nil
  record.woken = not raises
  record.wakeup = { raises = raises, value = value, n = (raises or values == 1) and 1 or 0 }
  queue[#queue + 1] = record
end

-- Records that a wait of a task that is being killed is abandoned.
local function expect_abandoned(record)
  local waits = record.state == "waiting" or record.woken
  if waits and not record.is_orphan then count(abandoned.expected, record.token) end
end

local function kill(which)
  local record = records[which % #records + 1]
  local co = record and coroutine_of(record)
  if not co then return end
  check(task.is_alive(co) == (record.state ~= "ended"), "is_alive differs")
  if record.state == "ended" then
    -- The coroutine may belong to a new task by now.
    return
  end
  if record.state == "running" then
    check(not task.is_idle(co), "a running task is idle")
    local ok, err = pcall(task.kill, co)
    check(not ok and tostring(err):find "kill: ", "a running task was killed")
    return
  end
  check(task.is_idle(co), "a waiting task is not idle")
  expect_abandoned(record)
  mark_ended(record)
  stats.killed = stats.killed + 1
  record.was_killed = true
  local before = current
  check(task.kill(co) == true, "a task is not killed")
  current = before
  check(#record.guards == 0, "a killed task has open guards")
  check(task.kill(co) == nil, "a task was killed twice")
end

local function kill_all()
  local before = current
  local victims = {}
  for record in pairs(live) do
    if record.state ~= "running" then
      expect_abandoned(record)
      victims[#victims + 1] = record
    end
  end
  is_killing_all = true
  for _, record in ipairs(victims) do
    mark_ended(record)
    record.was_killed = true
  end
  task.kill_all()
  is_killing_all = false
  -- Tasks that guards have forked.
  victims = {}
  for record in pairs(live) do
    if record.state ~= "running" then victims[#victims + 1] = record end
  end
  for _, record in ipairs(victims) do
    check(not record.has_run and record.state == "ready", "a task survives kill_all")
    mark_ended(record)
  end
  current = before
  check_model()
end

-- Returns a value whose `__close` checks that guards are closed in their order, each once.
local function guard(record)
  local action = byte()
  local guards = record.guards
  local own = {}
  guards[#guards + 1] = own
  return setmetatable(own, {
    __close = function(_, err)
      check(guards[#guards] == own, "a guard is closed out of order")
      guards[#guards] = nil
      if failure then return end
      local choice = action % 8
      if choice == 1 then
        fork(task.fork)
      elseif choice == 2 and not is_killing_all then
        wake(tokens[action // 8 % #tokens + 1], false)
      elseif choice == 3 then
        collectgarbage()
      elseif choice == 4 and record.state == "running" and record.is_protected then
        error(payload(), 0)
      elseif choice == 5 and not is_killing_all then
        kill(action // 8)
      elseif choice == 6 and err == nil and record.state == "running" and not record.is_closing then
        wait(record, tokens[action // 8 % #tokens + 1])
      end
    end,
  })
end

-- Closes a coroutine. Its guards cannot wait meanwhile.
local function close(record, co)
  local before = record.is_closing
  record.is_closing = true
  local ok, err = c.close(co)
  record.is_closing = before
  return ok, err
end

-- Runs operations in a coroutine of the task, which may yield to the resumer.
local function nested(record, depth, how)
  local co = c.create(function()
    local _ <close> = guard(record)
    act(record, depth + 1)
    if how & 1 ~= 0 then c.yield(7) end
    act(record, depth + 1)
  end)
  members[co] = record
  if how & 2 ~= 0 then
    local f = c.wrap(function()
      members[c.running()] = record
      return act(record, depth + 1)
    end)
    f()
  end
  while c.status(co) ~= "dead" do
    local ok, value = c.resume(co)
    if not ok then
      check(type(value) == "table" and value.known, tostring(value))
      -- A coroutine that fails does not close its variables.
      check(close(record, co) == false, "a failed coroutine is closed without an error")
      if how & 4 ~= 0 then error(value, 0) end
    elseif c.status(co) ~= "dead" then
      check(value == 7, "the value of a yield")
      if how & 8 ~= 0 then
        local closed, err = close(record, co)
        if not closed then check(type(err) == "table" and err.known, tostring(err)) end
      end
    end
  end
end

function act(record, depth)
  while not is_over() do
    check(record.state == "running", "a task runs that is " .. record.state)
    check(current == record, "another task is the current one")
    local op = byte()
    local choice, number = op % 20, op // 20
    if choice == 0 then
      fork(task.fork)
    elseif choice == 1 and spawns < MAX_SPAWNS then
      run_now(task.spawn)
    elseif choice <= 4 then
      wait(record, tokens[number % #tokens + 1])
    elseif choice == 5 then
      local co = c.running()
      record.strong = co
      wait(record, co)
    elseif choice == 6 or choice == 7 then
      wake(tokens[number % #tokens + 1], false)
    elseif choice == 8 then
      wake(tokens[number % #tokens + 1], true)
    elseif choice == 9 then
      kill(byte())
    elseif choice == 10 and depth < MAX_DEPTH then
      nested(record, depth, byte())
    elseif choice == 11 and depth < MAX_DEPTH then
      local ok, err = pcall(act, record, depth + 1)
      if not ok then check(type(err) == "table" and err.known, tostring(err)) end
    elseif choice == 12 and depth < MAX_DEPTH then
      local _ <close> = guard(record)
      act(record, depth + 1)
    elseif choice == 13 then
      error(payload(), 0)
    elseif choice == 14 then
      return
    elseif choice == 15 then
      collectgarbage(number % 2 == 0 and "step" or "collect")
    elseif choice == 16 then
      wait(record, setmetatable({}, ORPHAN), true)
    elseif choice == 17 then
      check_model()
    elseif choice == 18 and number == 0 then
      kill_all()
    elseif choice == 19 then
      local ok = pcall(task.run_ready)
      check(not ok, "run_ready inside a task")
    end
  end
end

-- The program -------------------------------------------------------------------------------------------------------

task.on_abandon(function(token) count(abandoned.seen, token) end)

task.on_error = function(err, co)
  if failure then return end
  local record = owners[co]
  if record and record.state == "ended" then record = nil end
  if type(err) == "string" and err:find("a task is lost", 1, true) then
    -- The innermost coroutine is reported.
    record = record or members[co]
    check(record and record.is_orphan and record.state == "waiting", "a task is lost that is not")
    stats.lost = stats.lost + 1
    mark_ended(record)
    return
  end
  check(type(err) == "table" and err.known, tostring(err))
  check(record and not record.is_protected and record.state == "running", "another task fails")
  stats.failed = stats.failed + 1
  record.has_failed = true
  mark_ended(record)
end

task.on_end(function(co)
  local record = owners[co]
  check(record and record.state == "ended" and record.ends == 0, "a task ends twice, or has not ended")
  check(record.has_failed or record.is_watched and record.has_run, "an end that was not requested")
  record.ends = 1
end)

local function run_ready()
  local batch = table.move(queue, 1, #queue, 1, {})
  local turns = {}
  for _, record in ipairs(batch) do turns[record] = record.wakeup or record end
  local more = task.run_ready()
  current = nil
  if failure then return end
  for _, record in ipairs(batch) do
    check(record.state ~= "ready" or (record.wakeup or record) ~= turns[record], "a ready task has not run")
  end
  if #queue > 0 then check(more, "ready tasks are not reported") end
end

local function step()
  local op = byte()
  local choice, number = op % 10, op // 10
  if choice == 0 then
    fork(task.fork)
  elseif choice == 1 then
    run_now(function(f, record)
      task.start(f, record)
      return nil
    end)
  elseif choice == 2 then
    run_now(task.spawn)
  elseif choice == 3 then
    wake(tokens[number % #tokens + 1], number // #tokens % 2 == 1)
  elseif choice == 4 then
    if #records > 0 then kill(number) end
  elseif choice == 5 then
    collectgarbage()
  elseif choice == 6 then
    -- The program cannot wait.
    count(abandoned.expected, "outside")
    local ok = pcall(task.wait, "outside")
    check(not ok, "a wait outside tasks")
  elseif choice == 7 and number == 3 then
    kill_all()
  else
    run_ready()
  end
  check_model()
end

local ok, err = pcall(function()
  while not is_over() do step() end
  for _ = 1, 200 do
    if #queue == 0 then break end
    run_ready()
  end
  check(#queue == 0, "tasks stay ready")
  -- Orphans are reported after a few cycles of the collector.
  for _ = 1, 6 do
    collectgarbage()
    run_ready()
  end
  for record in pairs(live) do
    check(record.state == "waiting", "a task is " .. record.state)
    check(not record.is_orphan, "an orphan was not reported")
  end
  kill_all()
  check(task.count() == 0 and #task.list() == 0, "a task is left")
  -- The queue may still contain killed tasks, which do not run.
  run_ready()
  check(not task.has_ready(), "a task that has ended is ready")
  for _, record in ipairs(records) do
    check(#record.guards == 0, "a guard was not closed")
    local must_end = record.has_failed or record.is_watched and record.has_run
    check(record.ends == (must_end and 1 or 0), "the callback of an end")
  end
  for _, one in ipairs { "expected", "seen" } do
    for token, times in pairs(abandoned[one]) do
      check(abandoned.expected[token] == times and abandoned.seen[token] == times, "abandoned: " .. tostring(token))
    end
  end
  for _, record in ipairs(records) do record.wakeup, record.token = nil, nil end
  waiting, current = {}, nil
  collectgarbage()
  collectgarbage()
  check(next(payloads) == nil, "a value of a wakeup is left")
end)
if failure or not ok then return failure or tostring(err) end
return nil, stats.forked, stats.resumed, stats.killed, stats.failed, stats.lost
