-- Random operations on threads, scopes, kills, timeouts, waits and coroutines, compared with a model, for some seconds;
-- tests/long/thread_model.lua does a million. A difference is reported with its seed, for another run.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local run = require "tests.model.run"

local OPERATIONS <const>, SECONDS <const> = 20000, 10

local function check(seed, without)
  netkit.run(function()
    local done, problem = run.check { operations = OPERATIONS, seconds = SECONDS, seed = seed, without = without }
    if problem then error(problem, 0) end
    t.ok(done > 100, done .. " operations in " .. SECONDS .. " s")
  end, 60)
end

local seed <const> = os.time() % 1000000

t.test("random operations do what the model says, seed 1", function() check(1) end)

t.test("random operations do what the model says, seed " .. seed, function() check(seed) end)

t.test("random operations on threads alone do what the model says, seed " .. seed, function()
  check(seed, { create = true, resume = true, yield = true, close = true, co_status = true })
end)

t.finish()
