-- Runs random plans of forks, wakeups and waits, and compares their order with a model of skynet's scheduler. If a plan
-- runs in another order, the test prints the seed; SEED=n repeats a run.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local seed = tonumber(os.getenv "SEED") or os.time()

kit.test("1,000 random plans of forks, waits and wakeups run as in skynet", {
  main = "local seed = " .. seed .. [[

    local skynet = require "skynet"
    local model = require "tests.kit.skynet_model"
    local real = { fork = skynet.fork, wait = skynet.wait, wakeup = skynet.wakeup }
    math.randomseed(seed)
    local lines = 0
    for round = 1, 1000 do
      local plan = model.plan(math.random, math.random(1, 40), round * 1000)
      local want, got = model.expected(plan), {}
      skynet.fork(model.play, plan, real, function(line) got[#got + 1] = line end)
      -- When this sleep ends, the forks and the coroutines that they have woken have run.
      skynet.sleep(0)
      local want_text, got_text = table.concat(want, "\n"), table.concat(got, "\n")
      if want_text ~= got_text then
        say(("seed %d, round %d: want\n%s\ngot\n%s"):format(seed, round, want_text, got_text))
        return
      end
      lines = lines + #want
    end
    say("the same", lines > 5000)
  ]],
  out = { "the same\ttrue" },
  seconds = 60,
})

t.finish()
