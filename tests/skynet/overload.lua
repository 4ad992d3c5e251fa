-- A mailbox that fills while its service is busy: the log reports when it has more than 1024, 2048, … messages, and
-- again after the mailbox has been empty.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode, master = ...

local function slave()
  local count = 0
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, n)
      if cmd == "busy" then
        -- Does not yield until all messages have arrived.
        skynet.send(master, "lua")
        repeat until skynet.mqlen() == n
      elseif cmd == "count" then
        skynet.retpack(count)
      else
        count = count + 1
      end
    end)
  end)
end

local function first()
  skynet.start(function()
    skynet.dispatch("lua", function() skynet.wakeup "flood" end)
    local address = skynet.newservice(SERVICE_NAME, "slave", skynet.self())
    -- With the last two numbers, a slice ends with the last message: the first slice, which is long, has 31 messages,
    -- and the later slices are full, with 512.
    for _, n in ipairs { 1500, 1024, 3000, 4000, 2590, 3102 } do
      skynet.send(address, "lua", "busy", n)
      skynet.wait "flood"
      -- The call below is the last of the n messages.
      for i = 1, n - 1 do skynet.send(address, "lua", "more", i) end
      print("flood", n, "handled", skynet.call(address, "lua", "count"))
    end
    print("unread", skynet.call(address, "debug", "STAT").mqlen)
    skynet.abort()
  end)
end

if mode == "slave" then slave() else first() end
