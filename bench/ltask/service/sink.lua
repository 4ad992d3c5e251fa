-- Receives numbered messages of several senders and checks their order. `expected`: how many in all.
-- `nap_every` and `nap_ms`: after so many messages it holds its thread for so long, as a slow consumer does.

local ltask = require "ltask"
local measure = require "measure"
local expected, nap_every, nap_ms = ...

local S = {}
local last, received, wrong, peak = {}, 0, 0, 0

local function nap()
  peak = math.max(peak, measure.resident "self")
  ltask.timer_sleep(nap_ms)
end

function S.message(sender, n)
  if (last[sender] or 0) + 1 ~= n then wrong = wrong + 1 end
  last[sender] = n
  received = received + 1
  if nap_every and received % nap_every == 0 then nap() end
  if received == expected then ltask.wakeup "all" end
end

-- Waits until all are here; how many came out of order, and the most KiB that were resident at a nap.
function S.result()
  if received < expected then ltask.wait "all" end
  return received, wrong, peak
end

return S
