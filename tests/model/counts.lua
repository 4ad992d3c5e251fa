-- What a loop still holds: tasks, timers, sockets in its selector, descriptors. Called by the suites of
-- lio.thread, which compare the counts of before and after. Invariant: reading the counts changes none.

local loop = require "lio.loop"
local task = require "lio.task"
local t = require "tests.kit"

local counts = {}

-- What the loop keeps to itself, found by name among the upvalues of its functions.
local function find(name, f, depth)
  for i = 1, 255 do
    local found, value = debug.getupvalue(f, i)
    if not found then return nil end
    if found == name then return value end
    if depth > 0 and type(value) == "function" and debug.getinfo(value, "S").what == "Lua" then
      value = find(name, value, depth - 1)
      if value ~= nil then return value end
    end
  end
end

local timers = assert(find("timers", loop.sleep, 0), "lio.loop has no timers")
local selector = assert(find("selector", loop.run, 3), "lio.loop has no selector")

--- What is there now: `tasks` that have not ended, `timers`, `sockets` in the selector, and, when `all` is
-- given, open `descriptors`.
function counts.now(all)
  return {
    tasks = task.count(),
    timers = timers:count(),
    sockets = selector:count(),
    descriptors = all and select(2, t.descriptors()) or nil,
  }
end

--- Waits until the counts are those of `before`, as the loop lets go of some at its next turn; raises with
-- what differs after a hundred turns. In a task.
function counts.expect(before)
  for _ = 1, 100 do
    collectgarbage()
    local now = counts.now(before.descriptors)
    local same = true
    for name, count in pairs(before) do same = same and now[name] == count end
    if same then return end
    loop.sleep(0)
  end
  t.eq(counts.now(before.descriptors), before, "what is left")
end

return counts
