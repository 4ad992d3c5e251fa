-- `skynet.coroutine` and `skynet.profile`: generators that wait, their status, and their time.

local skynet = require "skynet"
local profile = require "skynet.profile"
local coroutine = require "skynet.coroutine"

local function follow(co)
  print("follower", coroutine.status(co), coroutine.resume(co))
  while coroutine.status(co) == "blocked" do skynet.sleep(1) end
  print("follower", coroutine.status(co))
  repeat
    local ok, n = coroutine.resume(co)
    print("follower resumes", ok, n)
  until not n
  skynet.wakeup "followed"
end

local function numbers(n)
  local co = coroutine.running()
  print("inside", select(2, coroutine.thread(co)))
  skynet.fork(follow, co)
  for i = 1, n do
    skynet.sleep(2)
    coroutine.yield(i)
  end
end

local function steps()
  local f = coroutine.wrap(numbers)
  coroutine.yield "begin"
  for _ = 1, 2 do print("number", f(4)) end
  coroutine.yield "end"
  -- The time of the coroutine that runs the start function.
  local seconds = profile.stop((coroutine.thread()))
  print("time", seconds > 0, seconds < 60)
end

skynet.start(function()
  print("main", select(2, coroutine.thread()))
  print(coroutine.resume(coroutine.running()))
  profile.start()
  local f = coroutine.wrap(steps)
  print("step", f())
  print("step", f())
  skynet.wait "followed"
  print("step", f())
  print(pcall(profile.stop))
  skynet.abort()
end)
