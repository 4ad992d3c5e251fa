-- Regressions of the scheduler, about memory limits, messages and answers, and the log. One test per fault, whose
-- comment describes it. ltask_regress_test.lua and ltask_regress3_test.lua have others.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"

-- Returns the output without lines of the log.
local function said(out)
  local list = {}
  for _, line in ipairs(kit.lines(out)) do
    if not line:find "^[%[%s]" and not line:find "^stack traceback" then list[#list + 1] = line end
  end
  return list
end

-- ---------------------------------------------------------------------------------------------
-- Memory limits

-- The error was logged instead of raised, and the caller waited for ever.
kit.both("an answer for which the caller has no memory raises an error in the caller", {
  services = {
    big = "local S = {} function S.big() local v = {} for i = 1, 200000 do v[i] = { i } end return v end return S",
    small = [[
      local S = {}
      function S.ask(id)
        ltask.mem_limit(2 << 20)
        local ok, e = pcall(ltask.call, id, "big")
        ltask.mem_limit(0)
        return ok, tostring(e):match "not enough memory" or e
      end
      return S
    ]],
  },
  main = [[
    local big, small = ltask.spawn "big", ltask.spawn "small"
    say(ltask.call(small, "ask", big))
    say(ltask.call(small, "ask", big))
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "false\tnot enough memory", "false\tnot enough memory" }) end,
})

-- An emergency collection started the collector, which was stopped until the end of the call.
kit.both("no finalizer runs in the middle of a native call, also at a memory limit", {
  main = [[
    if _VERSION == "Lua 5.4" then
      collectgarbage("incremental", 1, 400, 40)
    else
      collectgarbage("param", "pause", 0)
    end
    local early = 0
    local function arm()
      setmetatable({}, { __gc = function()
        for level = 3, 8 do
          local info = debug.getinfo(level, "f")
          if info and info.func == ltask.mem_count then early = early + 1 end
        end
        arm()
      end })
    end
    for spare = 8, 2000, 8 do
      arm()
      local used = ltask.mem_count({}).memory
      ltask.mem_limit(used + spare)
      pcall(ltask.mem_count)
      ltask.mem_limit(0)
    end
    say(early)
  ]],
  out = { "0" },
})

-- A service that has almost reached its limit.
local limited <const> = [[
  local S = {}
  function S.limit()
    collectgarbage()
    ltask.mem_limit(ltask.mem_count().memory + 3000)
  end
  function S.take() return "taken" end
  function S.ping() return "pong" end
  return S
]]

-- The code that answers an error was loaded under the same limit, and the second error ended the service.
kit.both("a service at its memory limit answers requests with an error, and continues", {
  services = { limited = limited },
  config = { grace = 0.2 },
  main = [[
    local id = ltask.spawn "limited"
    ltask.call(id, "limit")
    local big = {}
    for i = 1, 100000 do big[i] = { i } end
    for _ = 1, 3 do
      local ok, e = pcall(ltask.call, id, "take", big)
      say(ok, tostring(e):match "not enough memory" or e)
    end
    say(ltask.call(id, "ping"))
  ]],
  err = false,
  out = function(out)
    local refused <const> = "false\tnot enough memory"
    t.eq(said(out), { refused, refused, refused, "pong" })
  end,
})

-- The code of `quit` was loaded under the limit as well: the service could not be ended, and the end of the system took
-- the whole `grace`.
kit.both("a service at its memory limit can be killed", {
  services = { limited = limited },
  main = [[
    local id = ltask.spawn "limited"
    ltask.call(id, "limit")
    local killed = ltask.kill(id)
    local till, dead = ltask.counter() + 30, false
    repeat
      ltask.sleep(1)
      dead = not pcall(ltask.call, id, "ping")
    until dead or ltask.counter() > till
    say(killed, dead)
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "true\ttrue" }) end,
})

-- ---------------------------------------------------------------------------------------------
-- Full mailboxes

-- A send that had waited returned no value: `assert(ltask.send(...))` failed under load.
kit.both('with full = "wait" every send returns true, also if it has waited for room', {
  services = { slow = [[
    local S, n = {}, 0
    function S.add()
      ltask.timer_sleep(1)
      n = n + 1
    end
    function S.count() return n end
    return S
  ]] },
  config = { full = "wait", core = { queue = 4 } },
  main = [[
    local id, right = ltask.spawn "slow", 0
    for i = 1, 50 do
      local r = table.pack(ltask.send(id, "add", i))
      if r.n == 1 and r[1] == true then right = right + 1 end
    end
    say(right, ltask.call(id, "count"))
  ]],
  out = { "50\t50" },
})

-- It returned no value either, whether the message was delivered or lost with its receiver.
kit.both("a send that waits for room returns false and a message when the receiver dies", {
  services = { dying = [[
    local S = {}
    function S.hold(who, dir)
      ltask.send(who, "held")
      repeat local f = io.open(dir .. "/go") until f
      ltask.quit()
    end
    function S.add() end
    return S
  ]] },
  config = { full = "wait", core = { queue = 4 } },
  main = [[
    local dir = ...
    function S.held() ltask.wakeup "held" end
    local id = ltask.spawn "dying"
    ltask.send(id, "hold", ltask.self(), dir)
    ltask.wait "held"
    local sent, dead, other = 0, 0, nil
    for _ = 1, 20 do
      ltask.fork(function()
        local ok, e = ltask.send(id, "add")
        if ok == true then sent = sent + 1
        elseif ok == false and tostring(e):find("{service:" .. id .. "} is dead", 1, true) then dead = dead + 1
        else other = table.concat({ tostring(ok), tostring(e) }, " ") end
        if sent + dead == 20 or other then ltask.wakeup "all" end
      end)
    end
    ltask.sleep(0)
    io.open(dir .. "/go", "w"):close()
    ltask.timeout(3000, function() ltask.wakeup "all" end)
    if sent + dead < 20 then ltask.wait "all" end
    say(sent >= 4, dead > 0, sent + dead, other)
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "true\ttrue\t20\tnil" }) end,
})

-- The notice of room filled the mailbox of the waiting sender, for which others waited as well: two services sent each
-- other notices for ever, and no request was delivered.
kit.both("services that call each other through mailboxes with room for one get all their answers", {
  services = { peer = [[
    local S = {}
    function S.pass(to, n)
      if n == 0 then return "arrived" end
      return ltask.call(to, "pass", ltask.self(), n - 1)
    end
    function S.add() end
    return S
  ]] },
  config = { full = "wait", grace = 0.5, core = { queue = 1 } },
  main = [[
    local peers, right, ended = {}, 0, 0
    for i = 1, 6 do peers[i] = ltask.spawn "peer" end
    for k = 1, 40 do
      ltask.fork(function()
        for i = 1, 50 do
          ltask.send(peers[1 + (k + i) % 6], "add")
          local r = ltask.call(peers[1 + i % 6], "pass", peers[1 + (i + k) % 6], 4)
          if r == "arrived" then right = right + 1 end
        end
        ended = ended + 1
        if ended == 40 then ltask.wakeup "all" end
      end)
    end
    ltask.timeout(4000, function() ltask.wakeup "all" end)
    ltask.wait "all"
    say(right)
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "2000" }) end,
})

-- It raised an error, although there was room: programs with generators failed with this setting.
kit.both('with full = "wait" a coroutine that cannot wait sends as long as there is room', {
  config = { full = "wait" },
  main = [[
    function S.add()
      say "added"
      ltask.wakeup "added"
    end
    for r in coroutine.wrap(function() coroutine.yield(ltask.send(ltask.self(), "add")) end) do say(r) end
    ltask.wait "added"
  ]],
  out = { "true", "added" },
})

-- A request that was sent by `exclusive.send` counted as the answer to a request of its receiver with the same session,
-- which got no error when the service died.
kit.both("exclusive.send of a request leaves a pending request of the same session to be answered", {
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

-- ---------------------------------------------------------------------------------------------
-- The log

-- The notice of entries was refused like other messages; it is sent only once until the log is empty.
kit.both("the log continues after the logger's mailbox was full", {
  services = { own_logger = [[
    local core = require "ltask.core"
    local S, written = {}, 0
    local function flush()
      while true do
        local now, _, _, p, n = core.poplog()
        if not now then break end
        local _, text = ltask.unpack_remove(p, n)
        say((text:match "[^\t]*$"))
        written = written + 1
      end
    end
    core.system_calls().log_ready = flush
    -- Keeps its thread until that file exists.
    function S.hold(who, path)
      ltask.send(who, "held")
      repeat local f = io.open(path) until f
    end
    function S.add() end
    function S.written() return written end
    function S.quit() flush() end
    core.log_reader()
    flush()
    return S
  ]] },
  config = { core = { queue = 4 }, logger = { "own_logger" } },
  main = [[
    local dir = ...
    function S.held() ltask.wakeup "held" end
    local logger = ltask.queryservice "own_logger"
    ltask.send(logger, "hold", ltask.self(), dir .. "/go")
    ltask.wait "held"
    repeat until not pcall(ltask.send, logger, "add")
    print "while it is full"
    io.open(dir .. "/go", "w"):close()
    local function written(n)
      repeat
        ltask.sleep(1)
        local ok, count = pcall(ltask.call, logger, "written")
      until ok and count >= n
    end
    written(1)
    print "later"
    written(2)
    say "the end"
  ]],
  out = { "while it is full", "later", "the end" },
})

-- In Lua 5.5 `__tostring` closed the running coroutine, and the service ended by a panic.
kit.both("an error whose __tostring closes the running coroutine ends the service as other errors do", {
  services = {
    failing = [[
      kept = setmetatable({}, { __gc = function() say "finalized" end })
      coroutine.yield()
      error(setmetatable({}, { __tostring = function() coroutine.close(coroutine.running()) end }))
    ]],
  },
  root = [[
    local failing = raw.spawn "failing"
    raw.post(failing, 0, 1, "go")
    -- The message of its start may arrive first.
    local from, type, _
    repeat from, _, type = raw.next() until type ~= 1
    assert(from == failing and type == 4, "no signal of its death")
    raw.bury(failing)
  ]],
  err = _VERSION == "Lua 5.4" and "cannot close a running coroutine" or "error object is not a string",
  out = { "finalized" },
})

t.finish()
