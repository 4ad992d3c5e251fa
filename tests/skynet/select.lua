-- `skynet.request`: several calls at a time, whose answers arrive in any order; a timeout, errors, and calls from
-- inside the loop.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local CMD = {}

function CMD.ping(time, ...)
  skynet.sleep(time)
  return ...
end

function CMD.error()
  error "an error on request"
end

function CMD.exit()
  skynet.exit()
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, ...) skynet.ret(skynet.pack(CMD[cmd](...))) end)
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "slave")

    for one, answer in skynet.request
      { address, "lua", "ping", 12, "slow" }
      { address, "lua", "ping", 6, "medium", token = "the second" }
      { address, "lua", "ping", 0, "fast" }
      :select() do
      print(answer[1], one[4], one.token)
    end

    local reqs = skynet.request()
    for i = 1, 4 do reqs:add { address, "lua", "ping", i > 2 and 100000 or i, i, token = "token " .. i } end
    for one, answer in reqs:select(60) do print(one.token, answer[1], answer.n) end
    print("over", reqs.timeout)

    for one, answer in skynet.request { address, "lua", "error" } { address, "lua", "ping", 3, "fine" }:select() do
      print(one[3], answer and answer[1] or "failed")
    end

    reqs = skynet.request { address, "lua", "ping", 0, "outer" }
    for _, answer in reqs:select(1000) do
      print(answer[1], skynet.call(address, "lua", "ping", 0, "inner"))
    end
    print("over", reqs.timeout)

    for _, answer in skynet.request { address, "lua", "ping", 100000 } { address, "lua", "exit" }:select() do
      print("its end", answer)
    end
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
