-- Services return memory to the system when they no longer use it.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The body of the main service: `settle(limit)` waits until the resident memory is at most `limit` KiB, but at most
-- 20 s, and returns whether it is.
local head <const> = [[
  local resident = require "tests.kit.resident"
  local function settle(limit)
    local deadline = ltask.counter() + 20
    repeat
      if resident() <= limit then return true end
      ltask.sleep(10)
    until ltask.counter() > deadline
    return false
  end
]]

local services <const> = { hoarder = [[
  local S, kept = {}, nil
  function S.tables()
    kept = {}
    -- Without a large block, of which malloc(3) keeps a part at the end of its heap.
    for i = 1, 1000 do
      kept[i] = {}
      for j = 1, 1000 do kept[i][j] = { j } end
    end
  end
  function S.strings()
    kept = {}
    for i = 1, 600 do kept[i] = ("x"):rep(100000) .. i end
  end
  function S.both()
    kept = {}
    for i = 1, 100000 do kept[i] = { tostring(i) .. ("x"):rep(i % 700) } end
  end
  function S.free() kept = nil collectgarbage() collectgarbage() end
  function S.count() return #kept end
  function S.exit() ltask.quit() end
  return S
]] }

-- Regression: the memory remained in the service's free lists, and in those of malloc(3).
for _, what in ipairs { "tables", "strings" } do
  kit.test("the memory of " .. what .. " that a service has collected is returned to the system", {
    services = services,
    main = head .. ([[
      local id = ltask.spawn "hoarder"
      local before = resident()
      for _ = 1, 2 do
        ltask.call(id, %q)
        local peak = resident()
        ltask.call(id, "free")
        say(peak > before + 30000, settle(before + 12000))
      end
    ]]):format(what),
    out = { "true\ttrue", "true\ttrue" },
    resident = true,
  })
end

kit.test("the memory of a service that has ended is returned to the system", {
  services = services,
  main = head .. [[
    local before = resident()
    local id = ltask.spawn "hoarder"
    ltask.call(id, "both")
    local peak = resident()
    ltask.send(id, "exit")
    say(peak > before + 30000, settle(before + 12000))
  ]],
  out = { "true\ttrue" },
  resident = true,
})

t.finish()
