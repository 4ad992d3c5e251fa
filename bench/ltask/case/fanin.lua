-- Measures the time from the first send of several senders until one sink has received all messages. With `pause_every`
-- and `pause_ms` the sink is slower than the senders. Requires full=wait, because senders do not retry.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local senders, n = options.senders or 8, options.messages or 100000
  local list = figures.spawn(senders, "sender")
  local sink = ltask.spawn("sink", senders * n, options.pause_every, options.pause_ms)
  local before = figures.resident()
  local result = figures.timed(senders * n, function()
    for i, sender in ipairs(list) do ltask.send(sender, "go", sink, i, n) end
    ltask.call(sink, "result")
  end)
  -- When this call is answered, the sink has also received any duplicate.
  local received, wrong, peak = ltask.call(sink, "result")
  result.lost, result.wrong = senders * n - received, wrong
  result.growth = math.max(peak, figures.resident()) - before
  result.queue_max = ltask.call(1, "stat")[sink].queue_max
  return result
end)
