-- The functions of root, with the low-level modules alone: schedule messages, starting and removing services, signals
-- of their death, and the process's exit code.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"

-- Ends at the second message if that is "end", and raises an error if it is "raise".
local mortal <const> = [[
while true do
  local _, _, _, what = raw.next()
  if what == "end" then return end
  if what == "raise" then error "it was told to" end
end
]]

kit.both("NEW answers root with new ids, which are not reused at once", {
  services = { mortal = mortal },
  root = [[
    raw.next()
    local seen, count = { [0] = true, [1] = true }, 0
    for _ = 1, 100 do
      local kind, id = raw.post(0, 0, 0)
      assert(kind == 4 and not seen[id], "an id came twice")
      seen[id], count = true, count + 1
      assert(root.init_service(id, "mortal", SOURCES.mortal, "@mortal"))
      raw.post(id, 0, 1, "end")
      local from, _, type = raw.next()
      assert(from == id and type == 4, "no signal of its death")
      raw.bury(id)
      assert(raw.post(id, 0, 1) == 2, "a dead service's id was still good")
    end
    say(count)
  ]],
  out = { "100" },
})

kit.both("a schedule message of a service that is not root gets receipt ERROR", {
  services = { climber = [[
    raw.next()
    local new, del = raw.post(0, 0, 0), raw.post(0, 1, 1)
    raw.post(1, 0, 1, new, del)
  ]] },
  root = [[
    raw.next()
    raw.spawn "climber"
    local _, _, type, new, del
    repeat _, _, type, new, del = raw.next() until type == 1
    say(new, del)
    say("root lives")
  ]],
  out = { "2\t2", "root lives" },
})

kit.both("a schedule message of an unknown kind, or for an id without a service, is refused", {
  root = [[
    raw.next()
    say((raw.post(0, 0, 2)))
    say((raw.post(0, 4711, 1)) ~= 0)
    say "root lives"
  ]],
  out = { "2", "true", "root lives" },
})

kit.both("root gets a signal when a service returns, and when it raises, with the error", {
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

kit.both("requests in the mailbox of a dead service are all in the list, in order", {
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
    local what, type, _
    repeat _, _, type, what = raw.next() until what == "asleep"
    for i = 1, 5 do assert(raw.post(id, 100 + i, 1, "waiting") == 1) end
    io.open(flag, "w"):close()
    repeat _, _, type = raw.next() until type == 4
    say(table.unpack(raw.bury(id)))
    os.remove(flag)
  ]],
  out = { "1\t101\t1\t102\t1\t103\t1\t104\t1\t105" },
})

kit.both("init_service returns false and an error; its form with three arguments raises", {
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

kit.both("a service may be started on a given worker", {
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
    local _, _, type, there
    repeat _, _, type, there = raw.next() until type == 1
    say(there)
  ]],
  out = { "true" },
})

kit.both("when root returns, the system ends although services wait or handle messages", {
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

kit.both("every VM is closed at the end: __gc and pending __close run", {
  services = { holder = [[
    KEPT = setmetatable({}, { __gc = function() say "collected" end })
    local mine <close> = setmetatable({}, { __close = function() say "closed" end })
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

kit.both("wait returns the exit code that root has set", {
  root = [[
    raw.next()
    root.set_exit_code(42)
  ]],
  run = "local context = boot.run(nil) local code = boot.wait(context) boot.deinit() say(code) os.exit(code, true)",
  out = { "42" },
  code = 42,
})

t.finish()
