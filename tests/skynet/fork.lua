-- `fork`: forks run after the current message, in order, with their arguments; woken coroutines run first; a fork that
-- fails does not stop others.

local skynet = require "skynet"

skynet.start(function()
  local function say(...) print(...) end

  for i = 1, 3 do skynet.fork(say, "fork", i, nil) end
  print "first the message"
  skynet.sleep(0)
  print "then the forks"

  -- A fork that another fork creates runs after the earlier forks.
  skynet.fork(function()
    say "a"
    skynet.fork(say, "a's own")
  end)
  skynet.fork(say, "b")
  skynet.sleep(0)

  -- A woken coroutine runs before earlier forks, even if a fork wakes it.
  local function sleeper(name)
    skynet.wait(name)
    print("woken", name)
  end
  for _, name in ipairs { "x", "y", "z" } do skynet.fork(sleeper, name) end
  skynet.sleep(0)
  skynet.fork(function()
    say "fork 1"
    skynet.wakeup "z"
    say "fork 1 has woken z"
  end)
  skynet.wakeup "x"
  skynet.fork(say, "fork 2")
  skynet.wakeup "y"
  skynet.fork(say, "fork 3")
  print "message"
  skynet.sleep(0)

  local co = skynet.fork(function() print(coroutine.running() == skynet.forked) end)
  skynet.forked = co
  skynet.fork(error, "this fork fails")
  skynet.fork(say, "and this one runs")
  skynet.sleep(0)
  print(pcall(skynet.fork, 1))
  skynet.abort()
end)
