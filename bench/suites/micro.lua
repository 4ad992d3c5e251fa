-- Suite `micro`: the CPU time of single calls (bench/micro), in the executable and in a stock interpreter with the
-- module.

local cases = require "micro.cases"
local hosts = require "micro.hosts"
local process = require "harness.process"

local M = { title = "Single calls", columns = { { "each", "ns" } } }

local SECONDS <const> = 0.3 -- the duration of the measurement in a process
local TIME_LIMIT <const> = 30 -- the time limit of a process, in seconds

local programs = hosts.list(process.lio, process.here)

local function contender(host, name)
  return {
    name = host.name,
    open = function()
      if host.missing then return nil, host.missing end
      return {}
    end,
    turn = function()
      return process.figures(process.pinning() .. host.command(name, "seconds=" .. SECONDS), TIME_LIMIT)
    end,
  }
end

M.cases = {}
for i, one in ipairs(cases) do
  local contenders = {}
  for k, host in ipairs(programs) do contenders[k] = contender(host, one.name) end
  M.cases[i] = {
    name = one.name, what = one.what, contenders = contenders, rounds = 5, turn_seconds = SECONDS, beyond = SECONDS,
  }
end

M.matrices = { { title = "CPU per call, ns:", figure = "each" } }

return M
