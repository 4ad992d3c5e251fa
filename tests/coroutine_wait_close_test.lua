-- A waiting chain of coroutines, and the calls that other tasks make on it: reading a status, a resume that is refused,
-- closing a member, and killing the chain's task. The suite also checks that no wait and no task remains.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local loop = require "lio.loop"
local task = require "lio.task"
local c = require "lio.coroutine"

local pack <const> = table.pack
local here <const> = debug.getinfo(1, "S").short_src
local REFUSED <const> = "cannot resume a coroutine that is waiting"
local CLOSED <const> = "coroutine was closed"

-- Forks a task with a chain of coroutines: coroutine 1 resumes 2, and so on until `depth`, which waits on "innermost".
-- Each of the other members waits on "after N" before it ends. Returns the members by number, with the task's coroutine
-- as 0, and a log of the results of each resume and of each `<close>`.
local function chain(depth, in_close)
  local members, log = {}, {}
  local function level(n)
    local _ <close> = kit.guard(function(_, err)
      log[#log + 1] = "close " .. n
      if in_close then in_close(n, err) end
    end)
    if n == depth then return "end " .. loop.wait "innermost" end
    members[n + 1] = c.create(level)
    local ok, result = c.resume(members[n + 1], n + 1)
    log[#log + 1] = ("%d: %s %s"):format(n, ok, result)
    local _ = loop.wait("after " .. n)
    return "end " .. n
  end
  members[0] = loop.fork(level, 0)
  netkit.settle()
  t.ok(task.is_waiting "innermost")
  return members, log
end

local function statuses(members)
  local list = {}
  for i = 0, #members do list[i + 1] = c.status(members[i]) end
  return table.concat(list, " ")
end

netkit.test("for another task, every member of a waiting chain has the status waiting", function()
  local members = chain(4)
  t.eq(statuses(members), "waiting waiting waiting waiting waiting")
  t.eq(loop.wakeup "innermost" and statuses(members), "waiting waiting waiting waiting waiting", "woken, not run")
  loop.wakeup("innermost", "x")
  netkit.settle()
  t.eq(statuses(members), "waiting waiting waiting waiting dead")
  for n = 3, 0, -1 do
    loop.wakeup("after " .. n)
    netkit.settle()
  end
  t.eq(statuses(members), "dead dead dead dead dead")
end)

netkit.test("while the innermost coroutine runs after a wait, the coroutines that resume it are normal", function()
  local members, seen, refused = {}, nil, {}
  local function level(n)
    members[n] = c.running()
    if n < 3 then return c.resume(c.create(level), n + 1) end
    loop.sleep(0)
    seen = { c.status(members[0]), c.status(members[1]), c.status(members[2]), c.status(members[3]) }
    for i = 0, 2 do
      refused[#refused + 1] = select(2, c.resume(members[i]))
      refused[#refused + 1] = select(2, pcall(c.close, members[i]))
    end
    return "end"
  end
  t.eq(pack(netkit.promise(level, 0)()), { true, true, true, "end", n = 4 })
  t.eq(seen, { "normal", "normal", "normal", "running" })
  for i = 1, 6, 2 do
    t.eq(refused[i], "cannot resume non-suspended coroutine")
    t.ok(refused[i + 1]:find "cannot close a normal coroutine", refused[i + 1])
  end
end)

netkit.test("no member of a waiting chain can be resumed, and an attempt does not change the chain", function()
  local members, log = chain(3)
  for i = 0, 3 do
    t.eq(pack(c.resume(members[i], "by hand", i)), { false, REFUSED, n = 2 }, "member " .. i)
    t.eq(c.status(members[i]), "waiting")
  end
  loop.wakeup("innermost", "x")
  for i = 0, 3 do t.eq(pack(c.resume(members[i])), { false, REFUSED, n = 2 }, "woken, member " .. i) end
  for n = 2, 0, -1 do
    netkit.settle()
    loop.wakeup("after " .. n)
  end
  netkit.settle()
  t.eq(log, { "close 3", "2: true end x", "close 2", "1: true end 2", "close 1", "0: true end 1", "close 0" })
end)

netkit.test("a wrap function of a waiting coroutine raises at the caller's line, and the wait continues", function()
  local f = c.wrap(function() return loop.wait "inside f" end)
  local got = netkit.promise(f)
  netkit.settle()
  local line = kit.line() + 1
  local ok, err = pcall(function() local _ = f() end)
  t.eq({ ok, err }, { false, ("%s:%d: %s"):format(here, line, REFUSED) })
  loop.wakeup("inside f", "fine")
  t.eq(got(), "fine")
end)

netkit.test("a task that was forked and has not started is waiting, and cannot be resumed", function()
  local ran = 0
  local co = loop.fork(function() ran = ran + 1 end)
  t.eq(c.status(co), "waiting")
  t.eq(pack(c.resume(co)), { false, REFUSED, n = 2 })
  t.eq(ran, 0)
  netkit.settle()
  t.eq(ran, 1)
end)

netkit.test("a task that called a plain yield is waiting, and continues without a wakeup", function()
  local ran = 0
  local co = loop.fork(function()
    c.yield "to nobody"
    ran = ran + 1
  end)
  loop.fork(function()
    t.eq(c.status(co), "waiting")
    t.eq(pack(c.resume(co)), { false, REFUSED, n = 2 })
  end)
  netkit.settle()
  t.eq(ran, 1)
end)

-- Closes member `place` of a chain of depth 3, and checks all members. With `woken`, the innermost member is woken
-- first.
local function close_at(place, woken)
  local members, log = chain(3)
  if woken then loop.wakeup("innermost", "too late") end
  t.eq(pack(c.close(members[place])), { true, n = 1 })
  local closed = {}
  for n = 3, place, -1 do closed[#closed + 1] = "close " .. n end
  t.eq({ table.unpack(log) }, closed, "closed at once, innermost first")
  for i = place, 3 do t.eq(c.status(members[i]), "dead", "member " .. i) end
  for i = 0, place - 1 do t.eq(c.status(members[i]), "waiting", "member " .. i) end
  t.eq(task.is_waiting "innermost", false)
  t.is_nil(loop.wakeup("innermost", "nobody"))
  netkit.settle()
  for n = place - 1, 0, -1 do
    t.eq(log[#log], n == place - 1 and n .. ": false " .. CLOSED or ("%d: true end %d"):format(n, n + 1))
    t.eq(loop.wakeup("after " .. n), true)
    netkit.settle()
  end
  t.eq(task.is_alive(members[0]), false)
  t.eq(#log, (3 - place + 1) + 2 * place, table.concat(log, ", "))
end

for place, name in ipairs { "the outermost coroutine", "the middle coroutine", "the innermost coroutine" } do
  netkit.test("close of " .. name .. " of a waiting chain also closes the inner coroutines; its resumer continues",
    function() close_at(place) end)
  netkit.test("close of " .. name .. " of a chain that was woken and has not run discards the wakeup",
    function() close_at(place, true) end)
end

netkit.test("close of a waiting task's own coroutine kills the task, and closes inner coroutines first", function()
  for _, how in ipairs { "waiting", "woken" } do
    local members, log = chain(3)
    if how == "woken" then loop.wakeup("innermost", "too late") end
    t.eq(pack(c.close(members[0])), { true, n = 1 })
    t.eq(log, { "close 3", "close 2", "close 1", "close 0" })
    t.eq(task.is_alive(members[0]), false)
    t.eq(statuses(members), "dead dead dead dead")
    t.eq(task.is_waiting "innermost", false)
    netkit.settle()
    t.eq(#log, 4)
  end
end)

netkit.test("kill of a task with nested coroutines closes all of them, innermost first", function()
  for _, how in ipairs { "waiting", "woken" } do
    local members, log = chain(5)
    if how == "woken" then loop.wakeup("innermost", "too late") end
    local before = task.count()
    t.eq(loop.kill(members[0]), true)
    t.eq(log, { "close 5", "close 4", "close 3", "close 2", "close 1", "close 0" })
    t.eq(statuses(members), "dead dead dead dead dead dead")
    t.eq(task.count(), before - 1)
    t.is_nil(loop.kill(members[0]))
    t.is_nil(loop.wakeup "innermost")
  end
end)

netkit.test("a wrap function whose waiting coroutine is closed raises an error with its position", function()
  local co, line
  local f = c.wrap(function()
    co = c.running()
    loop.wait "never"
  end)
  local got = netkit.promise(function()
    line = kit.line() + 1
    return pcall(function() local _ = f() end)
  end)
  netkit.settle()
  t.eq(c.close(co), true)
  t.eq(pack(got()), { false, ("%s:%d: %s"):format(here, line, CLOSED), n = 2 })
  t.raises("cannot resume dead coroutine", f)
end)

netkit.test("close of a waiting coroutine returns the error from a __close", function()
  local members, log = chain(2, function(n, err)
    if n == 2 then error("in the close", 0) end
    t.is_nil(err)
  end)
  t.eq(pack(c.close(members[2])), { false, "in the close", n = 2 })
  netkit.settle()
  t.eq(log, { "close 2", "1: false " .. CLOSED })
  t.eq(loop.kill(members[0]), true)
  t.eq(log[#log], "close 0")
end)

netkit.test("if a __close fails while a task is killed, the other coroutines are still closed", function()
  local on_error, told = task.on_error, {}
  task.on_error = function(message) told[#told + 1] = tostring(message) end
  local members, log = chain(4, function(n) if n % 2 == 0 then error("close " .. n .. " fails", 0) end end)
  pcall(loop.kill, members[0])
  task.on_error = on_error
  t.eq(log, { "close 4", "close 3", "close 2", "close 1", "close 0" })
  t.eq(statuses(members), "dead dead dead dead dead")
  for _, message in ipairs(told) do t.ok(message:find "fails", message) end
end)

netkit.test("a __close that a kill calls may fork, wake, and close other waiting coroutines", function()
  local other, other_log = chain(2)
  local seen = {}
  local members = chain(2, function(n)
    if n ~= 1 then return end
    c.close(other[1])
    loop.fork(function() seen[#seen + 1] = "forked" end)
    loop.wakeup "bystander"
  end)
  loop.fork(function()
    loop.wait "bystander"
    seen[#seen + 1] = "bystander"
  end)
  netkit.settle()
  t.eq(loop.kill(members[0]), true)
  netkit.settle()
  t.eq(seen, { "forked", "bystander" })
  t.eq(other_log, { "close 2", "close 1", "0: false " .. CLOSED })
  t.eq(loop.wakeup "after 0", true)
end)

netkit.test("a coroutine cannot kill the task in which it runs, nor close the task's coroutine", function()
  local own, seen
  own = loop.fork(function()
    c.wrap(function()
      loop.sleep(0)
      seen = { { pcall(loop.kill, own) }, { pcall(c.close, own) } }
    end)()
  end)
  netkit.settle()
  for i = 1, 2 do t.eq(seen[i][1], false) end
  t.ok(seen[1][2]:find "cannot kill", seen[1][2])
  t.ok(seen[2][2]:find "cannot close a normal coroutine", seen[2][2])
end)

netkit.test("after two thousand chains are closed or woken at random, no task is left", function()
  local seed = 12345
  local function random(n)
    seed = seed * 1103515245 + 12345 & 0x7fffffff
    return (seed >> 8) % n
  end
  local before, ended, started = task.count(), 0, 0
  for round = 1, 2000 do
    local members, depth = {}, random(6)
    local token = "random " .. round
    local function level(n)
      members[n] = c.running()
      local _ <close> = kit.guard(function() ended = ended + 1 end)
      started = started + 1
      if n == depth then return loop.wait(token) end
      c.resume(c.create(level), n + 1)
    end
    loop.fork(level, 0)
    loop.sleep(0)
    local how = random(4)
    if how ~= 0 then loop.wakeup(token) end
    if how < 3 then c.close(members[random(depth + 1)]) end
    if how == 0 then t.eq(task.is_waiting(token), false) end
  end
  netkit.settle()
  t.eq(task.count(), before)
  t.eq(ended, started)
end)

t.finish()
