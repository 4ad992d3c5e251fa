-- The functions of root, with the low-level modules alone: schedule messages, starting and removing services, the
-- signals that root gets when services end, and the exit code of the process.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- A service that returns at the message "end", and raises an error at the message "raise".
local mortal <const> = [[
while true do
  local _, _, _, what = raw.next()
  if what == "end" then return end
  if what == "raise" then error "it was told to" end
end
]]

kit.test("root gets a new id for each NEW message, and ids are not reused at once", {
  services = { mortal = mortal },
  root = [[
    raw.next()
    local seen, count = { [0] = true, [1] = true }, 0
    for _ = 1, 100 do
      local kind, id = raw.post(0, 0, 0)
      assert(kind == 4 and not seen[id], "an id was used twice")
      seen[id], count = true, count + 1
      assert(root.init_service(id, "mortal", SOURCES.mortal, "@mortal"))
      raw.post(id, 0, 1, "end")
      local from, _, type = raw.next()
      assert(from == id and type == 4, "no signal that the service has ended")
      raw.bury(id)
      assert(raw.post(id, 0, 1) == 2, "a dead service got a message")
    end
    say(count)
  ]],
  out = { "100" },
})

kit.test("a schedule message of a service that is not root gets receipt ERROR", {
  services = { climber = [[
    raw.next()
    local new, del = raw.post(0, 0, 0), raw.post(0, 1, 1)
    raw.post(1, 0, 1, new, del)
  ]] },
  root = [[
    raw.next()
    raw.spawn "climber"
    local type, new, del
    repeat type, new, del = select(3, raw.next()) until type == 1
    say(new, del)
    say("root lives")
  ]],
  out = { "2\t2", "root lives" },
})

kit.test("a schedule message of an unknown kind, or for an id without a service, is refused", {
  root = [[
    raw.next()
    say((raw.post(0, 0, 2)))
    say((raw.post(0, 4711, 1)) ~= 0)
    say "root lives"
  ]],
  out = { "2", "true", "root lives" },
})

kit.test("root gets a signal when a service returns or raises an error, and the error is printed", {
  services = { mortal = mortal },
  root = [[
    raw.next()
    for _, how in ipairs { "end", "raise" } do
      local id = raw.spawn "mortal"
      raw.post(id, 0, 1, how)
      local from, _, type = raw.next()
      say(how, from == id, type)
      raw.bury(id)
    end
  ]],
  err = "it was told to.*stack traceback",
  out = { "end\ttrue\t4", "raise\ttrue\t4" },
})

kit.test("close_service returns all requests in the mailbox of a dead service, in order", {
  services = { sleeper = [[
    raw.next()
    raw.post(1, 0, 1, "asleep")
    while not io.open(FLAG) do end
  ]] },
  root = [[
    raw.next()
    local flag = os.tmpname()
    os.remove(flag)
    SOURCES.sleeper = SOURCES.sleeper:gsub("FLAG", "'" .. flag .. "'")
    local id = raw.spawn "sleeper"
    local what, type
    repeat what = select(4, raw.next()) until what == "asleep"
    for i = 1, 5 do assert(raw.post(id, 100 + i, 1, "waiting") == 1) end
    io.open(flag, "w"):close()
    repeat type = select(3, raw.next()) until type == 4
    say(table.unpack(raw.bury(id)))
    os.remove(flag)
  ]],
  out = { "1\t101\t1\t102\t1\t103\t1\t104\t1\t105" },
})

