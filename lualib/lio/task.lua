-- The task core: a pool of coroutines, a queue of those that can run, and waiting on tokens.
--
-- `lio.loop` drives it by itself, the scheduler's service library will drive it per message. One core
-- per VM. A wakeup queues, it never runs inside the waker; order of wakeups is order of runs. A task's
-- coroutine goes back to the pool when its function returns; an error closes it (its `<close>` variables
-- run) and it is not used again.

local create <const> = coroutine.create
local resume <const> = coroutine.resume
local yield <const> = coroutine.yield
local running <const> = coroutine.running
local isyieldable <const> = coroutine.isyieldable
local close_coroutine <const> = coroutine.close
local unpack <const> = table.unpack
local select <const> = select

local M = {}

-- What a task's coroutine yields when its function has returned, and when it waits.
local DONE <const> = {}
local WAIT <const> = {}
-- First value of a resume that makes the wait raise the second one.
local INTERRUPT <const> = {}

-- The run queue: coroutine, two values, and the rest of the values in a table.
local queue, first, second, rest = {}, {}, {}, {}
local head, tail = 1, 0

local waiting = {} -- token → coroutine
local token_of = {} -- coroutine → token, when that is not the coroutine itself
local alive = {} -- coroutine → true, while it runs a task
local count = 0
local pool, pooled = {}, 0
local current -- the task that runs now
local POOL_MOST <const> = 1024

local function enqueue(co, a, b, ...)
  tail = tail + 1
  queue[tail], first[tail], second[tail] = co, a, b
  if select("#", ...) > 0 then
    rest[tail] = { n = select("#", ...), ... }
  end
end

local function body(f, ...)
  f(...)
  return body(yield(DONE))
end

-- Called with a task's error message and its coroutine, which still has its stack. Replace it to log
-- elsewhere. Default: message and traceback on standard error.
function M.on_error(message, co)
  if type(message) ~= "string" then
    local meta = getmetatable(message)
    message = meta and meta.__tostring and tostring(message)
      or "(error object is a " .. type(message) .. " value)"
  end
  io.stderr:write("lio: ", debug.traceback(co, message), "\n")
end

local function end_task(co)
  alive[co] = nil
  count = count - 1
end

local function failed(co, message)
  end_task(co)
  local token = token_of[co] or co
  if waiting[token] == co then waiting[token] = nil end
  token_of[co] = nil
  local ok, problem = pcall(M.on_error, message, co)
  if not ok then io.stderr:write("lio: error in on_error: ", tostring(problem), "\n") end
  local closed, close_error = close_coroutine(co)
  if not closed and close_error ~= message then
    io.stderr:write("lio: error while closing a task: ", tostring(close_error), "\n")
  end
end

-- What a resume came back with.
local function settle(co, ok, what)
  current = nil
  if not ok then return failed(co, what) end
  if what == WAIT then return end
  if what == DONE then
    end_task(co)
    if pooled < POOL_MOST then
      pooled = pooled + 1
      pool[pooled] = co
    else
      close_coroutine(co)
    end
    return
  end
  -- A plain coroutine.yield gives way to the others.
  enqueue(co)
end

-- `task.fork(f, …)` → the task's coroutine. It runs after what is queued already.
function M.fork(f, ...)
  if type(f) ~= "function" and not (getmetatable(f) or {}).__call then
    error("bad argument #1 to 'fork' (function expected, got " .. type(f) .. ")", 2)
  end
  local co
  if pooled > 0 then
    co = pool[pooled]
    pool[pooled] = nil
    pooled = pooled - 1
  else
    co = create(body)
  end
  alive[co] = true
  count = count + 1
  enqueue(co, f, ...)
  return co
end

local function woken(a, b, ...)
  if a == INTERRUPT then error(b, 0) end
  return a, b, ...
end

