-- `timeout`: functions in the order of their times, each in its own coroutine that may wait, never early.

local skynet = require "skynet"

skynet.start(function()
  local began = skynet.now()
  local left = 4
  local function done(name, centiseconds)
    left = left - 1
    print(name, skynet.now() - began >= centiseconds and "in time" or "early")
    if name == "third" then skynet.wakeup "the third is done" end
    if left == 0 then skynet.wakeup "all" end
  end
  skynet.timeout(200, function() done("third", 200) end)
  skynet.timeout(2, function()
    print "first, and waits"
    skynet.wait "the third is done"
    skynet.sleep(2)
    done("fourth", 202)
  end)
  skynet.timeout(100, function() done("second", 100) end)
  skynet.timeout(0, function() done("at once", 0) end)
  print "set"
  skynet.wait "all"

  skynet.timeout(1, function() error "a timer's function fails" end)
  -- This timeout is set later, for a later time.
  skynet.timeout(2, function() skynet.wakeup "next" end)
  skynet.wait "next"
  print "the next one runs"
  print(pcall(skynet.timeout, 1))
  skynet.abort()
end)
