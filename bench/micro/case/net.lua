-- Connections of `lio.net` over a pair of sockets. A case prepares the connections, and returns a function that repeats
-- the operation `n` times; child.lua calls this function in a task of `lio.loop`.

local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

local DATA <const> = ("x"):rep(64)
local LINE <const> = ("x"):rep(62) .. "\r\n"
local MANY <const> = 500 -- this number of messages of 64 bytes fits into the buffer of a pair

local M = {}

local function pair()
  local one, other = assert(socket.pair())
  return assert(net.wrap(one)), assert(net.wrap(other))
end

-- Returns a case that receives data that is already in the socket's buffer: it sends `MANY` pieces in one call, and
-- then calls `take(c)` `MANY` times.
local function buffered(piece, take)
  local near, far = pair()
  local block = piece:rep(MANY)
  return function(n)
    for _ = 1, (n + MANY - 1) // MANY do
      assert(near:send(block))
      for _ = 1, MANY do take(far) end
    end
  end
end

function M.line()
  return buffered(LINE, function(c) return c:recv "line" end)
end

function M.exact()
  return buffered(DATA, function(c) return c:recv(64) end)
end

function M.send_recv()
  local near, far = pair()
  return function(n)
    for _ = 1, n do
      near:send(DATA)
      far:recv()
    end
  end
end

-- Makes round trips between two tasks, which both wait for every message.
function M.echo()
  local near, far = pair()
  loop.fork(function()
    for data in function() return (far:recv()) end do far:send(data) end
  end)
  return function(n)
    for _ = 1, n do
      near:send(DATA)
      near:recv()
    end
  end
end

return M
