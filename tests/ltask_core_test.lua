-- The module `ltask` inside a service: messages, receipts, identity, clocks, memory, log. The services use only the
-- low-level functions, as other service libraries do.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- A service that responds to each request with its values, and ends at the request "end".
local echo <const> = [[
while true do
  local m = table.pack(raw.next())
  local from, session, type, what = table.unpack(m, 1, 4)
  if what == "end" then return end
  if type == 1 and what ~= "start" then
    raw.post(from, session, 2, table.unpack(m, 4, m.n))
  end
end
]]

kit.test("an answer has the session of its request, and may have values of every type", {
  services = { echo = echo },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    say("new id", math.type(id), id > 1)
    say("receipt", raw.post(id, 42, 1, "x", nil, true, 1.5, 1 << 62, { a = { 1, 2 } }))
    local m = table.pack(raw.next())
    say(m[1] == id, m[2], m[3], m.n)
    say(m[4], m[5], m[6], m[7], m[8] == 1 << 62, m[9].a[2])
    say("empty", raw.post(id, 43, 1))
    say(select("#", raw.next()), select("#", ltask.recv_message()))
  ]],
  out = {
    "new id\tinteger\ttrue", "receipt\t1\tnil", "true\t42\t2\t9", "x\tnil\ttrue\t1.5\ttrue\t2",
    "empty\t1\tnil", "3\t0",
  },
})

kit.test("sessions are 64-bit integers; an id that is out of range is not truncated", {
  services = { echo = echo },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    for _, session in ipairs { 1, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, (1 << 53) + 1, math.maxinteger } do
      raw.post(id, session, 1, "x")
      local _, back = raw.next()
      say(back == session)
    end
    -- The low 32 bits of this id are the id of root.
    local p, n = ltask.pack "astray"
    local ok = pcall(ltask.send_message, (1 << 32) + 1, 0, 1, p, n)
    if ok then
      coroutine.yield()
      say("refused", ltask.message_receipt() == 2)
    else
      say("refused", true)
    end
    -- The message comes back in both cases.
    ltask.remove(p, n)
    say("mailbox", select("#", ltask.recv_message()))
  ]],
  out = { "true", "true", "true", "true", "true", "true", "true", "refused\ttrue", "mailbox\t0" },
})

kit.test("a message to a service that does not exist is returned with receipt ERROR", {
  root = [[
    raw.next()
    local p, n = ltask.pack("lost", 7)
    ltask.send_message(4711, 1, 1, p, n)
    coroutine.yield()
    local kind, back, size = ltask.message_receipt()
    say(kind, back == p, size == n, ltask.unpack_remove(back, size))
    say("none", raw.post(4711, 1, 1))
  ]],
  out = { "2\ttrue\ttrue\tlost\t7", "none\t2\tnil" },
})

kit.test("a message to a full mailbox is returned with receipt BLOCK, and none is lost or duplicated", {
  init = { queue = 8 },
  -- The service takes no message until the file exists. (A message that starts it would be queued after the others.)
  services = { deaf = [[
    while not io.open(FLAG) do coroutine.yield() end
    local sum, count = 0, 0
    while true do
      local _, _, _, what = raw.next()
      if what == "end" then break end
      if math.type(what) == "integer" then sum, count = sum + what, count + 1 end
    end
    raw.post(1, 0, 1, sum, count)
  ]] },
  root = [[
    raw.next()
    FLAG = os.tmpname()
    os.remove(FLAG)
    SOURCES.deaf = SOURCES.deaf:gsub("FLAG", "'" .. FLAG .. "'")
    local id = raw.spawn "deaf"
    local accepted, kind, back = 0
    repeat
      kind, back = raw.post(id, 0, 1, accepted + 1)
      if kind == 1 then accepted = accepted + 1 end
    until kind ~= 1 or accepted > 100
    say("accepted", accepted, "then", kind, back == accepted + 1)
    say("again", raw.post(id, 0, 1, 99))
    io.open(FLAG, "w"):close()
    repeat until raw.post(id, 0, 1, "end") == 1
    local type, sum, count
    repeat type, sum, count = select(3, raw.next()) until type == 1
    say(sum == accepted * (accepted + 1) // 2, count == accepted)
    os.remove(FLAG)
  ]],
  -- The message that starts the service takes the first of the mailbox's eight places.
  out = { "accepted\t7\tthen\t3\ttrue", "again\t3\t99", "true\ttrue" },
})

kit.test("sending a message before the receipt is read, and reading a receipt twice, raise errors", {
  services = { echo = echo },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    say(pcall(ltask.message_receipt))
    local p, n = ltask.pack(1)
    ltask.send_message(id, 1, 1, p, n)
    local p2, n2 = ltask.pack(2)
    say(pcall(ltask.send_message, id, 2, 1, p2, n2))
    coroutine.yield()
    say((ltask.message_receipt()))
    say(pcall(ltask.message_receipt))
    ltask.send_message(id, 3, 1, p2, n2)
    coroutine.yield()
    say((ltask.message_receipt()))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 5, out)
    t.ok(lines[1]:find "^false\t.*No receipt", lines[1])
    t.ok(lines[2]:find "^false\t.*Can't send message", lines[2])
    t.eq(lines[3], "1")
    t.ok(lines[4]:find "^false\t.*No receipt", lines[4])
    t.eq(lines[5], "1")
  end,
})

