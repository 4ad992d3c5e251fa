-- Event descriptors of ordinary services, with the low-level functions: eventinit, eventreset, touch_service, IDLE
-- messages. A service that owns an event descriptor has its own thread.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- A service that waits whenever it is idle. It responds to a request with the request's value, the number of IDLE
-- messages and the number of wakeups.
local waiter <const> = [[
raw.next()
local wait, descriptor = ltask.eventinit()
assert(type(wait) == "function" and type(descriptor) == "userdata")
local idle, woken = 0, 0
while true do
  local from, session, type, what = raw.next()
  if type == 5 then
    idle = idle + 1
    assert(from == 0, "IDLE comes from id 0")
    if wait() == true then woken = woken + 1 end
  elseif type == 1 and what == "end" then
    return
  elseif type == 1 then
    raw.post(from, session, 2, what, idle, woken)
  end
end
]]

kit.test("an idle service gets IDLE, blocks in its wait, and is woken by a message", {
  services = { waiter = waiter },
  root = [[
    raw.next()
    local id = raw.spawn "waiter"
    local woken_before = -1
    for i = 1, 20 do
      raw.post(id, i, 1, "ping")
      local _, session, _, what, _, woken = raw.next()
      assert(session == i and what == "ping" and woken >= woken_before)
      woken_before = woken
    end
    say "twenty answers"
    raw.post(id, 0, 1, "end")
    local from, _, type = raw.next()
    say(from == id, type)
  ]],
  out = { "twenty answers", "true\t4" },
})

kit.test("forty services that block in their wait do not occupy the workers", {
  services = { waiter = waiter, echo = [[
    while true do
      local from, session, type, what = raw.next()
      if type == 1 and session > 0 then raw.post(from, session, 2, what) end
    end
  ]] },
  root = [[
    raw.next()
    local waiters = {}
    for i = 1, 40 do waiters[i] = raw.spawn "waiter" end
    local echo = raw.spawn "echo"
    for i = 1, 500 do
      raw.post(echo, i, 1, i)
      local _, session, _, what = raw.next()
      assert(session == i and what == i)
    end
    say "the echo service runs"
    for i, id in ipairs(waiters) do raw.post(id, i, 1, "ping") end
    local answers = {}
    for _ = 1, 40 do
      local from, session, _, what = raw.next()
      assert(waiters[session] == from and what == "ping" and not answers[session])
      answers[session] = true
    end
    say "each waiter answered"
  ]],
  out = { "the echo service runs", "each waiter answered" },
})

kit.test("touch_service ends the wait of a service that has no message", {
  services = { watcher = [[
    raw.next()
    local wait = ltask.eventinit()
    local touched = 0
    while touched < 4 do
      local _, _, type = raw.next()
      if type == 5 then
        wait()
        touched = touched + 1
        raw.post(1, touched, 1, "awake")
      end
    end
  ]] },
  root = [[
    raw.next()
    local id = raw.spawn "watcher"
    -- The first wait returns at once: the descriptor is readable after eventinit.
    for i = 1, 4 do
      local from, session, type, what = raw.next()
      assert(from == id and type == 1 and session == i and what == "awake")
      ltask.touch_service(id)
    end
    local from, _, type = raw.next()
    say(from == id, type)
    say(pcall(ltask.touch_service, id))
  ]],
  out = function(out)
    t.eq(kit.lines(out)[1], "true\t4")
  end,
})

kit.test("a burst of messages makes the descriptor readable once", {
  services = { burst = [[
    raw.next()
    local wait = ltask.eventinit()
    local waits, heard = 0, 0
    while true do
      local from, session, type, what = raw.next()
      if type == 5 then
        wait()
        waits = waits + 1
      elseif what == "hold" then
        waits = 0
        raw.post(from, 0, 1, "held")
        local f
        repeat f = io.open(FLAG) until f
        f:close()
      elseif what == "count" then
        raw.post(from, session, 2, heard, waits)
      elseif what == "one" then
        heard = heard + 1
      end
    end
  ]] },
  root = [[
    raw.next()
    local flag = os.tmpname()
    os.remove(flag)
    SOURCES.burst = SOURCES.burst:gsub("FLAG", "'" .. flag .. "'")
    local id = raw.spawn "burst"
    raw.post(id, 0, 1, "hold")
    repeat local _, _, _, what = raw.next() until what == "held"
    for _ = 1, 200 do raw.post(id, 0, 1, "one") end
    io.open(flag, "w"):close()
    raw.post(id, 9, 1, "count")
    local _, session, _, heard, waits = raw.next()
    say(session, heard, waits <= 3)
    os.remove(flag)
  ]],
  out = { "9\t200\ttrue" },
})

kit.test("eventinit works once per service; eventreset returns a new descriptor", {
  services = { twice = [[
    raw.next()
    local wait = ltask.eventinit()
    local again = pcall(ltask.eventinit)
    local second = ltask.eventreset()
    raw.post(1, 0, 1, again, type(second))
    repeat
      local _, _, type, what = raw.next()
      if type == 5 then wait() end
    until what == "end"
    raw.post(1, 0, 1, "ended")
  ]] },
  root = [[
    raw.next()
    local id = raw.spawn "twice"
    local _, _, _, again, second = raw.next()
    say(again, second)
    raw.post(id, 0, 1, "end")
    say((select(4, raw.next())))
  ]],
  out = { "false\tuserdata", "ended" },
})

kit.test("the system ends while services block in their wait", {
  services = { waiter = waiter },
  root = [[
    raw.next()
    for _ = 1, 5 do raw.spawn "waiter" end
    local id = raw.spawn "waiter"
    raw.post(id, 1, 1, "ping")
    raw.next()
    say "root returns"
  ]],
  run = "boot.run() boot.deinit() say 'over'",
  out = { "root returns", "over" },
})

t.finish()
