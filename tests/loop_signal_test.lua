-- lio.loop and signals: graceful stops by SIGINT and SIGTERM, the program's handlers, and the host's handlers, which
-- are restored. Most tests run a child process of the same host, which prints its progress.

local t = require "tests.kit"
local loop = require "lio.loop"
local signal = require "lio.signal"
local socket = require "lio.socket"

local function child(code)
  return t.spawn(t.lio() .. " " .. t.quote(t.write(t.tmp() .. "/child.lua", code)))
end

local server <const> = [[
  local loop, net = require "lio.loop", require "lio.net"
  io.stdout:setvbuf "no"
  local function main()
    local listener = assert(net.listen("127.0.0.1", 0))
    net.serve(listener, function(c)
      print "request"
      loop.sleep(GRACE_NEEDED)
      c:send "answered\n"
    end)
    print("port " .. select(2, listener:address()))
    loop.wait "for ever"
  end
]]

for _, name in ipairs { "INT", "TERM" } do
  t.test("SIG" .. name .. ": running handlers respond, then run returns and the exit code is 0", function()
    local c <close> = child("GRACE_NEEDED = 0.2\n" .. server .. "loop.run(main) print 'after run'")
    local port = tonumber(c:expect "^port (%d+)$")
    local s <close> = t.ok(socket.create "tcp")
    s:connect("127.0.0.1", port)
    c:expect "^request$"
    c:kill(name)
    c:expect "^after run$"
    t.eq(c:close(), 0)
    t.eq(s:recv(), "answered\n")
  end)
end

-- Regression: `run` raised an error, although a signal would have run the hook.
t.test("a task waits for a signal if there is a stop hook", function()
  local c <close> = child [[
    local loop = require "lio.loop"
    io.stdout:setvbuf "no"
    loop.run(function()
      local woken
      loop.on_stop(function()
        loop.wakeup "stop"
        while not woken do loop.sleep(0.001) end
      end)
      loop.fork(print, "waiting")
      loop.wait "stop"
      print "woken"
      woken = true
    end)
  ]]
  c:expect "^waiting$"
  c:kill "TERM"
  c:expect "^woken$"
  t.eq(c:close(), 0)
end)

t.test("a second signal ends the loop at once", function()
  local c <close> = child("GRACE_NEEDED = 30\n" .. server .. [[
    loop.on_stop(function()
      loop.sleep(0.25) -- a signal that arrives sooner counts as the same one
      print "stopping"
      loop.sleep(30)
    end)
    loop.run(main) print 'after run'
  ]])
  local port = tonumber(c:expect "^port (%d+)$")
  local s <close> = t.ok(socket.create "tcp")
  s:connect("127.0.0.1", port)
  c:expect "^request$"
  c:kill "TERM"
  c:expect "^stopping$"
  c:kill "INT"
  c:expect "^after run$"
  t.eq(c:close(), 0)
end)

t.test("loop.signal runs its function as a task with the name of each signal", function()
  local c <close> = child [[
    local loop = require "lio.loop"
    io.stdout:setvbuf "no"
    local count = 0
    loop.run(function()
      local main = loop.running()
      loop.signal("SIGHUP", function(name)
        loop.sleep(0)
        count = count + 1
        print(name, count)
        if count == 2 then loop.wakeup(main) end
      end)
      print "ready"
      loop.wait()
    end)
  ]]
  c:expect "^ready$"
  c:kill "HUP"
  c:expect "^SIGHUP\t1$"
  c:kill "HUP"
  c:expect "^SIGHUP\t2$"
  t.eq(c:close(), 0)
end)

t.test("a handler of SIGTERM replaces the graceful end until the handler is removed", function()
  local c <close> = child [[
    local loop = require "lio.loop"
    io.stdout:setvbuf "no"
    loop.run(function()
      loop.signal("SIGTERM", function()
        loop.signal("SIGTERM", nil)
        print "not yet"
      end)
      print "ready"
      loop.sleep(60)
    end)
    print "over"
  ]]
  c:expect "^ready$"
  c:kill "TERM"
  c:expect "^not yet$"
  c:kill "TERM"
  c:expect "^over$"
  t.eq(c:close(), 0)
end)

t.test("after run, a signal has the same effect as before run", function()
  local c <close> = child [[
    local loop = require "lio.loop"
    io.stdout:setvbuf "no"
    loop.run(function() end)
    print "ready"
    while true do end
  ]]
  c:expect "^ready$"
  c:kill "TERM"
  local code, ended_by = c:close()
  -- io.popen's shell reports a signal by its number, or by 128 plus the number.
  t.ok(ended_by == 15 or code == 143, "code " .. tostring(code) .. ", signal " .. tostring(ended_by))
end)

t.test("a signal that arrives while tasks run is not lost", function()
  local seen
  loop.run(function()
    loop.signal("SIGUSR1", function(name) seen = name end)
    signal.raise "SIGUSR1"
    for _ = 1, 3 do coroutine.yield() end
    local limit = loop.now() + 10
    while not seen and loop.now() < limit do loop.sleep(0.001) end
  end)
  t.eq(seen, "SIGUSR1")
end)

-- Regression: `loop.signal("SIGFOO")` did nothing.
t.test("an unknown signal name raises an error, with and without a function", function()
  for _, f in ipairs { false, print } do
    t.raises("^[^\n]*loop_signal_test.lua:%d+: bad argument #1 to 'signal' %(unknown signal 'SIGFOO'%)$",
      function() loop.signal("SIGFOO", f or nil) end)
  end
  loop.signal "SIGUSR1"
  loop.run(function()
    loop.signal "SIGUSR1"
    loop.signal "SIGTERM"
  end)
end)

t.finish()
