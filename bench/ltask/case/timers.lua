-- Sets timers whose delays are spread over one second, in no particular order. Measures how late they fire, and counts
-- those that fire too early. `first` is the shortest delay, in centiseconds. If `first` is 1, the first timers expire
-- while the service is still setting timers, so they fire late.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local n, first = options.timers or 100000, options.first or 20
  local counter = ltask.counter
  local late, early, fired = {}, 0, 0
  local function set(centiseconds)
    local due = counter() + centiseconds / 100
    ltask.timeout(centiseconds, function()
      local by = counter() - due
      if by < 0 then early = early + 1 end
      fired = fired + 1
      late[fired] = by * 1000
      if fired == n then ltask.wakeup "all" end
    end)
  end
  local start = counter()
  for i = 1, n do set(i * 7919 % 100 + first) end
  local setting = counter() - start
  ltask.wait "all"
  table.sort(late)
  return {
    early = early,
    first = late[1],
    p50 = figures.percentile(late, 0.5),
    p99 = figures.percentile(late, 0.99),
    max = late[n],
    set = n / setting,
  }
end)
