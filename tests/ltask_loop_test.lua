-- The event loop in a service (`lio.service`): `loop.run`, and the end of the service.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Runs a test with `spec.script` as the main task of a service that owns a loop, as `lio --service` does.
local function with_loop(name, spec)
  spec.modules = { script = spec.script }
  spec.config = { bootstrap = { { name = "host" } } }
  spec.services = spec.services or {}
  -- The path of the script is built from the service path, which contains its folder.
  spec.services.host = [[
    ltask.spawn("lio", (ltask.servicepath():gsub("%?", "script")))
    ltask.fork(ltask.quit)
    return {}
  ]]
  kit.test(name, spec)
end

-- Regression: `run` compared numbers of tasks. When an older task ended, `run` assumed that its own tasks had ended,
-- and killed them.
with_loop("loop.run in a service runs its function to the end even if older tasks end", {
  script = [[
    local loop = require "lio.loop"
    local ltask = require "ltask"
    for i = 1, 3 do ltask.fork(function() ltask.sleep(i) end) end
    print("returned", loop.run(function()
      for i = 1, 5 do
        loop.sleep(0.02)
        print(i)
      end
      return "result"
    end))
  ]],
  out = { "1", "2", "3", "4", "5", "returned\tresult" },
})

-- Regression: if a request arrived while `run` was running, its handler prevented `run` from returning, or was killed
-- by `run`.
with_loop("loop.run in a service returns while a request is handled, and does not kill the handler", {
  services = { asker = [[
    local S = {}
    function S.ask(id)
      -- Sends many requests, so that a search through all of them would be slow.
      for i = 1, 100 do ltask.fork(pcall, ltask.call, id, "park", i) end
      ltask.fork(function()
        say("answer", ltask.call(id, "wait"))
        ltask.send(id, "done")
        ltask.quit()
      end)
    end
    return S
  ]] },
  script = [[
    local loop = require "lio.loop"
    local ltask = require "ltask"
    local requests = ltask.dispatch()
    function requests.park(i) ltask.wait("parked " .. i) end
    function requests.wait()
      ltask.wakeup "asked"
      ltask.wait "free"
      return "of the handler"
    end
    function requests.done() ltask.wakeup "done" end
    local asker = ltask.spawn "asker"
    loop.run(function()
      ltask.send(asker, "ask", ltask.self())
      ltask.wait "asked"
    end)
    print "run has ended"
    ltask.wakeup "free"
    ltask.wait "done"
  ]],
  out = { "run has ended", "answer\tof the handler" },
})

-- Regression: `quit` started the stop hooks, and ended the service at their first wait.
with_loop("when the system quits, the loop of a service stops gracefully", {
  script = [[
    local loop = require "lio.loop"
    local ltask = require "ltask"
    loop.on_stop(function()
      print "hook begins"
      loop.sleep(0.1)
      print "hook ends"
    end)
    loop.run(function()
      ltask.send(1, "quit_ltask")
      pcall(loop.sleep, 100)
    end)
  ]],
  out = { "hook begins", "hook ends" },
})

t.finish()
