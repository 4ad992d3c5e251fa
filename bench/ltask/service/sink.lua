-- A service that receives numbered messages from several senders and checks their order. `expected` is the number of
-- messages of all senders. After every `pause_every` messages it blocks its thread for `pause_ms` milliseconds, like a
-- slow consumer.

local ltask = require "ltask"
local measure = require "measure"
local expected, pause_every, pause_ms = ...

local S = {}
local last, received, wrong, peak = {}, 0, 0, 0

local function pause()
  peak = math.max(peak, measure.resident "self")
  ltask.timer_sleep(pause_ms)
end

function S.message(sender, n)
  if (last[sender] or 0) + 1 ~= n then wrong = wrong + 1 end
  last[sender] = n
  received = received + 1
  if pause_every and received % pause_every == 0 then pause() end
  if received == expected then ltask.wakeup "all" end
end

-- Waits until all messages have arrived. Returns their number, the number of messages that were out of order, and the
-- maximum resident memory of the process at the pauses, in KiB.
function S.result()
  if received < expected then ltask.wait "all" end
  return received, wrong, peak
end

return S
