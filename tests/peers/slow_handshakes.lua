-- Opens connections to a server with TLS whose handshakes do not end: lio tests/peers/slow_handshakes.lua PORT COUNT
-- SECONDS, where SECONDS is the server's time limit of a handshake. A half of the connections sends a ClientHello byte
-- by byte, a quarter stops in its middle, and a quarter sends all of it, and then nothing. Prints `open COUNT` when all
-- connections are open and have sent their first bytes; and at the end the number of connections that the server has
-- ended, and after which time. Called by tests/long/slow_handshakes.sh.

local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"

local port, count, limit = math.tointeger(tonumber(arg[1])), math.tointeger(tonumber(arg[2])), tonumber(arg[3])
-- The time between two bytes of a connection, in seconds.
local PAUSE <const> = 0.2

-- Returns the ClientHello of a client, with its record.
local function client_hello()
  local listener <close> = assert(net.listen("127.0.0.1", 0))
  local _, own = listener:address()
  loop.fork(function() net.connect("127.0.0.1", own, { timeout = 5, tls = { server_name = "localhost" } }) end)
  local c <close> = assert(listener:accept())
  local head = assert(c:recv(5))
  return head .. assert(c:recv((">I2"):unpack(head, 4)))
end

local opened, ended, remained = 0, 0, 0
local first, last = math.huge, 0

local function say(...)
  print(...)
  io.stdout:flush()
end

-- Sends `hello` in the way number `kind`, and waits for the end of the connection.
local function attack(hello, kind)
  local c <close> = assert(net.connect("127.0.0.1", port, { timeout = 10 }))
  local began = lio.now()
  assert(c:send(hello:sub(1, kind < 2 and 1 or kind == 2 and #hello // 2 or #hello)))
  opened = opened + 1
  if opened == count then say("open " .. opened) end
  -- The end of the connection ends the loop below: the server has a time limit.
  c:timeout(limit * 3)
  if kind < 2 then
    loop.fork(function()
      for at = 2, #hello do
        loop.sleep(PAUSE)
        if not c:send(hello:sub(at, at)) then break end
      end
    end)
  end
  local _, _, code = c:recv "all"
  if code == "timeout" then
    remained = remained + 1
    return
  end
  local took = lio.now() - began
  ended, first, last = ended + 1, math.min(first, took), math.max(last, took)
end

loop.run(function()
  local hello = client_hello()
  for number = 1, count do
    loop.fork(attack, hello, number % 4)
    -- The server's queue of new connections is not the subject.
    if number % 50 == 0 then loop.sleep(0.02) end
  end
  while ended + remained < count do loop.sleep(0.1) end
  say(("ended %d of %d, after %.2f to %.2f s"):format(ended, count, first, last))
end)
