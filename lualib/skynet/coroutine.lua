-- `require "skynet.coroutine"`: skynet's coroutine functions and status names. In skynet, a program's own coroutine may
-- wait in skynet's functions only if this module created it; on this scheduler, every coroutine may. Used by programs.

local argument = require "skynet.argument"
local check_coroutine <const>, check_function <const> = argument.check_coroutine, argument.check_function
local this_task <const> = require "lio.task".current

local M = {
  isyieldable = coroutine.isyieldable,
  running = coroutine.running,
  yield = coroutine.yield,
}

-- Maps a coroutine of `create` or `wrap` to the last task that has resumed it, or to true if no task has resumed it.
local tasks = setmetatable({}, { __mode = "k" })

local function new(f)
  local co = coroutine.create(f)
  tasks[co] = true
  return co
end

-- `create(f)`: returns a new coroutine.
function M.create(f)
  check_function("create", f)
  return new(f)
end

-- `resume(co, …)`: like `coroutine.resume`. While `co` waits, this call waits too, and no other coroutine can resume
-- `co`.
function M.resume(co, ...)
  if not tasks[co] then
    check_coroutine("resume", co)
  elseif coroutine.status(co) == "suspended" then
    tasks[co] = this_task() or true
  end
  return coroutine.resume(co, ...)
end

-- `wrap(f)`: creates a coroutine. Returns a function that resumes the coroutine and raises its errors.
function M.wrap(f)
  check_function("wrap", f)
  local co = new(f)
  local function check(ok, ...)
    if ok then return ... end
    error((...), 0)
  end
  return function(...)
    return check(M.resume(co, ...))
  end
end

-- `status(co)`: like `coroutine.status`, but returns "blocked" for a coroutine that waits.
function M.status(co)
  check_coroutine("status", co)
  local status = coroutine.status(co)
  return status == "waiting" and "blocked" or status
end

-- `thread([co])`: for a coroutine of `create` or `wrap`, returns the task that last resumed it (or `co` itself if no
-- task has resumed it) and false. For another coroutine, such as a task, returns `co` and true. The default is the
-- running coroutine.
function M.thread(co)
  if co == nil then co = coroutine.running() end
  check_coroutine("thread", co)
  local task = tasks[co]
  if task == true then return co, false end
  if task then return task, false end
  return co, true
end

-- `close(co)`: like `coroutine.close`.
function M.close(...)
  local co = ...
  -- Since Lua 5.5, the default is the running coroutine.
  if select("#", ...) == 0 and _VERSION ~= "Lua 5.4" then co = coroutine.running() end
  check_coroutine("close", co)
  tasks[co] = nil
  return coroutine.close(co)
end

return M
