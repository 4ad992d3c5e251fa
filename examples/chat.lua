-- A chat room: `lio examples/chat.lua`, then `nc 127.0.0.1 7100` from several terminals. The first line you
-- send is your name, each one after it goes to everybody else.
-- Another port: `lio examples/chat.lua 7101`; with 0 the system chooses one.

local loop = require "lio.loop"
local net = require "lio.net"

local port = tonumber((...) or 7100)
local BACKLOG <const> = 4 * 1024 * 1024 -- bytes; who falls behind further than that has to leave

local members = {}

-- Each member has a task that sends what waits for it, so that a slow one stops nobody else.
local function write(member)
  while not member.left do
    if member.waiting == 0 then
      loop.wait(member)
    else
      local lines = table.concat(member.lines)
      member.lines, member.waiting = {}, 0
      if not member.c:send(lines) then return end
    end
  end
end

local function tell(member, line)
  table.insert(member.lines, line)
  member.waiting = member.waiting + #line
  if member.waiting > BACKLOG then
    member.c:close()
  else
    loop.wakeup(member)
  end
end

local function broadcast(from, text)
  for member in pairs(members) do
    if member ~= from then tell(member, text .. "\n") end
  end
end

local function chat(c)
  c:send "Your name?\n"
  local name = c:recv("line", 40)
  if not name then return end
  name = name:gsub("%c", "")
  local member = { c = c, lines = {}, waiting = 0 }
  members[member] = true
  loop.fork(write, member)
  broadcast(member, name .. " is here")
  for line in function() return c:recv("line", 4000) end do
    broadcast(member, name .. ": " .. line:gsub("%c", ""))
  end
  members[member] = nil
  member.left = true
  loop.wakeup(member)
  broadcast(member, name .. " has left")
end

loop.grace = 0 -- a stop does not wait for members to leave
loop.run(function()
  local listener = assert(net.listen("127.0.0.1", port))
  print(("chat: listening on %s:%d"):format(listener:address()))
  io.stdout:flush()
  net.serve(listener, chat)
end)
