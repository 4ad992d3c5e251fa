-- Counts the objects that a loop still has: tasks, timers, sockets in its selector, descriptors. The suites of
-- lio.thread call it and compare the counts before and after a test. Invariant: reading the counts does not change
-- them.

local loop = require "lio.loop"
local task = require "lio.task"
local t = require "tests.kit"

local counts = {}

local driver = require("lio.net.driver").of(loop.net)
local timers, selector = driver.timers, driver.selector

--- Returns a table with the numbers of `tasks` that have not ended, `timers`, `sockets` in the selector and, if `all`
-- is true, open `descriptors`.
function counts.now(all)
  return {
    tasks = task.count(),
    timers = timers:count(),
    sockets = selector:count(),
    descriptors = all and select(2, t.descriptors()) or nil,
  }
end

--- Waits until the counts equal `before`, because the loop releases some objects in its next round. After a hundred
-- rounds, raises an error that shows the difference. Must be called in a task.
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
