-- Runs random operations on threads, scopes, kills, timeouts, waits and coroutines for a few seconds, and compares the
-- results with a model. If they differ, the error names the seed. tests/long/thread_model.lua runs a million
-- operations.

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

t.test("random operations have the results of the model, seed 1", function() check(1) end)

t.test("random operations have the results of the model, seed " .. seed, function() check(seed) end)

t.test("random operations on threads alone have the results of the model, seed " .. seed, function()
  check(seed, { create = true, resume = true, yield = true, close = true, co_status = true })
end)

t.finish()
