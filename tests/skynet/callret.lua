-- Calls and their answers: values of all kinds, `ret` with `pack` and `packstring`, `retpack`, an answer before the
-- handler ends, messages without a session, and a second answer.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local CMD = {}

function CMD.values(...)
  skynet.ret(skynet.pack(select("#", ...), ...))
end

function CMD.string(...)
  skynet.ret(skynet.packstring(...))
end

function CMD.nothing()
  skynet.ret()
end

function CMD.early(name)
  print("answers", skynet.retpack(name))
  skynet.wait "go on"
  print("goes on", skynet.call(skynet.self(), "lua", "string", "x"))
  print("a second answer", pcall(skynet.ret, skynet.pack "x"))
  skynet.wakeup "done"
end

function CMD.go_on()
  skynet.wakeup "go on"
  skynet.wait "done"
  skynet.ret()
end

function CMD.sent(...)
  print("sent", select("#", ...), ...)
  print("ret", skynet.ret(skynet.pack "nobody hears this"))
  print("again", pcall(skynet.ret))
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(session, address, cmd, ...)
      assert(address ~= skynet.self() or session > 0)
      CMD[cmd](...)
    end)
  end)
end

local function show(t)
  return type(t) == "table" and ("{%s, k = %s}"):format(table.concat(t, " "), t.k) or t
end

local function master()
  skynet.start(function()
    local slave_address = skynet.newservice(SERVICE_NAME, "slave")
    print(skynet.call(slave_address, "lua", "values"))
    print(skynet.call(slave_address, "lua", "values", nil, false, nil))
    print(skynet.call(slave_address, "lua", "values", 1, 2.5, "a\0b"))
    print(show(select(2, skynet.call(slave_address, "lua", "values", { 1, 2, k = "v" }))))
    print(show(skynet.call(slave_address, "lua", "string", { "x", "y", k = true })))
    print("nothing", select("#", skynet.call(slave_address, "lua", "nothing")))
    print(skynet.send(slave_address, "lua", "sent", 1, nil))
    print(pcall(skynet.call, slave_address, "lua", "early", "Ann"))
    print(pcall(skynet.ret))
    print(pcall(skynet.call, slave_address, "tea", "x"))
    skynet.call(slave_address, "lua", "go_on")
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
