-- `trace`: the events of a request through two services and back, as lines of the log with one tag. Requests that are
-- not traced leave no lines.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode, other = ...

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd)
      if cmd == "fail" then error "followed" end
      if other then skynet.call(other, "lua", cmd) end
      skynet.retpack(skynet.tracetag())
    end)
  end)
end

local function master()
  skynet.start(function()
    local far = skynet.newservice(SERVICE_NAME, "slave")
    local near = skynet.newservice(SERVICE_NAME, "slave", far)
    print("before", skynet.tracetag(), skynet.call(near, "lua", "x"))
    skynet.trace "begin"
    local tag = skynet.tracetag()
    print("a tag of this service:", tag == skynet.address(skynet.self()) .. "-1")
    print("the same far away:", skynet.call(near, "lua", "x") == tag)
    skynet.sleep(0)
    print("an error:", (pcall(skynet.call, far, "lua", "fail")))
    skynet.fork(function()
      print("another coroutine:", skynet.tracetag(), skynet.call(near, "lua", "y"))
      skynet.trace()
      print("its own:", skynet.tracetag() == skynet.address(skynet.self()) .. "-2")
      skynet.abort()
    end)
  end)
end

if mode == "slave" then slave() else master() end
