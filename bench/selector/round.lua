-- Measures rounds of a selector in one process: `lio bench/selector/round.lua REGISTERED ACTIVE SECONDS [foreign]`
--
-- Registers REGISTERED descriptors, the ends of socket pairs, for reading. A round sends one byte to each of ACTIVE
-- descriptors, waits, and receives from the ready descriptors. Prints results as `name<TAB>value` lines: `rate` (rounds
-- per second), `each` (microseconds of CPU per round), `rounds`. With `foreign` the program registers bare descriptors,
-- so the selector does not detect that data is received from them.

local lio = require "lio"
local socket = require "lio.socket"

local registered, active, seconds = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local foreign = arg[4] == "foreign"
local BATCH <const> = 100 -- the number of rounds between two reads of the clock

assert(registered % 2 == 0 and active <= registered, "REGISTERED must be even, and not less than ACTIVE")

local selector = assert(lio.create())
local ends = {}
for i = 1, registered, 2 do
  local a, b = assert(socket.pair())
  ends[i], ends[i + 1] = a, b
  for _, one in ipairs { a, b } do
    assert(selector:event_add(foreign and one:handle() or one, lio.SELECT_READ, one))
  end
end

-- The sockets that send to the active descriptors, which are spread evenly. The ends of a pair are next to each other,
-- so the peer of the descriptor `i` has the index `i ~ 1`.
local senders = {}
for k = 0, active - 1 do
  local i = k * registered // active
  senders[#senders + 1] = ends[(i ~ 1) + 1]
end

local function rounds(count)
  for _ = 1, count do
    for k = 1, active do senders[k]:send "x" end
    local left = active
    while left > 0 do
      for s in selector:wait() do
        if s:recv(16) then left = left - 1 end
      end
    end
  end
end

rounds(BATCH)
local done, start, cpu = 0, lio.now(), os.clock()
repeat
  rounds(BATCH)
  done = done + BATCH
until lio.now() - start >= seconds
local elapsed, used = lio.now() - start, os.clock() - cpu

print(("rate\t%.1f"):format(done / elapsed))
print(("each\t%.4f"):format(used / done * 1e6))
print(("rounds\t%d"):format(done))
