-- How long a wait lasts, what ends a wait, wakers, and errors.

local t = require "tests.kit"
local lio = require "lio"
local signal = require "lio.signal"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local events, READ <const> = loopback.events, lio.SELECT_READ

-- Waits with `timeout`. Returns the seconds that the wait took, and the number of events.
local function lasts(sel, timeout)
  local begin = lio.now()
  local _, count = events(sel, timeout)
  return lio.now() - begin, count
end

t.test("the constants have the values of bee.select", function()
  t.eq({ lio.SELECT_READ, lio.SELECT_WRITE }, { 1, 2 })
end)

t.test("a wait without registrations sleeps for the timeout, which may be a fraction", function()
  local sel <close> = lio.create()
  -- A busy machine may make some waits longer, but not all 20.
  local function shortest(seconds)
    local least = math.huge
    for _ = 1, 20 do
      local took = lasts(sel, seconds)
      t.ok(took >= seconds, "the wait ended too early")
      least = math.min(least, took)
      if least < seconds + 0.5 then break end
    end
    return least
  end
  for _, seconds in ipairs { 0, 0.0001, 0.05, 0.12 } do t.ok(shortest(seconds) < seconds + 0.5, seconds) end
end)

t.test("a wait raises an error if it has no registration, no timeout and no waker", function()
  local sel <close> = lio.create()
  t.raises("no open sockets to check and no timeout set", sel.wait, sel)
  t.raises("no open sockets to check and no timeout set", sel.wait, sel, -1)
  local a, b = socket.pair()
  sel:event_add(a, READ)
  a:close()
  b:close()
  t.raises("no open sockets to check and no timeout set", sel.wait, sel)
end)

t.test("a wait without a limit ends with the first event", function()
  for _, timeout in ipairs { "absent", -1, -0.5, math.huge, 1e12 } do
    local a, b = socket.pair()
    local sel <close> = lio.create()
    sel:event_add(b, READ, "b")
    a:send "x"
    if timeout == "absent" then timeout = nil end
    t.eq(events(sel, timeout), { b = READ })
    a:close() b:close()
  end
end)

t.test("an event ends a wait before its timeout", function()
  local p = io.popen "sleep 0.1; echo done"
  local sel <close> = lio.create()
  sel:event_add(p, READ, "p")
  local took, count = lasts(sel, 100)
  t.eq(count, 1)
  t.ok(took < 50)
  sel:event_del(p)
  p:close()
end)

t.test("a registration without interest does not end a wait", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  sel:event_add(b, 0)
  a:send "x"
  t.ok(lasts(sel, 0.08) >= 0.08)
  a:close() b:close()
end)

t.test("a signal does not shorten a wait", function()
  local watcher = signal.open "SIGUSR1"
  local sel <close> = lio.create()
  local pid = loopback.pid()
  local p = io.popen(string.format("for i in 1 2 3; do sleep 0.05; kill -USR1 %d; done", pid))
  local took, count = lasts(sel, 0.3)
  p:close()
  t.ok(took >= 0.3, "waited " .. took)
  t.eq(count, 0)
  t.eq({ watcher:take() }, { "SIGUSR1" })
  watcher:close()
end)

t.test("a signal makes its watcher readable", function()
  local watcher = signal.open("SIGUSR1", "SIGUSR2")
  local sel <close> = lio.create()
  t.ok(sel:event_add(watcher, READ, "signals"))
  signal.raise "SIGUSR2"
  t.eq(events(sel, 5), { signals = READ })
  t.eq({ watcher:take() }, { "SIGUSR2" })
  t.eq(events(sel, 0), {})
  sel:event_del(watcher)
  watcher:close()
end)

t.test("SIGINT ends a program that waits without a limit", function()
  local script = t.write(t.tmp() .. "/wait.lua", [[
    local sel = require "lio".create()
    local _ = sel:waker()
    print "waiting"
    io.stdout:flush()
    for _ in sel:wait(100) do end
    print "the wait ended by itself"
  ]])
  local child <close> = t.spawn(t.lio() .. " " .. script)
  child:expect "waiting"
  local begin = lio.now()
  -- If the signal arrives before the wait begins, the next signal arrives during the wait.
  repeat
    child:kill "INT"
    local gone <close> = io.open("/proc/" .. child.pid .. "/stat")
    local state = gone and gone:read "a":match "%) (%a)"
  until state == nil or state == "Z" or lio.now() > begin + 50
  local rest = child:all()
  local code, ended = child:close()
  t.ok(code ~= 0 or ended, "neither an error nor the signal ended the program")
  t.ok(not rest:find "by itself", rest)
  t.ok(lio.now() - begin < 50)
end)

