-- The module `ltask.bootstrap`: configuration, both forms of run, VMs that preinit creates, and the senders for foreign
-- threads; and exclusive services with `ltask.exclusive`.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

t.test("init writes the effective values back into its table", function()
  local r = kit.program [[
    local boot = require "ltask.bootstrap"
    local config = {}
    boot.init(config)
    print(config.worker, config.queue, config.max_service)
    print(math.type(config.queue_sending), math.type(config.external_queue))
    boot.deinit()
    config = { worker = 3, queue = 64, max_service = 128 }
    boot.init(config)
    print(config.worker, config.queue, config.max_service)
    boot.deinit()
  ]]
  t.eq(r.err, "")
  local cores = tonumber(t.run "nproc".out)
  t.eq(kit.lines(r.out), {
    math.max(1, cores - 1) .. "\t4096\t65536", "integer\tinteger", "3\t64\t128",
  })
end)

t.test("init raises an error that names the field with an invalid value", function()
  for _, case in ipairs {
    { "worker = -1", "worker" }, { "worker = 'two'", "worker" }, { "queue = 0", "queue" },
    { "queue = -1", "queue" }, { "max_service = 0", "max_service" },
  } do
    local r = kit.program("local boot = require 'ltask.bootstrap'\nprint(pcall(boot.init, {" .. case[1] .. "}))")
    t.ok(r.out:find("^false\t.*" .. case[2]), case[1] .. ": " .. r.out .. r.err)
  end
  local r = kit.program "print(pcall(require 'ltask.bootstrap'.init, 5))"
  t.ok(r.out:find "^false\t.*table", r.out)
end)

t.test("calls before init raise an error that names init", function()
  local r = kit.program [[
    local boot = require "ltask.bootstrap"
    print(pcall(boot.run))
    print(pcall(boot.new_service, "root", "return", 1))
    print(pcall(boot.post_message, { from = 1, to = 1, session = 0, type = 0 }))
    print "alive"
  ]]
  local lines = kit.lines(r.out)
  for i = 1, 3 do t.ok((lines[i] or ""):find "^false\t.*init", r.out .. r.err) end
  t.eq(lines[4], "alive")
end)

t.test("pack, unpack and remove work outside a system", function()
  local r = kit.program [[
    local ltask, boot = require "ltask", require "ltask.bootstrap"
    for _, m in ipairs { ltask, boot } do
      local p, n = m.pack(1, "two", { 3 })
      print(type(p), math.type(n), (select("#", ltask.unpack(p, n))))
      local a, b, c = m.unpack_remove(p, n)
      print(a, b, c[1])
      m.remove(m.pack "gone")
    end
  ]]
  t.eq(r.err, "")
  t.eq(r.out, ("userdata\tinteger\t3\n1\ttwo\t3\n"):rep(2))
end)

t.test("one process can run several systems, one after another", function()
  local r = kit.program [[
    local boot = require "ltask.bootstrap"
    for i = 1, 20 do
      boot.init { worker = 1 + i % 2 }
      boot.init_timer()
      boot.init_socket()
      boot.new_service("root", "coroutine.yield()", 1)
      boot.post_message { from = 1, to = 1, session = 0, type = 0 }
      if i % 3 == 0 then boot.run() else boot.wait(boot.run(nil)) end
      boot.deinit()
    end
    print "done"
  ]]
  t.eq(r.err, "")
  t.eq(r.out, "done\n")
end)

kit.test("run with an argument returns at once, and wait returns when root has ended", {
  root = [[
    raw.next()
    while not io.open "go" do ltask.timer_sleep(5) end
    say "root ends"
  ]],
  run = [[
    local context = boot.run(nil)
    say(type(context))
    say "main goes on"
    io.open("go", "w"):close()
    say(boot.wait(context))
    boot.deinit()
  ]],
  out = { "userdata", "main goes on", "root ends", "0" },
})

kit.test("bootstrap.pushlog adds an entry with id 0 to the log", {
  before = "boot.pushlog(boot.pack('info', 'from the outside'))",
  root = [[
    raw.next()
    local _, from, p, n = ltask.poplog()
    say(math.type(from), ltask.unpack_remove(p, n))
  ]],
  out = { "integer\tinfo\tfrom the outside" },
})

