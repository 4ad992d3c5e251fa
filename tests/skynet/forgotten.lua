-- A forgotten response: the log shows the session, the caller, and the handler's file and line. The caller continues to
-- wait, and gets an error when the service ends.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local CMD = {}

function CMD.forget() end

function CMD.later()
  local answer = skynet.response()
  skynet.timeout(1, function() answer(true, "no mistake") end)
end

function CMD.ignore()
  skynet.ignoreret()
end

function CMD.exit()
  skynet.exit()
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, ...) -- the log shows this line
      CMD[cmd](...)
    end)
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "slave")
    local ended = {}
    local function ask(cmd)
      skynet.fork(function()
        print(cmd, "begins")
        local ok, problem = pcall(skynet.call, address, "lua", cmd)
        ended[#ended + 1] = ("%s: %s %s"):format(cmd, ok, ok or problem)
        skynet.wakeup "ended"
      end)
    end
    ask "forget"
    ask "ignore"
    print(skynet.call(address, "lua", "later"))
    skynet.send(address, "lua", "forget")
    print("still waiting", 2 - #ended)
    skynet.send(address, "lua", "exit")
    while #ended < 2 do skynet.wait "ended" end
    table.sort(ended)
    for _, line in ipairs(ended) do print(line) end
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