t.test("a wake before a wait ends this wait, and no later wait", function()
  local sel <close> = lio.create()
  local waker = sel:waker()
  for _ = 1, 100 do t.eq(waker:wake(), true) end
  t.ok(lasts(sel, 100) < 50)
  t.ok(lasts(sel, 0.06) >= 0.06)
end)

t.test("a waker ends a wait without a limit", function()
  local sel <close> = lio.create()
  local waker = sel:waker()
  waker:wake()
  t.eq(events(sel), {})
  waker:wake()
  t.eq(events(sel, -1), {})
end)

t.test("a wake inside the loop ends the next wait", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  local waker = sel:waker()
  sel:event_add(b, READ, "b")
  a:send "x"
  for _ in sel:wait(5) do
    b:recv()
    waker:wake()
  end
  t.ok(lasts(sel, 100) < 50)
  a:close() b:close()
end)

t.test("lio.waker returns another object for a waker's handle; a closed selector's handle is refused", function()
  local sel = lio.create()
  local waker = sel:waker()
  local handle = waker:handle()
  t.eq(type(handle), "userdata")
  t.ok(handle == sel:waker():handle(), "one handle per selector")
  local other = t.ok(lio.waker(handle))
  other:wake()
  t.ok(lasts(sel, 100) < 50)
  sel:close()
  t.eq(waker:wake(), true, "a wake after the selector was closed does nothing")
  waker, other = nil, nil
  collectgarbage()
  collectgarbage()
  t.eq({ lio.waker(handle) }, { nil, "waker: its selector is closed", "closed" })
  t.raises("userdata expected, got number", lio.waker, 1)
  t.is_nil(waker or other)
end)

t.test("close may be called twice, and every other call on a closed selector fails", function()
  local a, b = socket.pair()
  local sel = lio.create()
  sel:event_add(a, READ)
  t.eq(tostring(sel), "selector (1 registered)")
  t.eq(sel:close(), true)
  t.eq(sel:close(), true)
  t.eq(tostring(sel), "selector (closed)")
  for _, call in ipairs { "wait", "count", "waker" } do
    t.raises("selector is already closed", sel[call], sel)
  end
  t.raises("selector is already closed", sel.event_add, sel, a, READ)
  t.raises("selector is already closed", sel.event_mod, sel, a, READ)
  t.raises("selector is already closed", sel.event_del, sel, a)
  t.eq(a:send "x", 1)
  a:close() b:close()
end)

t.test("count returns the number of registrations", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  t.eq(sel:count(), 0)
  sel:event_add(a, READ)
  sel:event_add(b, 0)
  t.eq(sel:count(), 2)
  sel:event_del(a)
  t.eq(sel:count(), 1)
  b:close()
  t.eq(sel:count(), 0)
  a:close()
end)

t.test("misuse raises an error that names the call and the argument", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  t.raises("bad argument #2 to 'event_add' %(events must be 0 to 3, not 4%)", function()
    sel:event_add(a, 4)
  end)
  t.raises("events must be 0 to 3, not %-1", sel.event_add, sel, a, -1)
  t.raises("number expected", sel.event_add, sel, a)
  t.raises("integer", sel.event_mod, sel, a, 1.5)
  t.raises("bad argument #1 to 'wait'", function() sel:wait "soon" end)
  t.raises("timeout is NaN", function() sel:wait(0 / 0) end)
  t.raises("max_events must be 1 to 65536, not 0", lio.create, 0)
  t.raises("max_events must be 1 to 65536", lio.create, 65537)
  t.raises("number expected, got string", lio.create, "many")
  t.raises("lio.selector expected, got table", sel.wait, {})
  t.raises("lio.selector expected", sel.event_add, a, a, 1)
  a:close() b:close()
end)

t.test("if no descriptor is free, create returns nil and a message", function()
  local script = t.write(t.tmp() .. "/full.lua", [[
    local lio = require "lio"
    KEPT = {}
    local sel, message, code
    repeat
      sel, message, code = lio.create()
      KEPT[#KEPT + 1] = sel
    until not sel
    print(message, code)
  ]])
  local command = string.format("ulimit -n 40; %s %s", t.lio(), script)
  t.eq(t.run(command).out, "create: Too many open files (os error 24)\tEMFILE\n")
end)

t.finish()