kit.test("send_message raises where the service cannot yield", {
  root = [[
    raw.next()
    local p, n = ltask.pack "x"
    say(pcall(string.gsub, "x", "x", function() ltask.send_message(1, 0, 1, p, n) end))
    say(select("#", ltask.recv_message()))
    ltask.remove(p, n)
    ltask.remove(nil)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.ok(lines[1]:find "^false\t", lines[1])
    t.eq(lines[2], "0")
  end,
})

kit.test("a service may send to itself, and the messages of each sender keep their order", {
  services = { echo = echo },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    for i = 1, 300 do
      raw.post(id, i, 1, i)
      raw.post(1, i, 4, i)
    end
    local last, order = { [1] = 0, [id] = 0 }, true
    for _ = 1, 600 do
      local from, session, _, i = raw.next()
      order = order and session == i and i == last[from] + 1
      last[from] = i
    end
    say(order, last[1], last[id])
  ]],
  out = { "true\t300\t300" },
})

kit.test("send_message_direct posts at once, without a yield", {
  services = { echo = echo },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    local p, n = ltask.pack "direct"
    say((ltask.send_message_direct(1, 5, 1, p, n)))
    say(raw.take())
    p, n = ltask.pack "far"
    say((ltask.send_message_direct(id, 6, 1, p, n)))
    say(select(2, raw.next()))
    p, n = ltask.pack "nobody"
    local kind, back, size = ltask.send_message_direct(4711, 7, 1, p, n)
    say(kind, ltask.unpack_remove(back, size))
  ]],
  out = { "1", "1\t5\t1\tdirect", "1", "6\t2\tfar", "2\tnobody" },
})

kit.test("self, label and worker_id return the service and its worker", {
  services = { who = [[
    raw.next()
    raw.post(1, 0, 1, ltask.self(), ltask.label(), ltask.worker_id())
  ]] },
  root = [[
    raw.next()
    say(ltask.self(), ltask.label(), math.type(ltask.worker_id()))
    local id = raw.spawn "who"
    local from, _, type, self, label, worker
    repeat from, _, type, self, label, worker = raw.next() until type == 1
    say(from == id, self == id, label, worker >= 0 and worker < WORKERS)
  ]],
  out = { "1\troot\tinteger", "true\ttrue\twho\ttrue" },
})

kit.test("worker_bind keeps a service on one worker until the service calls it without an argument", {
  services = { bound = [[
    raw.next()
    local last = WORKERS - 1
    ltask.worker_bind(last)
    raw.post(ltask.self(), 0, 1, "turn")
    raw.next()
    raw.post(1, 0, 1, "bound")
    local there = true
    for _ = 1, 200 do
      raw.post(ltask.self(), 0, 1, "turn")
      raw.next()
      there = there and ltask.worker_id() == last
    end
    ltask.worker_bind()
    raw.post(1, 0, 1, there)
  ]] },
  root = [[
    raw.next()
    raw.spawn "bound"
    repeat local _, _, type, what = raw.next() until type == 1 and what == "bound"
    -- Keeps another worker awake, which would steal the service if it could.
    local answer
    repeat
      raw.post(1, 0, 4)
      local _, _, type, what = raw.next()
      if type == 1 then answer = what end
    until answer ~= nil
    say(answer)
  ]],
  out = { "true" },
})

