-- Services that end: with calls in progress, while callers wait for them, before they have started.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local CMD = {}

function CMD.hang()
  local guard <close> = setmetatable({}, { __close = function() print "its variables are closed" end })
  skynet.wait "for ever"
  return guard
end

function CMD.exit()
  skynet.fork(function() print "must not run" end)
  skynet.timeout(0, function() print "nor this" end)
  skynet.exit()
  print "nor this"
end

function CMD.answer_and_exit()
  skynet.retpack "bye"
  skynet.exit()
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, ...) CMD[cmd](...) end)
  end)
end

local function short()
  skynet.start(function()
    print "a service for a moment"
    skynet.exit()
  end)
end

local function broken()
  skynet.start(function() error "does not start" end)
end

local function new()
  return skynet.newservice(SERVICE_NAME, "slave")
end

local function outcome(...)
  local ok, e = pcall(...)
  if ok then return e end
  return (tostring(type(e) == "table" and e.message or e):gsub("%d+}", "N}"):gsub("^.-%.lua:%d+: ", ""))
end

local function master()
  skynet.start(function()
    -- Starts a call in a separate coroutine. Returns a function that waits for the call's outcome.
    local function ask(...)
      local args = table.pack(...)
      local result
      skynet.fork(function()
        result = outcome(table.unpack(args))
        skynet.wakeup(args)
      end)
      skynet.yield()
      return function()
        if not result then skynet.wait(args) end
        return result
      end
    end

    local address = new()
    local pending = ask(skynet.call, address, "lua", "hang")
    print("asked to exit:", outcome(skynet.call, address, "lua", "exit"))
    print("pending:", pending())
    print("dead:", outcome(skynet.call, address, "lua", "exit"))
    print("sent:", (skynet.send(address, "lua", "exit")))

    address = new()
    print("answers first:", skynet.call(address, "lua", "answer_and_exit"))

    address = new()
    pending = ask(skynet.call, address, "lua", "hang")
    print("kill:", skynet.kill(address))
    print("killed:", pending())

    print("never there:", outcome(skynet.call, 4711, "lua"))
    print("no such name:", outcome(skynet.call, ".nobody", "lua"))
    print("short:", math.type(skynet.newservice(SERVICE_NAME, "short")))
    print("broken:", outcome(skynet.newservice, SERVICE_NAME, "broken"))
    skynet.abort()
  end)
end

local modes = { slave = slave, short = short, broken = broken };
(modes[mode] or master)()
