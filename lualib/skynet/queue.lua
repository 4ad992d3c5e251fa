-- `require "skynet.queue"`: critical sections. The functions that coroutines run in a section run one after the other,
-- in the order of the calls, even if a function waits. Used by programs.
--
-- Invariant: `owner` is the task in the section, or the entry of a waiting task that was woken and has not run yet.
-- When the owner ends, even with an error or because it is killed, the next task enters the section. The coroutines of
-- a task count as that task.

local skynet = require "skynet"

local this_task <const> = require "lio.task".current

local M = {}

-- `queue()`: returns a section. `section(f, …)` returns the results of `f(…)`. If `f` raises, the section becomes free
-- and the call raises the error. Inside `f`, the same task may enter again, even from its own coroutines.
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

  -- If a task is killed after it was woken and before it has run, wakes the next task.
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
    local task = this_task() or M -- `M`: there is no task, as in an idle handler, where no call can wait
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
