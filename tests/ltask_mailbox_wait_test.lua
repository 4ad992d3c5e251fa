-- Full mailboxes whose senders wait for space (`full = "wait"`): what a send returns, and whether all requests arrive.
-- tests/ltask_mailbox_test.lua tests the order of the senders, and full mailboxes that refuse messages.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Regression: a send that had waited returned nothing, so `assert(ltask.send(...))` failed under load.
kit.test('with full = "wait", every send returns true, even if it waited for space', {
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

-- Regression: the send returned nothing, as it did after a message had arrived.
kit.test("a send that waits for space returns false and a message if the receiver dies", {
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
  out = function(out) t.eq(kit.said(out), { "true\ttrue\t20\tnil" }) end,
})

-- Regression: the message that notifies a sender of space filled the sender's mailbox, or waited for space in it. So
-- two services sent each other only such messages, and no request arrived.
kit.test("services that call each other get all responses, even if each mailbox holds one message", {
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
  out = function(out) t.eq(kit.said(out), { "2000" }) end,
})

-- Regression: the send raised an error although the mailbox had space.
kit.test('with full = "wait", a coroutine that cannot wait can send while the mailbox has space', {
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

t.finish()
