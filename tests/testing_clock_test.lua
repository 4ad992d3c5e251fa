-- Tests of testing.clock(): virtual time for sleeps, timeouts, servers and sockets. The clock jumps only if nothing but
-- a timer can wake a task; I/O is waited for in real time.

local t = require "tests.kit"
local http = require "lio.http.client"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local testing = require "lio.testing"
local timer = require "lio.timer"
local web = require "lio.webserver"

-- A test in a loop, with a paused clock: `f(clock)`. It must not take as long as the virtual time that passes.
local function test(name, f, opts)
  t.test(name, function()
    local began = timer.real()
    loop.run(function()
      local clock <close> = testing.clock()
      f(clock)
    end)
    t.ok(timer.real() - began < 60, "took longer than 60 s")
  end, opts)
end

-- Sleeping ---------------------------------------------------------------------------------------------------

test("a sleep ends at once, exactly at its time", function()
  local began = loop.now()
  loop.sleep(3600)
  t.eq(loop.now() - began, 3600.0)
end)

test("the clock does not move while tasks run", function()
  local began, real = loop.now(), timer.real()
  while timer.real() - real < 0.002 do loop.sleep(0) end
  t.eq(loop.now(), began)
end)

test("sleeps and timeouts end in the order of their times", function()
  local began, log = loop.now(), {}
  local function note(word) log[#log + 1] = word .. "@" .. loop.now() - began end
  loop.fork(function() loop.sleep(20) note "b" loop.sleep(20) note "d" end)
  loop.timeout(30, function() note "c" end)
  local cancelled = loop.timeout(35, function() note "cancelled" end)
  loop.fork(function() loop.sleep(10) note "a" loop.cancel(cancelled) end)
  loop.sleep(50)
  note "e"
  t.eq(table.concat(log, " "), "a@10.0 b@20.0 c@30.0 d@40.0 e@50.0")
end)

test("a wait for another task does not move the clock", function()
  local began = loop.now()
  loop.fork(function() loop.wakeup("done", 1) end)
  local id = loop.timeout(10, function() end)
  t.eq(loop.wait "done", 1)
  t.eq(loop.now(), began)
  loop.cancel(id)
end)

-- Advancing ----------------------------------------------------------------------------------------------------

test("advance fires the timers of its time, and the tasks run before it returns", function(clock)
  local log = {}
  loop.fork(function()
    for index = 1, 4 do
      loop.sleep(10)
      log[index] = clock:now()
    end
  end)
  local began = clock:now()
  clock:advance(25)
  t.eq({ #log, clock:now() - began, log[1] - began, log[2] - began }, { 2, 25.0, 10.0, 20.0 })
  clock:advance(5)
  t.eq(#log, 3)
  clock:advance(0)
  t.eq(#log, 3)
  clock:advance(10)
  t.eq(#log, 4)
end)

test("advance moves the clock while I/O is pending", function(clock)
  local listener <close> = assert(net.listen("127.0.0.1", 0))
  loop.fork(function() listener:accept() end)
  local began = clock:now()
  clock:advance(3600)
  t.near(clock:now() - began, 3600, 1e-6)
end)

test("the system time moves with the clock", function(clock)
  local before = lio.wall()
  clock:advance(86400)
  t.near(lio.wall() - before, 86400, 30)
end)

-- I/O ------------------------------------------------------------------------------------------------------------

-- Returns two connected sockets.
local function pair()
  local listener <close> = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local near = assert(net.connect("127.0.0.1", port))
  return near, assert(listener:accept())
end

test("data that arrives wins against a timer, however far the sender is", function()
  local near, far = pair()
  local _ <close> = near
  local _ <close> = far
  near:timeout(60)
  local child <close> = t.spawn "sh -c 'read line'"
  loop.fork(function()
    for _ = 1, 100 do loop.sleep(0) end
    far:send "hello"
  end)
  t.eq(near:recv(5), "hello")
  child:kill()
end)

test("a time limit of a socket passes in real time, so nothing blocks", function(clock)
  local near, far = pair()
  local _ <close> = near
  local _ <close> = far
  near:timeout(0.02)
  local began, real = clock:now(), timer.real()
  t.eq(select(4, near:recv(1)), "timeout")
  t.near(clock:now() - began, 0.02, 0.001)
  t.ok(timer.real() - real >= 0.019)
  far:close()
end)

test("advance ends the time limit of a socket", function(clock)
  local near, far = pair()
  local _ <close> = near
  local _ <close> = far
  near:timeout(3600)
  local code
  loop.fork(function() code = select(4, near:recv(1)) end)
  loop.sleep(0)
  clock:advance(3599)
  t.is_nil(code)
  clock:advance(1)
  t.eq(code, "timeout")
  far:close()
end)

test("a handler of a server with a socket sleeps until the clock is advanced", function(clock)
  local app = web.new()
  local sleeps
  app:get("/", function() sleeps = true loop.sleep(3600) return "slept" end)
  local server = assert(app:listen(0))
  local body
  loop.fork(function() body = assert(http.get(server.url, { read_timeout = false })).body end)
  while not sleeps do loop.sleep(0) end
  clock:advance(3600)
  while not body do loop.sleep(0) end
  t.eq(body, "slept")
  http.close_idle()
  server:stop(1)
end, { leaks = true })

-- Servers in memory ------------------------------------------------------------------------------------------------

test("handlers that sleep answer at once, in the order of their times", function()
  local app = web.new()
  app:get("/:seconds", function(req) loop.sleep(tonumber(req.params.seconds)) return req.params.seconds end)
  local client <close> = app:test()
  local began, log = loop.now(), {}
  for _, seconds in ipairs { 30, 10, 20 } do
    loop.fork(function()
      local body = client:get("/" .. seconds).body
      log[#log + 1] = body .. "@" .. loop.now() - began
    end)
  end
  loop.sleep(31)
  t.eq(log, { "10@10.0", "20@20.0", "30@30.0" })
end)

test("deadlines of a server pass in virtual time", function(clock)
  local app = web.new { keep_alive_time = 60 }
  app:get("/", function() return "x" end)
  local client <close> = app:test()
  client:get "/"
  clock:advance(59)
  t.eq(client.app_server:count(), 1)
  clock:advance(2)
  t.eq(client.app_server:count(), 0)
  t.eq(client:get("/").body, "x")
end)

test("a body that arrives too slowly is refused in virtual time", function()
  local app = web.new { body_time = 10, body_rate = 100 }
  app:post("/", function(req) return req:body() end)
  local client <close> = app:test()
  local began = loop.now()
  local function slow()
    loop.sleep(4)
    if loop.now() - began < 30 then return "x" end
  end
  local res = client:post("/", { body = slow })
  t.eq(res and res.status, 408)
end)

test("the Date of a response is that of the clock", function(clock)
  local app = web.new()
  app:get("/", function() return "x" end)
  local client <close> = app:test()
  local first = client:get("/").headers.date
  clock:advance(366 * 86400)
  local second = client:get("/").headers.date
  t.eq(tonumber(second:match "%d%d%d%d"), tonumber(first:match "%d%d%d%d") + 1)
end)

-- The end of virtual time ----------------------------------------------------------------------------------------

t.test("a closed clock continues from its time, and can be paused again", function()
  loop.run(function()
    local clock = testing.clock()
    local before = loop.now()
    clock:advance(3600)
    clock:close()
    clock:close()
    local after = loop.now()
    t.ok(after - before >= 3600 and after - before < 3660, after - before)
    loop.sleep(0.001)
    t.ok(loop.now() > after)
    local again <close> = testing.clock()
    t.ok(again:now() > after)
    t.raises("testing_clock_test.lua:%d+: clock:now: the clock is closed$", function() clock:now() end)
  end)
end)

t.test("misuse raises at the line of the program", function()
  loop.run(function()
    local clock <close> = testing.clock()
    t.raises("testing_clock_test.lua:%d+: testing.clock: the clock is already paused$", function() testing.clock() end)
    t.raises("bad argument #1 to 'advance' %(number expected, got nil%)", function() clock:advance() end)
    t.raises("clock:advance: call it with a colon", function() clock.advance(1) end)
  end)
end)

-- Runs a file of tests with this body. Returns its output.
local function run(body)
  local path = t.write(t.tmp() .. "/some_test.lua", 'local t = require "lio.testing" local loop = require "lio.loop"\n'
    .. body .. "\nt.finish()\n")
  local result = t.run(t.lio() .. " " .. path)
  t.eq(result.err, "")
  return result.out
end

t.test("the end of a test ends virtual time, and the time limit of a test is real", function()
  local out = run [[
local timer = require "lio.timer"
t.test("hours", function() t.clock() loop.sleep(36000) end, { seconds = 5 })
t.test("real again", function()
  local real = timer.real()
  loop.sleep(0.02)
  t.ok(timer.real() - real >= 0.02)
end)
t.test("endless sleeps", function() t.clock() while true do loop.sleep(1) end end, { seconds = 0.05 })
t.test("stuck", function() t.clock() loop.wait "nothing" end, { seconds = 60 })
t.test("endless wait", function()
  t.clock()
  require("lio.net").listen("127.0.0.1", 0):accept()
end, { seconds = 0.05 })]]
  t.ok(out:find "^FAILED some_test.lua: endless sleeps\n  the test ran longer than 0.05 s\n", out)
  t.ok(out:find "FAILED some_test.lua: endless wait\n  the test ran longer than 0.05 s\n", out)
  t.ok(out:find "FAILED some_test.lua: stuck\n  every task is waiting, and nothing can wake any of them\n", out)
  t.ok(out:find "\n2 passed, 3 failed\n$", out)
end)

-- lio.timer ----------------------------------------------------------------------------------------------------------

t.test("timer.pause, advance, skip and resume move the clock of the VM", function()
  local queue = timer.new()
  t.eq(timer.pause(), true)
  t.eq(timer.pause(), false)
  local began = lio.now()
  t.eq(queue:skip(), false)
  queue:add(10, "first")
  queue:add(20, "second")
  t.eq({ queue:next(), queue:expire() }, { 10.0 })
  timer.advance(4)
  t.eq({ lio.now() - began, queue:next() }, { 4.0, 6.0 })
  t.eq(queue:skip(), true)
  t.eq({ lio.now() - began, (queue:expire()), queue:next() }, { 10.0, "first", 10.0 })
  timer.advance(-1)
  t.eq(lio.now() - began, 10.0)
  timer.resume()
  timer.advance(3600)
  local left = queue:next()
  t.ok(left <= 10 and left > 0, left)
  t.raises("time is not a number", timer.advance, 0 / 0)
end)

t.finish()
