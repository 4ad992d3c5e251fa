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
  local result = figures.timed(senders * n, function()
    for i, sender in ipairs(list) do ltask.send(sender, "go", sink, i, n) end
    ltask.call(sink, "result")
  end)
  -- Whatever came twice would be here by now.
  local received, wrong, peak = ltask.call(sink, "result")
  result.lost, result.wrong = senders * n - received, wrong
  result.growth = math.max(peak, figures.resident()) - before
  result.queue_max = ltask.call(1, "stat")[sink].queue_max
  return result
end)
