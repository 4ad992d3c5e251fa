-- Critical sections of the Skynet compatibility API: `skynet.queue`.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

kit.test("if a coroutine that is inside a section or waits for it is killed, the next coroutine enters", {
  main = [[
    local task = require "lio.task"
    local section = require "skynet.queue"()
    local co = {}
    for i = 1, 6 do
      co[i] = skynet.fork(section, function()
        say("in", i)
        skynet.sleep(i == 1 and 100000 or 0)
        say("out", i)
      end)
    end
    skynet.yield()
    task.kill(co[3]) -- is waiting
    task.kill(co[1]) -- is inside; 2 is next
    task.kill(co[2]) -- was woken but has not run; 4 is next
    skynet.sleep(5)
    say(section(function(...) return select("#", ...), ... end, nil, 1))
    say(pcall(section))
    say(section(function() return "free" end))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.ok(table.remove(lines, 9):find "^false\t.*attempt to call a nil value", "a section without a function")
    t.eq(lines, { "in\t1", "in\t4", "out\t4", "in\t5", "out\t5", "in\t6", "out\t6", "2\tnil\t1", "free" })
  end,
})

kit.test("a section belongs to the handler: its generators may enter too, and other tasks wait", {
  main = [[
    local section = require "skynet.queue"()
    local function numbers(n)
      return coroutine.wrap(function()
        for i = 1, n do
          section(function()
            skynet.sleep(0)
            coroutine.yield(i)
          end)
        end
      end)
    end
    skynet.fork(section, say, "after them")
    section(function()
      skynet.yield()
      for i in numbers(3) do
        -- The generator is inside the section; the handler, which reads the generator's values, may enter too.
        section(say, "number", i)
        skynet.sleep(0)
      end
      say "leaves"
    end)
    skynet.yield()
    -- Here only the generator enters the section, and it is inside until it ends.
    local one = numbers(1)
    one()
    skynet.fork(section, say, "the next")
    skynet.yield()
    say "not yet"
    one()
    skynet.yield()
    section(say, "free")
  ]],
  out = { "number\t1", "number\t2", "number\t3", "leaves", "after them", "not yet", "the next", "free" },
})

kit.test("if a coroutine that is inside a section or waits for it is closed, the next coroutine enters", {
  main = [[
    local section = require "skynet.queue"()
    local inside, waits
    skynet.fork(function()
      inside = coroutine.create(section)
      say("inside", coroutine.resume(inside, skynet.wait, "for ever"))
    end)
    skynet.fork(function()
      waits = coroutine.create(section)
      say("waits", coroutine.resume(waits, say, "must not run"))
    end)
    skynet.fork(section, say, "next")
    skynet.yield()
    say(coroutine.close(waits), coroutine.close(inside))
    skynet.yield()
    section(say, "free")
  ]],
  out = {
    "true\ttrue", "waits\tfalse\tcoroutine was closed", "inside\tfalse\tcoroutine was closed", "next", "free",
  },
})

kit.test("a section raises errors of all kinds unchanged", {
  main = [[
    local queue = require "skynet.queue"
    local section, problem = queue.new(), {}
    say(select(2, pcall(section, error, problem)) == problem)
    say(pcall(section, section, section, error, "deep", 0))
    say(section(section, section, function() return "reentered" end))
  ]],
  out = { "true", "false\tdeep", "reentered" },
})

t.finish()
