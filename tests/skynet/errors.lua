-- An error in a handler is raised in the caller and logged by the service, which continues.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode, other = ...

local CMD = {}

function CMD.fail(what)
  error(what)
end

function CMD.relay(cmd, ...)
  skynet.retpack(skynet.call(other, "lua", cmd, ...))
end

function CMD.after_answer()
  skynet.retpack "answered"
  error "after the answer"
end

function CMD.after_wait()
  skynet.sleep(1)
  return skynet.no_such_field.x
end

function CMD.unpackable()
  skynet.retpack(print, coroutine.create(print))
end

function CMD.fine()
  skynet.retpack "alive"
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, ...) CMD[cmd](...) end)
  end)
end

-- Returns an error's message without its position.
local function message_of(e)
  return (tostring(type(e) == "table" and e.message or e):gsub("^.-%.lua:%d+: ", ""))
end

local function master()
  skynet.start(function()
    local one = skynet.newservice(SERVICE_NAME, "slave")
    local two = skynet.newservice(SERVICE_NAME, "slave", one)
    local function try(address, ...)
      local ok, e = pcall(skynet.call, address, "lua", ...)
      print(ok, message_of(e))
    end
    try(one, "fail", "no luck")
    try(two, "relay", "fail", "far away")
    try(one, "after_wait")
    try(one, "unpackable")
    try(one, "unknown command")
    print(skynet.call(one, "lua", "after_answer"))
    skynet.send(one, "lua", "fail", "nobody asked")
    print(skynet.call(one, "lua", "fine"))
    local ok, e = pcall(skynet.newservice, "no_such_file")
    print(ok, message_of(e):find("cannot find service 'no_such_file'", 1, true) == 1)
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
