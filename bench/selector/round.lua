-- Rounds of a selector in one process: `lio bench/selector/round.lua REGISTERED ACTIVE SECONDS [foreign]`
--
-- REGISTERED descriptors, the ends of pairs, are asked for reading. A round makes ACTIVE of them readable by one byte
-- each, waits, and receives from each that the loop yields. Prints figures, a name and a number on a line: `rate`
-- (rounds a second), `each` (microseconds of CPU for a round), `rounds`. `foreign`: registered as bare descriptors,
-- of which the selector cannot see what is received.

local lio = require "lio"
local socket = require "lio.socket"

local registered, active, seconds = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local foreign = arg[4] == "foreign"
local BATCH <const> = 100 -- rounds between two looks at the clock

assert(registered % 2 == 0 and active <= registered, "an even number of descriptors, and no more active ones")

local selector = assert(lio.create())
local ends = {}
for i = 1, registered, 2 do
  local a, b = assert(socket.pair())
  ends[i], ends[i + 1] = a, b
  for _, one in ipairs { a, b } do
    assert(selector:event_add(foreign and one:handle() or one, lio.SELECT_READ, one))
  end
end

-- Who sends to the active ones, which are spread evenly. The other end of `i` is its neighbour in the pair.
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
