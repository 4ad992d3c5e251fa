-- `sleep`, `wait`, `wakeup`: "BREAK" after a wakeup, tokens, order; `wakeup` itself runs no coroutine.

local skynet = require "skynet"

skynet.start(function()
  print("slept", skynet.sleep(1))
  print("yielded", skynet.yield())

  local co = skynet.fork(function() print("woken", skynet.sleep(100000)) end)
  skynet.fork(function() print("by token", skynet.sleep(100000, "token")) end)
  skynet.fork(function() print("wait", select("#", skynet.wait "wait")) end)
  skynet.yield()
  print("wakeup", skynet.wakeup(co), skynet.wakeup "token", skynet.wakeup "wait")
  print "not inside the waker"
  skynet.yield()
  print("nobody", skynet.wakeup(co), skynet.wakeup "token", skynet.wakeup "never")

  for i = 1, 4 do
    skynet.fork(function()
      skynet.wait(i)
      print("order", i)
    end)
  end
  skynet.yield()
  for _, i in ipairs { 2, 4, 1, 3 } do skynet.wakeup(i) end
  skynet.yield()

  -- If a sleep was interrupted, its timer has no effect later.
  local again = skynet.fork(function()
    print("broken off", skynet.sleep(50))
    print("its next sleep", skynet.sleep(60))
    skynet.wakeup "over"
  end)
  skynet.yield()
  skynet.wakeup(again)
  skynet.wait "over"

  -- A second wakeup before the coroutine has run ends its next wait.
  skynet.fork(function()
    skynet.wait "twice"
    print "once"
    skynet.wait "twice"
    print "twice"
  end)
  skynet.yield()
  print(skynet.wakeup "twice", skynet.wakeup "twice")
  skynet.sleep(1)
  print("nobody", skynet.wakeup "twice")

  -- A coroutine may be woken while others sleep until the same time.
  local done = 0
  for i = 1, 100 do
    skynet.fork(function()
      skynet.sleep(i % 3)
      done = done + 1
    end)
  end
  while done < 100 do skynet.sleep(1) end
  print("all", done)
  skynet.abort()
end)