-- `task.wait([token])` → the values that `wakeup` was given. `token` is any value but nil, the running
-- coroutine when absent. Raises outside a task, where Lua cannot yield, and when somebody waits on the
-- token already.
function M.wait(token)
  local co = running()
  if co ~= current then
    if alive[co] == nil and current == nil then
      error("wait: called outside a task; use lio.loop.run(function() … end)", 2)
    end
    error("wait: called inside a coroutine that is not a task", 2)
  end
  if not isyieldable() then
    error("wait: cannot wait here, a C function that cannot yield is on the stack", 2)
  end
  if token == nil then token = co end
  if waiting[token] then error("wait: somebody waits on this token already", 2) end
  waiting[token] = co
  if token ~= co then token_of[co] = token end
  return woken(yield(WAIT))
end

local function release(token)
  local co = waiting[token]
  if co then
    waiting[token] = nil
    if co ~= token then token_of[co] = nil end
  end
  return co
end

-- `task.wakeup(token, …)` → true; nil when nobody waits on the token. The values are what `wait` returns.
function M.wakeup(token, ...)
  local co = waiting[token]
  if not co then return nil end
  waiting[token] = nil
  if co ~= token then token_of[co] = nil end
  enqueue(co, ...)
  return true
end

-- `task.interrupt(token, err)` → true; nil when nobody waits. The wait raises `err`.
function M.interrupt(token, err)
  local co = release(token)
  if not co then return nil end
  enqueue(co, INTERRUPT, err)
  return true
end

-- `task.is_waiting(token)` → whether somebody waits on it.
function M.is_waiting(token)
  return waiting[token] ~= nil
end

-- `task.is_alive(co)` → whether the coroutine runs a task that has not ended.
function M.is_alive(co)
  return alive[co] ~= nil
end

-- `task.kill(co)` → true; nil when it is no living task. Closes it at its wait; its `<close>` variables
-- run. A task cannot kill itself.
function M.kill(co)
  if not alive[co] then return nil end
  if co == current then error("kill: a task cannot kill itself", 2) end
  local token = token_of[co] or co
  if waiting[token] == co then release(token) end
  for index = head, tail do
    if queue[index] == co then
      queue[index], first[index], second[index], rest[index] = false, nil, nil, nil
    end
  end
  end_task(co)
  local ok, message = close_coroutine(co)
  if not ok then
    io.stderr:write("lio: error while closing a task: ", tostring(message), "\n")
  end
  return true
end

-- Kills every task (but the running one, if any).
function M.kill_all()
  local again = true
  while again do
    again = false
    local list = {}
    for co in pairs(alive) do
      if co ~= current then list[#list + 1] = co end
    end
    for _, co in ipairs(list) do
      again = M.kill(co) or again
    end
  end
end

-- `task.running()` → the running coroutine; what `wait` without a token waits on.
function M.running()
  return (running())
end

-- `task.count()` → how many tasks have not ended.
function M.count()
  return count
end

-- `task.list()` → the coroutines of the living tasks.
function M.list()
  local list = {}
  for co in pairs(alive) do list[#list + 1] = co end
  return list
end

-- `task.has_ready()` → whether a task can run.
function M.has_ready()
  return head <= tail
end

-- Runs what is queued now. What these tasks queue is left for the next call, so that a caller can look
-- after I/O in between. Returns whether there is more.
function M.run_ready()
  if current then error("run_ready: called from inside a task", 2) end
  local last = tail
  while head <= last do
    local at = head
    local co, a, b, more = queue[at], first[at], second[at], rest[at]
    queue[at], first[at], second[at] = nil, nil, nil
    head = at + 1
    if co then
      current = co
      if more then
        rest[at] = nil
        settle(co, resume(co, a, b, unpack(more, 1, more.n)))
      elseif b ~= nil then
        settle(co, resume(co, a, b))
      elseif a ~= nil then
        settle(co, resume(co, a))
      else
        settle(co, resume(co))
      end
    end
  end
  if head > tail then
    head, tail = 1, 0
    return false
  end
  return true
end

return M
