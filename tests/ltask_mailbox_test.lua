-- Bounded mailboxes: if a mailbox is full, a sender gets an error or waits, and responses, errors and timers are
-- neither lost nor duplicated. The suite also tests for bugs in the original ltask: messages that were delivered
-- twice, pointers that were freed twice, and responses without a caller.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- A service that handles no messages during `hold`. `hold` first notifies its sender, and then waits for a file that
-- the sender creates. `add` collects values, and `list` returns the values of a sender.
local sink <const> = [[
  local S, lists, count = {}, {}, 0
  function S.hold(who, dir)
    ltask.send(who, "held")
    repeat local f = io.open(dir .. "/go") until f
  end
  function S.add(who, i)
    local list = lists[who] or {}
    lists[who], count = list, count + 1
    list[#list + 1] = i
    return i
  end
  function S.list(who) return lists[who] or {} end
  function S.count() return count end
  return S
]]

local hold <const> = [[
  local dir = ...
  function S.held() ltask.wakeup "held" end
  local function hold(a)
    ltask.send(a, "hold", ltask.self(), dir)
    ltask.wait "held"
  end
  local function release() io.open(dir .. "/go", "w"):close() end
]]

kit.test("send and call raise an error if the mailbox is full, and accepted messages arrive", {
  services = { sink = sink },
  config = { core = { queue = 8 } },
  main = hold .. [[
    local a = ltask.spawn "sink"
    hold(a)
    local taken, e = 0
    for i = 1, 20 do
      local ok, message = pcall(ltask.send, a, "add", "main", i)
      if ok then taken = taken + 1 else e = e or message end
    end
    say(taken, tostring(e):find("{service:" .. a .. "} is busy", 1, true) ~= nil)
    local ok, message = pcall(ltask.call, a, "add", "main", 99)
    say(ok, tostring(message):find("{service:" .. a .. "} is busy", 1, true) ~= nil)
    release()
    local list
    repeat
      ltask.sleep(1)
      local answered, l = pcall(ltask.call, a, "list", "main")
      list = answered and l
    until list and #list >= taken
    say(table.concat(list, " "))
  ]],
  out = { "8\ttrue", "false\ttrue", "1 2 3 4 5 6 7 8" },
})

for name, spec in pairs {
  ['full = "wait" in the boot config'] = { config = { full = "wait", core = { queue = 4 } }, on = "" },
  ['full = "wait" in the core config'] = { config = { core = { full = "wait", queue = 4 } }, on = "" },
  ['on_full "wait" in the service'] = { config = { core = { queue = 4 } }, on = "ltask.on_full 'wait'\n" },
} do
  kit.test(name .. " suspends senders until the mailbox has space, and keeps their order", {
    services = { sink = sink },
    config = spec.config,
    main = spec.on .. hold .. [[
      local a = ltask.spawn "sink"
      hold(a)
      local sent, others = 0, 0
      for i = 1, 50 do
        ltask.fork(function()
          ltask.send(a, "add", "main", i)
          sent = sent + 1
        end)
      end
      ltask.fork(function()
        for _ = 1, 10 do ltask.sleep(0) others = others + 1 end
        ltask.wakeup "others"
      end)
      ltask.wait "others"
      say(sent, others)
      release()
      local done = 0
      for i = 51, 60 do
        ltask.fork(function()
          local back = ltask.call(a, "add", "main", i)
          done = done + (back == i and 1 or 0)
        end)
      end
      while done < 10 do ltask.sleep(1) end
      local order, list = true, ltask.call(a, "list", "main")
      for i = 1, 60 do order = order and list[i] == i end
      say(#list, order, sent)
    ]],
    out = { "4\t10", "60\ttrue\t50" },
  })
end

kit.test('on_full "error" in a service overrides full = "wait" in the boot config', {
  services = { sink = sink },
  config = { full = "wait", core = { queue = 4 } },
  main = hold .. [[
    local a = ltask.spawn "sink"
    hold(a)
    ltask.on_full "error"
    local taken = 0
    for i = 1, 10 do taken = taken + (pcall(ltask.send, a, "add", "main", i) and 1 or 0) end
    say(taken)
    say((pcall(ltask.on_full, "nonsense")))
    release()
  ]],
  out = { "4", "false" },
})

kit.test("messages of eight senders to a small mailbox are not lost and keep their order", {
  services = { sink = sink, source = [[
    local S = {}
    function S.run(a, me, n)
      for i = 1, n do ltask.send(a, "add", me, i) end
      return n
    end
    return S
  ]] },
  config = { full = "wait", core = { queue = 16 } },
  main = [[
    local a, done = ltask.spawn "sink", 0
    for me = 1, 8 do
      ltask.fork(function()
        ltask.call(ltask.spawn "source", "run", a, me, 3000)
        done = done + 1
        if done == 8 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    -- This service's request may overtake messages that wait for space, so it is repeated until all have arrived.
    while ltask.call(a, "count") < 24000 do ltask.sleep(1) end
    local order = true
    for me = 1, 8 do
      local list = ltask.call(a, "list", me)
      for i = 1, 3000 do order = order and list[i] == i end
      order = order and #list == 3000
    end
    say(ltask.call(a, "count"), order)
  ]],
  out = { "24000\ttrue" },
})

kit.test("with mailboxes of four messages, every call is answered once, with values or an error", {
  services = { mixed = [[
    local S, n = {}, 0
    function S.run(i)
      n = n + 1
      if i % 3 == 0 then ltask.sleep(0) end
      if i % 5 == 0 then error("fifth " .. i, 0) end
      return i
    end
    function S.count() return n end
    return S
  ]] },
  config = { full = "wait", core = { queue = 4 } },
  main = [[
    local services, answers, right, count = {}, {}, 0, 0
    for i = 1, 3 do services[i] = ltask.spawn "mixed" end
    for i = 1, 3000 do
      ltask.fork(function()
        local ok, r = pcall(ltask.call, services[1 + i % 3], "run", i)
        answers[i] = (answers[i] or 0) + 1
        count = count + 1
        if i % 5 == 0 then
          if not ok and tostring(r):find("fifth " .. i, 1, true) then right = right + 1 end
        elseif ok and r == i then
          right = right + 1
        end
        if count == 3000 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    -- A second response to a request would arrive before these responses.
    local heard = 0
    for i = 1, 3 do heard = heard + ltask.call(services[i], "count") end
    local twice = 0
    for i = 1, 3000 do twice = twice + (answers[i] - 1) end
    say(right, count, twice, heard)
  ]],
  out = { "3000\t3000\t0\t3000" },
})

kit.test("timers of a service with a full mailbox fire once each", {
  services = { sink = sink },
  config = { full = "wait", core = { queue = 4 } },
  main = [[
    local fired, count = {}, 0
    for i = 1, 500 do
      ltask.timeout(i % 3, function()
        fired[i] = (fired[i] or 0) + 1
        count = count + 1
        if count == 500 then ltask.wakeup "done" end
      end)
    end
    -- The mailbox of this service overflows while the service is busy.
    local till = ltask.counter() + 0.1
    while ltask.counter() < till do end
    ltask.wait "done"
    ltask.sleep(5)
    local once = true
    for i = 1, 500 do once = once and fired[i] == 1 end
    say(count, once)
  ]],
  out = { "500\ttrue" },
})

kit.test("two services that send each other many requests make progress", {
  services = { peer = [[
    local S, heard = {}, 0
    function S.ping(i) heard = heard + 1 return i end
    function S.flood(other, n)
      local done = 0
      for i = 1, n do
        ltask.fork(function()
          assert(ltask.call(other, "ping", i) == i)
          done = done + 1
          if done == n then ltask.wakeup "flooded" end
        end)
      end
      ltask.wait "flooded"
      return done
    end
    function S.heard() return heard end
    return S
  ]] },
  config = { full = "wait", core = { queue = 4 } },
  main = [[
    local a, b, ended = ltask.spawn "peer", ltask.spawn "peer", 0
    for _, p in ipairs { { a, b }, { b, a } } do
      ltask.fork(function()
        ltask.call(p[1], "flood", p[2], 1000)
        ended = ended + 1
        if ended == 2 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say(ltask.call(a, "heard"), ltask.call(b, "heard"))
  ]],
  out = { "1000\t1000" },
})

-- The original ltask always crashed here: it moved the entries of its list of pending messages, and did not remove the
-- copies at the end.
local fan <const> = [[
  local services, answers, busy, right, count = {}, {}, 0, 0, 0
  local n <const> = 20000
  for i = 1, 4 do services[i] = ltask.spawn "worker" end
  for i = 1, n do
    ltask.fork(function()
      local ok, r = pcall(ltask.call, services[1 + i % 4], "run", i)
      answers[i] = (answers[i] or 0) + 1
      count = count + 1
      if ok and r == i then right = right + 1 end
      if not ok and tostring(r):find "is busy" then busy = busy + 1 end
      if count == n then ltask.wakeup "done" end
    end)
  end
  ltask.wait "done"
  -- A second response to a request would arrive before these responses.
  local heard = 0
  for i = 1, 4 do heard = heard + ltask.call(services[i], "count") end
  local twice = 0
  for i = 1, n do twice = twice + (answers[i] - 1) end
]]

local worker <const> = [[
  local S, n = {}, 0
  function S.run(i) n = n + 1 return i end
  function S.count() return n end
  return S
]]

kit.test("each of twenty thousand calls to four services is answered or refused once", {
  services = { worker = worker },
  main = fan .. "say(right + busy, count, twice, heard == right)",
  out = { "20000\t20000\t0\ttrue" },
})

kit.test('with full = "wait", each of twenty thousand calls to four services is answered once', {
  services = { worker = worker },
  config = { full = "wait", core = { queue = 64 } },
  main = fan .. "say(right, busy, count, twice, heard)",
  out = { "20000\t0\t20000\t0\t20000" },
})

t.finish()
