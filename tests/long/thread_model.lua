-- Runs a million random operations on threads, scopes, kills, timeouts, waits and coroutines, and compares the results
-- with a model. At the end, no task, timer, socket or memory may be leaked. Called by tests/run.sh --long, or by hand:
--   lio tests/long/thread_model.lua [operations (1000000) [seed]]

local t = require "tests.kit"
local lio = require "lio"
local loop = require "lio.loop"
local run = require "tests.model.run"

local operations = tonumber(arg[1]) or 1000000
local seed = tonumber(arg[2]) or os.time() % 1000000
local SECONDS <const> = 600
local GROWTH <const> = 512 -- the memory may grow by this number of KiB during the whole run

print(("seed %d, %d operations, %d s at most"):format(seed, operations, SECONDS))
io.stdout:flush()

local function memory()
  for _ = 1, 3 do collectgarbage() end
  return collectgarbage "count"
end

local function check(count, with_seed, progress)
  return loop.run(function()
    return run.check { operations = count, seed = with_seed, seconds = SECONDS, progress = progress }
  end)
end

local started, shown = lio.now(), lio.now()

local function progress(done)
  if lio.now() - shown < 10 then return end
  shown = lio.now()
  print(("%d operations, %.0f s, %.0f KiB"):format(done, shown - started, collectgarbage "count"))
  io.stdout:flush()
end

t.test("no difference and no leak, seed " .. seed, function()
  -- The first run creates the objects that are created only once, before the memory is measured.
  local _, early = check(2000, seed + 1)
  if early then error(early, 0) end
  local before = memory()
  local done, problem = check(operations, seed, progress)
  if problem then error(problem, 0) end
  local grown = memory() - before
  print(("%d operations in %.0f s, %.0f KiB more than before"):format(done, lio.now() - started, grown))
  t.ok(grown < GROWTH, ("memory grew by %.0f KiB"):format(grown))
  t.ok(done >= operations or lio.now() - started >= SECONDS)
end, { leaks = true })

t.finish()
