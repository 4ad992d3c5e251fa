-- The task core: a pool of coroutines, a queue of those that can run, and waiting on tokens.
--
-- `lio.loop` drives it by itself, the scheduler's service library will drive it per message. One core
-- per VM. A wakeup queues, it never runs inside the waker; order of wakeups is order of runs. A task's
-- coroutine goes back to the pool when its function returns; an error or a kill closes it (its `<close>`
-- variables run) and it is not used again, so that a queue entry of a dead one is simply passed over.

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
-- What `token_of` says of a task that neither waits nor was woken from a wait.
local NOTHING <const> = {}

-- The run queue: coroutine and two values; what they cannot hold is packed in `rest`.
local queue, first, second, rest = {}, {}, {}, {}
local head, tail = 1, 0

local waiting = {} -- token → coroutine
-- Coroutine of a living task → what it waits on, or was woken from without having run since. Of the
-- running task it says nothing.
local token_of = {}
local abandoned = function() end
local count = 0
local pool, pooled = {}, 0
local current -- the task that runs now
local spare -- one free coroutine, ahead of the pool
local POOL_MOST <const> = 1024

local function enqueue(co, ...)
  local a, b = ...
  local n = select("#", ...)
  tail = tail + 1
  queue[tail] = co
  if n > 2 or n == 2 and b == nil or n == 1 and a == nil then
    rest[tail] = { n = n, ... }
  else
    first[tail], second[tail] = a, b
  end
end

local body

-- Called in the tail position, so that a pooled coroutine keeps nothing of its last task.
local function rest_in_pool()
  return body(yield(DONE))
end

function body(f, ...)
  f(...)
  return rest_in_pool()
end

-- `task.on_abandon(f)`: calls `f(token)` when a wait ends without what it waited for: by an interrupt, by
-- the task being killed, also between its wakeup and its run, or because the caller cannot wait at all.
-- For who hands turns round. One `f` at a time.
function M.on_abandon(f)
  abandoned = f
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
  token_of[co] = nil
  count = count - 1
end

local function failed(co, message)
  -- One that was killed after it had been queued.
  if token_of[co] == nil then return end
  end_task(co)
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
    token_of[co] = nil
    count = count - 1
    if pooled < POOL_MOST then
      pooled = pooled + 1
      pool[pooled] = co
    else
      close_coroutine(co)
    end
    return
  end
  -- A plain coroutine.yield gives way to the others.
  token_of[co] = NOTHING
  enqueue(co)
end

-- A coroutine for a task: one from the pool, or a new one.
local function from_pool()
  if pooled == 0 then return create(body) end
  local co = pool[pooled]
  pool[pooled] = nil
  pooled = pooled - 1
  return co
end

-- `task.fork(f, …)` → the task's coroutine. It runs after what is queued already.
function M.fork(f, ...)
  if type(f) ~= "function" and not (getmetatable(f) or {}).__call then
    error("bad argument #1 to 'fork' (function expected, got " .. type(f) .. ")", 2)
  end
  local co = from_pool()
  token_of[co] = NOTHING
  count = count + 1
  enqueue(co, f, ...)
  return co
end

-- `task.start(f, …)`: runs `f` as a task now, up to its first wait; inside a task it is as `fork`. For
-- loops, on events.
function M.start(f, ...)
  if current then return M.fork(f, ...) end
  local co = spare
  if co then spare = nil else co = from_pool() end
  -- A task that ends without a wait is not entered anywhere.
  current = co
  local ok, what = resume(co, f, ...)
  if what == DONE and not spare then
    current = nil
    spare = co
    return
  end
  count = count + 1
  if what ~= WAIT then token_of[co] = NOTHING end
  settle(co, ok, what)
end

local function woken(...)
  if ... == INTERRUPT then error((select(2, ...)), 0) end
  return ...
end

local function refuse(token, co)
  abandoned(token)
  local why = "a C function that cannot yield is on the stack"
  if current == nil then
    why = "outside a task; use lio.loop.run(function() … end)"
  elseif co ~= current then
    why = "inside a coroutine that is not a task"
  end
  error("wait: cannot wait here: " .. why, 3)
end

-- `task.wait([token])` → the values that `wakeup` was given. `token` is any value but nil, the running
-- coroutine when absent. Raises outside a task, where Lua cannot yield, and when somebody waits on the
-- token already.
function M.wait(token)
  local co = running()
  if token == nil then token = co end
  if co ~= current or not isyieldable() then refuse(token, co) end
  if waiting[token] then error("wait: somebody waits on this token already", 2) end
  waiting[token] = co
  token_of[co] = token
  return woken(yield(WAIT))
end

-- `task.wakeup(token, …)` → true; nil when nobody waits on the token. The values are what `wait` returns.
function M.wakeup(token, ...)
  local co = waiting[token]
  if not co then return nil end
  waiting[token] = nil
  enqueue(co, ...)
  return true
end

-- `task.interrupt(token, err)` → true; nil when nobody waits. The wait raises `err`.
function M.interrupt(token, err)
  local co = waiting[token]
  if not co then return nil end
  waiting[token] = nil
  token_of[co] = NOTHING
  abandoned(token)
  enqueue(co, INTERRUPT, err)
  return true
end

-- `task.is_waiting(token)` → whether somebody waits on it.
function M.is_waiting(token)
  return waiting[token] ~= nil
end

-- `task.is_alive(co)` → whether the coroutine runs a task that has not ended.
function M.is_alive(co)
  return token_of[co] ~= nil
end

-- `task.kill(co)` → true; nil when it is no living task. Closes it at its wait; its `<close>` variables
-- run. A task cannot kill itself.
function M.kill(co)
  local token = token_of[co]
  if token == nil then return nil end
  if co == current then error("kill: a task cannot kill itself", 2) end
  if waiting[token] == co then waiting[token] = nil end
  end_task(co)
  if token ~= NOTHING then abandoned(token) end
  local ok, message = close_coroutine(co)
  if not ok then
    io.stderr:write("lio: error while closing a task: ", tostring(message), "\n")
  end
  return true
end

-- Kills every task (but the running one, if any), and those that they fork while they end.
function M.kill_all()
  local again = true
  while again do
    again = false
    for _, co in ipairs(M.list()) do
      if co ~= current and M.kill(co) then again = true end
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
  for co in pairs(token_of) do list[#list + 1] = co end
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
    current = co
    if more then
      rest[at] = nil
      settle(co, resume(co, unpack(more, 1, more.n)))
    elseif b ~= nil then
      settle(co, resume(co, a, b))
    elseif a ~= nil then
      settle(co, resume(co, a))
    else
      settle(co, resume(co))
    end
  end
  if head > tail then
    head, tail = 1, 0
    return false
  end
  return true
end

return M