kit.test("a timer's RESPONSE has the timer's session and arrives in order of time, never early", {
  root = [[
    raw.next()
    local lines, base = {}, 0
    local started
    -- Sets the timers again if they were not set at almost the same time.
    repeat
      base, started = base + 100, ltask.counter()
      for _, ti in ipairs { 50, 10, 30, 0 } do ltask.timer_add(base + ti, ti) end
    until ltask.counter() - started < 0.1
    for i = 1, 4 do
      local from, session, type
      repeat from, session, type = raw.next() until session >= base
      local ti = session - base
      lines[i] = ti
      say((from == 0 or from == 1), type, ltask.counter() - started >= ti / 100)
    end
    say(table.concat(lines, " "))
    local due = { 1, 2, 3 }
    say(ltask.timer_update(due) == due, #due)
  ]],
  out = { "true\t2\ttrue", "true\t2\ttrue", "true\t2\ttrue", "true\t2\ttrue", "0 10 30 50", "true\t0" },
})

kit.test("now, walltime, counter and cpucost return the correct time", {
  root = [[
    raw.next()
    local before = os.time()
    local seconds, centi = ltask.now()
    local wall = ltask.walltime()
    local after = os.time()
    local function right(time) return time >= before - 1 and time <= after + 1 end
    say(math.type(seconds), right(seconds))
    say(math.type(centi), right(centi // 100))
    say(math.type(wall), right(wall // 100))
    local c = ltask.counter()
    ltask.timer_sleep(20)
    say(math.type(c), ltask.counter() - c >= 0.02)
    local cpu = ltask.cpucost()
    local x = 0
    for i = 1, 3e6 do x = x + i end
    raw.post(1, 0, 1)
    raw.next()
    say(ltask.cpucost() > cpu, ltask.cpucost() < 60)
  ]],
  out = { "integer\ttrue", "integer\ttrue", "integer\ttrue", "float\ttrue", "true\ttrue" },
})

kit.test("a service over its memory limit gets Lua's error, and other services continue", {
  services = { echo = echo, fat = [[
    raw.next()
    local before = ltask.mem_limit(4 << 20)
    local function fill(list)
      for i = 1, 64 do list[i] = ("x"):rep(1 << 20) end
    end
    local ok, e, held
    do
      local list = {}
      ok, e = pcall(fill, list)
      held = #list
    end
    collectgarbage()
    local previous = ltask.mem_limit(1 << 40)
    local again = pcall(string.rep, "x", 8 << 20)
    local count = ltask.mem_count()
    raw.post(1, 0, 1, math.type(before), ok, e, held <= 4, previous, again,
      type(count) == "table" and next(count) ~= nil)
  ]] },
  root = [[
    raw.next()
    local id, fat = raw.spawn "echo", raw.spawn "fat"
    raw.post(id, 9, 1, "alive")
    local heard = {}
    repeat
      local m = table.pack(raw.next())
      if m[1] == id then heard.echo = m[4]
      elseif m[1] == fat and m[3] == 1 then heard.fat = m end
    until heard.echo and heard.fat
    say(heard.echo)
    say(table.unpack(heard.fat, 4, heard.fat.n))
  ]],
  out = { "alive", "integer\tfalse\tnot enough memory\ttrue\t4194304\ttrue\ttrue" },
})

kit.test("poplog returns the log's entries in order, with their time and their writer", {
  services = { writer = [[
    raw.next()
    ltask.pushlog(ltask.pack("info", "second"))
    raw.post(1, 0, 1, "written")
  ]] },
  root = [[
    raw.next()
    say((ltask.poplog()))
    ltask.pushlog(ltask.pack("error", "first"))
    local id = raw.spawn "writer"
    repeat local _, _, _, what = raw.next() until what == "written"
    local now, from, p, n = ltask.poplog()
    say(math.abs(now - os.time() * 100) < 300, from, ltask.unpack_remove(p, n))
    now, from, p, n = ltask.poplog()
    say(math.abs(now - os.time() * 100) < 300, from == id, ltask.unpack_remove(p, n))
    say((ltask.poplog()))
    say(ltask.get_pushlog() ~= nil)
  ]],
  out = { "nil", "true\t1\terror\tfirst", "true\ttrue\tinfo\tsecond", "nil", "true" },
})

kit.test("backtrace, debuglog and is_exclusive may be called", {
  root = [[
    raw.next()
    say(ltask.is_exclusive(), ltask.is_exclusive(1))
    ltask.debuglog "a line for whoever debugs the scheduler"
    local trace = ltask.backtrace()
    say(trace == nil or type(trace) == "string")
  ]],
  err = false,
  out = { "false\tfalse", "true" },
})

-- Regression: these functions used the library's task core without a check, and the process crashed.
kit.test("functions of ltask.core raise an error if the service library is not set up", {
  root = [[
    raw.next()
    local core = require "ltask.core"
    say(pcall(core.await, 1))
    say(pcall(core.fail_calls, 1, "text"))
    say(pcall(core.is_request, (coroutine.running())))
    say(pcall(core.loop))
    say(pcall(core.requests))
  ]],
  out = {
    "false\tawait: the service library is not set up",
    "false\tfail_calls: the service library is not set up",
    "false\tis_request: the service library is not set up",
    "false\tloop: the service library is not set up",
    "false\trequests: the service library is not set up",
  },
})

t.finish()
