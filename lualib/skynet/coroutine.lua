-- `require "skynet.coroutine"`: coroutines that may wait by skynet's functions. Here all coroutines may; this has
-- skynet's names and statuses. Called by programs.

local this_task <const> = require "lio.task".current

local M = {
  isyieldable = coroutine.isyieldable,
  running = coroutine.running,
  yield = coroutine.yield,
}

-- Coroutines of `create` and `wrap` → the task that resumed them last; true before the first time.
local tasks = setmetatable({}, { __mode = "k" })

-- `create(f)` → a coroutine.
function M.create(f)
  local co = coroutine.create(f)
  tasks[co] = true
  return co
end

-- `resume(co, …)`: as `coroutine.resume`. When `co` waits, this waits as well. From elsewhere one that waits cannot be
-- resumed.
function M.resume(co, ...)
  if tasks[co] and coroutine.status(co) == "suspended" then tasks[co] = this_task() or true end
  return coroutine.resume(co, ...)
end

-- `wrap(f)` → a function that resumes a coroutine, and raises its errors.
function M.wrap(f)
  local co = M.create(f)
  local function check(ok, ...)
    if ok then return ... end
    error((...), 0)
  end
  return function(...)
    return check(M.resume(co, ...))
  end
end

-- `status(co)`: as `coroutine.status`, and "blocked" while it waits.
function M.status(co)
  local status = coroutine.status(co)
  return status == "waiting" and "blocked" or status
end

-- `thread([co])` → the coroutine that the service runs and in which `co`, by default the running one, was resumed;
-- whether that is `co` itself.
function M.thread(co)
  co = co or coroutine.running()
  local owner = tasks[co]
  if owner == true then return co, false end
  if owner then return owner, false end
  return co, true
end

-- `close(co)`: as `coroutine.close`.
function M.close(co)
  tasks[co] = nil
  return coroutine.close(co)
end

return M
