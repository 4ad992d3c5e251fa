-- A chat room: `lio examples/chat.lua`, then `nc 127.0.0.1 7100` from several terminals. The first line that you send
-- is your name. Each further line is sent to all other members. Another port: `lio examples/chat.lua 7101`; with port 0
-- the system chooses a port.

local loop = require "lio.loop"
local net = require "lio.net"

local port = tonumber((...) or 7100)
local BACKLOG <const> = 4 * 1024 * 1024 -- bytes; a member with more unsent data is disconnected

local members = {}

-- Sends a line to all members except one, without waiting for slow members.
local function broadcast(from, text)
  local others = {}
  for c in pairs(members) do
    if c ~= from then others[#others + 1] = c end
  end
  local _, missed = net.broadcast(others, text .. "\n", BACKLOG)
  for c in pairs(missed or {}) do c:close() end
end

local function chat(c)
  c:send "Your name?\n"
  local name = c:recv("line", 40)
  if not name then return end
  name = name:gsub("%c", "")
  members[c] = true
  broadcast(c, name .. " is here")
  for line in function() return c:recv("line", 4000) end do
    broadcast(c, name .. ": " .. line:gsub("%c", ""))
  end
  members[c] = nil
  broadcast(c, name .. " has left")
end

loop.grace = 0 -- a stop does not wait for members to leave
loop.run(function()
  local listener = assert(net.listen("127.0.0.1", port))
  print(("chat: listening on %s:%d"):format(listener:address()))
  io.stdout:flush()
  net.serve(listener, chat)
end)
