-- Many senders, one sink: from the first send until all is received, in order. With `nap_every` and `nap_ms`
-- the sink is slower than they are. Boot it with full=wait: no sender has anything to retry.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local senders, n = options.senders or 8, options.messages or 100000
  local list = figures.spawn(senders, "sender")
  local sink = ltask.spawn("sink", senders * n, options.nap_every, options.nap_ms)
  local before = figures.resident()
  local start = ltask.counter()
  for i, sender in ipairs(list) do ltask.send(sender, "go", sink, i, n) end
  local _, wrong, peak = ltask.call(sink, "result")
  local seconds = ltask.counter() - start
  local after = math.max(peak, figures.resident())
  -- Whatever came twice would be here by now.
  local received = ltask.call(sink, "result")
  return {
    rate = senders * n / seconds,
    lost = senders * n - received,
    wrong = wrong,
    growth = after - before,
    queue_max = ltask.call(1, "stat")[sink].queue_max,
  }
end)