kit.test("init_service returns false and an error; with three arguments, it raises the error", {
  root = [[
    raw.next()
    local function id() return select(2, raw.post(0, 0, 0)) end
    say(root.init_service(id(), "bad", "this is not Lua", "@bad.lua"))
    say(pcall(root.init_service, id(), "bad", "this is not Lua"))
    say(pcall(root.init_service, id(), "bad", "@no-such-file.lua"))
    local good = id()
    say(root.init_service(good, "good", "return"))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 4, out)
    t.ok(lines[1]:find "^false\t.*bad%.lua:1:.*syntax error", lines[1])
    t.ok(lines[2]:find "^false\t.*syntax error", lines[2])
    t.ok(lines[3]:find "^false\t.*no%-such%-file", lines[3])
    t.ok(lines[4]:find "^true", lines[4])
  end,
})

kit.test("a service may be started on a given worker", {
  services = { placed = [[
    raw.next()
    local there = true
    for _ = 1, 50 do
      raw.post(ltask.self(), 0, 1)
      raw.next()
      there = there and ltask.worker_id() == WORKERS - 1
    end
    raw.post(1, 0, 1, there)
  ]] },
  root = [[
    raw.next()
    raw.spawn("placed", WORKERS - 1)
    local type, there
    repeat type, there = select(3, raw.next()) until type == 1
    say(there)
  ]],
  out = { "true" },
})

kit.test("when root returns, the system ends although services wait or handle messages", {
  services = {
    waiting = "while true do raw.next() end",
    busy = "while true do raw.post(ltask.self(), 0, 1) raw.next() end",
  },
  root = [[
    raw.next()
    for _ = 1, 10 do
      raw.spawn "waiting"
      raw.spawn "busy"
    end
    say "root returns"
  ]],
  run = "boot.run() say 'run returned' boot.deinit() say 'over'",
  out = { "root returns", "run returned", "over" },
})

kit.test("every VM is closed at the end: __gc and pending __close run", {
  services = { holder = [[
    KEPT = setmetatable({}, { __gc = function() say "collected" end })
    local _ <close> = setmetatable({}, { __close = function() say "closed" end })
    raw.next()
    raw.post(1, 0, 1, "holding")
    while true do raw.next() end
  ]] },
  root = [[
    raw.next()
    raw.spawn "holder"
    repeat local _, _, type = raw.next() until type == 1
  ]],
  run = "boot.run() boot.deinit()",
  out = function(out)
    local lines = kit.lines(out)
    table.sort(lines)
    t.eq(lines, { "closed", "collected" })
  end,
})

kit.test("wait returns the exit code that root has set", {
  root = [[
    raw.next()
    root.set_exit_code(42)
  ]],
  run = "local context = boot.run(nil) local code = boot.wait(context) boot.deinit() say(code) os.exit(code, true)",
  out = { "42" },
  code = 42,
})

-- Regression: the exit code was 0.
t.test("the exit code is 1 if root ends with an error", function()
  for _, worker in ipairs(kit.workers) do
    local out, err, code = kit.raw_system({
      root = "raw.next() error 'no good end'",
      run = "print('code', boot.run(), boot.deinit())",
    }, worker)
    t.eq({ out, code }, { "code\t1\n", 0 }, err)
    t.ok(err:find "no good end", err)
  end
end)

-- Regression: a request sent by `exclusive.send` counted as the answer to a received request with the same session.
-- When the service died, the caller got no answer.
kit.test("a request that exclusive.send sends does not count as the answer to a request of the same session", {
  root = [[
    raw.next()
    raw.post(2, 7, 1, "ask")
    say((select(4, raw.next())))
    local id
    repeat
      local from, _, type = raw.next()
      id = type == 4 and from
    until id
    local dead = root.close_service(id)
    say(#dead, dead[1], dead[2])
  ]],
  before = [[
    boot.new_service("own", [=[
      local ltask = require "ltask"
      local exclusive = require "ltask.exclusive"
      while true do
        local from, _, _, p, n = ltask.recv_message()
        if from then
          ltask.remove(p, n)
          exclusive.send(1, 7, 1, ltask.pack "a request of its own")
          return
        end
        exclusive.sleep(2)
        coroutine.yield()
      end
    ]=], 2)
    boot.new_thread(2)
  ]],
  out = { "a request of its own", "2\t1\t7" },
})

-- Regression: in Lua 5.5 the `__tostring` method closed the coroutine that called it, and the service ended with a
-- panic.
kit.test("an error whose __tostring closes the coroutine ends the service like any other error", {
  services = {
    failing = [[
      KEPT = setmetatable({}, { __gc = function() say "finalized" end })
      coroutine.yield()
      error(setmetatable({}, { __tostring = function() coroutine.close(coroutine.running()) end }))
    ]],
  },
  root = [[
    local failing = raw.spawn "failing"
    raw.post(failing, 0, 1, "go")
    -- The start message of root may arrive first.
    local from, type, _
    repeat from, _, type = raw.next() until type ~= 1
    assert(from == failing and type == 4, "no signal that the service has ended")
    raw.bury(failing)
  ]],
  err = _VERSION == "Lua 5.4" and "cannot close a running coroutine" or "error object is not a string",
  out = { "finalized" },
})

-- Regression: init_service destroyed a running service with the given id, and the requests that waited for it.
kit.test("init_service refuses an id that root did not get from NEW, or that already has a service", {
  services = { echo = [[
    while true do
      local from, session, type, what = raw.next()
      if type == 1 and session > 0 then raw.post(from, session, 2, what) end
    end
  ]] },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    for _, source in ipairs { "this is no Lua", "return" } do
      say((root.init_service(id, "other", source, "=other")))
      say((root.init_service(4711, "other", source, "=other")))
    end
    raw.post(id, 5, 1, "lives")
    say(select(2, raw.next()))
  ]],
  out = { "false", "false", "false", "false", "5\t2\tlives" },
})

t.finish()
