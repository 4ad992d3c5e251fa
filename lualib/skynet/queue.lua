-- `require "skynet.queue"`: critical sections. What one coroutine runs in a queue's function has ended before
-- the next one's begins, in the order of the calls, whatever it waits for. Called by programs.
--
-- Invariant: `owner` is the task inside, or the place of the one that was given the turn and has not run yet;
-- however either ends, the turn goes on to the next. A task is meant by its own coroutine: those that it makes itself
-- enter in its name.

local skynet = require "skynet"

local this_task <const> = require "lio.task".current

local M = {}

-- `queue()` → section; `section(f, …)` → what `f(…)` returned. An error of `f` is raised and frees the section.
-- Inside of `f` the same task may enter again, also in coroutines of its own making.
function M.new()
  local owner, depth = nil, 0
  local waiting, first, last = {}, 1, 0

  local function pass_on()
    while first <= last do
      local place = waiting[first]
      waiting[first] = nil
      first = first + 1
      -- Not one that was killed while it waited.
      if skynet.wakeup(place) then
        owner = place
        return
      end
    end
    owner = nil
  end

  -- Killed when it had been given the turn and before it ran.
  local place_meta = { __close = function(place) if owner == place then pass_on() end end }

  local function enter(co)
    local place <close> = setmetatable({}, place_meta)
    last = last + 1
    waiting[last] = place
    skynet.wait(place)
    owner = co
  end

  local inside = setmetatable({}, {
    __close = function()
      depth = depth - 1
      if depth == 0 then pass_on() end
    end,
  })

  return function(f, ...)
    local co = this_task() or M -- no task, as in an idle handler: there nobody can wait
    if owner == nil then
      owner = co
    elseif owner ~= co then
      enter(co)
    end
    depth = depth + 1
    local _ <close> = inside
    return f(...)
  end
end

return setmetatable(M, { __call = M.new })