kit.test("external_sender and log_sender return addresses for foreign threads", {
  root = "raw.next() raw.next()",
  run = [[
    local context = boot.run(nil)
    local f, queue = boot.external_sender(context)
    say(type(f), type(queue))
    local log, target = boot.log_sender(context)
    say(type(log), type(target))
    start(1)
    boot.wait(context)
    boot.deinit()
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines[1], "userdata\tuserdata")
    t.ok((lines[2] or ""):find "^userdata\t", lines[2])
  end,
})

kit.test("a service may enter the main thread, where mainthread_wait runs the service, and leave the thread", {
  root = [[
    raw.next()
    local function on_main()
      local thread, process = io.open "/proc/thread-self/stat", io.open "/proc/self/stat"
      return thread:read "n" == process:read "n"
    end
    local function turn()
      raw.post(1, 0, 1)
      raw.next()
    end
    say(on_main())
    ltask.mainthread_enter()
    turn()
    say(on_main())
    turn()
    say(on_main())
    ltask.mainthread_leave()
    turn()
    say(on_main())
  ]],
  run = [[
    local context = boot.run(nil)
    while boot.mainthread_wait() do end
    say(boot.wait(context))
    boot.deinit()
  ]],
  out = { "false", "true", "true", "false", "0" },
})

-- ---------------------------------------------------------------------------------------------
-- Exclusive services

-- Returns the spec of a program with root and an exclusive service, whose id is 2. The exclusive service is resumed
-- after each yield, even if no message has arrived, so it cannot use `raw` and has its own `post`.
local function exclusive(source, root)
  return {
    root = "raw.next()\n" .. root,
    before = "local source = " .. kit.literal([[
      local ltask, exclusive = require "ltask", require "ltask.exclusive"
      local function post(to, session, type, ...)
        return exclusive.send(to, session, type, ltask.pack(...))
      end
    ]] .. source) .. [[

      boot.new_service("exclusive", source, 2)
      boot.new_thread(2)
      start(2)
    ]],
  }
end

local function both_exclusive(name, source, root, out)
  local spec = exclusive(source, root)
  spec.out = out
  kit.test(name, spec)
end

both_exclusive("an exclusive service is resumed after each yield, even if no message has arrived", [[
  for _ = 1, 50 do
    exclusive.sleep(1)
    coroutine.yield()
  end
  post(1, 0, 1, "resumed", ltask.self(), ltask.label(), ltask.is_exclusive())
  coroutine.yield()
]], [[
  local what, id, label, alone
  repeat what, id, label, alone = select(4, raw.next()) until what == "resumed"
  say(what, id, label, alone, ltask.is_exclusive(2), ltask.is_exclusive(1))
]], { "resumed\t2\texclusive\ttrue\ttrue\tfalse" })

both_exclusive("an exclusive service that blocks does not stop the workers, and responds to messages", [[
  while true do
    local from, session, type, p, n = ltask.recv_message()
    if from then
      local what = ltask.unpack_remove(p, n)
      if type == 1 and session > 0 then post(from, session, 2, what .. "!") end
    else
      exclusive.sleep(5)
    end
    coroutine.yield()
  end
]], [[
  for i = 1, 20 do
    assert(raw.post(2, i, 1, "ping" .. i) == 1)
    local from, session, type, what = raw.next()
    assert(from == 2 and session == i and type == 2 and what == "ping" .. i .. "!")
  end
  say "twenty answers"
]], { "twenty answers" })

both_exclusive("the event wait of an exclusive service ends when a message arrives", [[
  local wait, descriptor = exclusive.eventinit()
  post(1, 0, 1, type(wait), type(descriptor))
  local waits, heard = 0, 0
  while heard < 5 do
    coroutine.yield()
    local from, session, _, p, n = ltask.recv_message()
    if not from then
      assert(wait() == true)
      waits = waits + 1
    else
      local what = ltask.unpack_remove(p, n)
      if what ~= "start" then
        heard = heard + 1
        post(from, session, 2, heard)
      end
    end
  end
  post(1, 0, 1, "waits", waits)
  coroutine.yield()
]], [[
  say(select(4, raw.next()))
  for i = 1, 5 do
    -- Gives the other service time to block.
    ltask.timer_sleep(10)
    raw.post(2, i, 1, "ping")
    local _, session, type, heard = raw.next()
    assert(session == i and type == 2 and heard == i)
  end
  local _, _, _, what, waits = raw.next()
  say(what, waits >= 1 and waits <= 12)
]], { "function\tuserdata", "waits\ttrue" })

both_exclusive("messages of an exclusive service are sent in order; the function of scheduling sends them at once", [[
  local deliver = exclusive.scheduling()
  for i = 1, 200 do
    while not post(1, 0, 1, i) do deliver() end
  end
  deliver()
  exclusive.timer_update()
  exclusive.timer_update {}
  post(4711, 0, 1, "to nobody")
  coroutine.yield()
  post(1, 0, 1, "last")
  coroutine.yield()
]], [[
  local i, order = 0, true
  while true do
    local _, _, type, what = raw.next()
    if what == "last" then break end
    if type == 1 then
      i = i + 1
      order = order and what == i
    end
  end
  say(i, order)
]], { "200\ttrue" })

both_exclusive("root gets a signal when an exclusive service ends", "coroutine.yield()", [[
  local from, _, type
  repeat from, _, type = raw.next() until type == 4
  say(from, type)
]], { "2\t4" })

kit.test("a VM that preinit creates runs on its own thread, and then becomes a service", {
  root = [[
    local heard
    raw.next()
    repeat
      local from, _, type, what, steps, first = raw.next()
      heard = type == 1 and what == "pre" and table.pack(from, steps > 3, first)
    until heard
    say(table.unpack(heard))
  ]],
  before = "local source = " .. kit.literal [[
      local pre, steps, first = ..., 0
      first = pre
      while pre do
        steps = steps + 1
        if steps == 4 then io.open("ready", "w"):close() end
        pre = coroutine.yield()
      end
      local ltask = require "ltask"
      local p, n = ltask.pack("pre", steps, first)
      ltask.send_message(1, 0, 1, p, n)
      coroutine.yield()
      ltask.message_receipt()
      while true do coroutine.yield() end
  ]] .. [[

    local pre = boot.preinit(source)
    local deadline = os.time() + 5
    repeat local f = io.open "ready" until f or os.time() > deadline
    boot.new_service_preinit("pre", 2, pre)
    start(2)
  ]],
  out = { "2\ttrue\ttrue" },
})

-- Regression: `require "ltask.exclusive"` raised an error in a VM that preinit had created. The error ended the VM, so
-- the VM could not become a service.
for _, thread in ipairs { "boot.new_thread(2)", "" } do
  kit.test("preinit code may use ltask.exclusive, and its VM keeps the event descriptor when the VM becomes "
    .. (thread == "" and "an ordinary service" or "an exclusive service"), {
    root = [[
      raw.next()
      local steps, refused, is_exclusive
      repeat
        local _, _, type, what, a, b, c = raw.next()
        if type == 1 and what == "pre" then steps, refused, is_exclusive = a, b, c end
      until steps
      say(steps, is_exclusive)
      say(refused)
      for i = 1, 3 do
        assert(raw.post(2, i, 1, "ping", i) == 1)
        local from, session, type, answer
        repeat from, session, type, answer = raw.next() until type == 2
        say(from, session, answer)
      end
    ]],
    before = "local source = " .. kit.literal [[
        local ltask = require "ltask"
        local exclusive = require "ltask.exclusive"
        local take, descriptor = exclusive.eventinit()
        assert(type(descriptor) == "userdata" and take())
        local block, size = ltask.pack "too early"
        local _, refused = pcall(exclusive.send, 1, 0, 1, block, size)
        ltask.remove(block, size)
        local steps = 0
        while coroutine.yield() do
          steps = steps + 1
          if steps == 4 then
            io.open("ready", "w"):close()
            while coroutine.yield() do exclusive.sleep(1) end
            break
          end
        end
        exclusive.send(1, 0, 1, ltask.pack("pre", steps, refused, ltask.is_exclusive()))
        while true do
          take()
          local from, session, _, p, n = ltask.recv_message()
          while from do
            local what, i = ltask.unpack_remove(p, n)
            if what == "ping" then exclusive.send(from, session, 2, ltask.pack(i * 10)) end
            from, session, _, p, n = ltask.recv_message()
          end
          coroutine.yield()
        end
    ]] .. [[
      local pre = boot.preinit(source)
      local deadline = os.time() + 5
      repeat local f = io.open "ready" until f or os.time() > deadline
      boot.new_service_preinit("pre", 2, pre)
      start(2)
      ]] .. thread .. "\n",
    out = {
      "4\t" .. tostring(thread ~= ""), "exclusive.send: this VM is not a service yet: wait until yield returns nothing",
      "2\t1\t10", "2\t2\t20", "2\t3\t30",
    },
  })
end

t.finish()
