-- `require "skynet.queue"`: critical sections. A function that a coroutine runs in a section ends before the function
-- of the next coroutine begins, in the order of the calls, even if it waits. Used by programs.
--
-- Invariant: `owner` is the task in the section, or the entry of a waiting task that was woken and has not run yet.
-- When either ends, even by an error or a kill, the next one gets the section. The coroutines of a task count as that
-- task.

local skynet = require "skynet"

local this_task <const> = require "lio.task".current

local M = {}

-- `queue()`: returns a section. `section(f, …)` returns the results of `f(…)`; an error of `f` is raised and frees the
-- section. Inside of `f` the same task may enter again, even in its own coroutines.
function M.new()
  local owner, depth = nil, 0
  local waiting, first, last = {}, 1, 0

  local function leave()
    while first <= last do
      local entry = waiting[first]
      waiting[first] = nil
      first = first + 1
      -- A task that was killed while it waited is not woken.
      if skynet.wakeup(entry) then
        owner = entry
        return
      end
    end
    owner = nil
  end

  -- A task may be killed after it was woken and before it runs.
  local entry_meta = { __close = function(entry) if owner == entry then leave() end end }

  local function wait_for_section(task)
    local entry <close> = setmetatable({}, entry_meta)
    last = last + 1
    waiting[last] = entry
    skynet.wait(entry)
    owner = task
  end

  local visit = setmetatable({}, {
    __close = function()
      depth = depth - 1
      if depth == 0 then leave() end
    end,
  })

  return function(f, ...)
    local task = this_task() or M -- no task, as in an idle handler, where no call can wait
    if owner == nil then
      owner = task
    elseif owner ~= task then
      wait_for_section(task)
    end
    depth = depth + 1
    local _ <close> = visit
    return f(...)
  end
end

return setmetatable(M, { __call = M.new })
