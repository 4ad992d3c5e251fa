-- Nanoseconds of CPU for single calls (bench/micro), in the executable and in a stock interpreter with the module.

local process = require "frame.process"
local cases = require "micro.cases"

local M = { title = "Single calls", columns = { { "each", "ns" } } }

local quote = process.quote

local stock = os.getenv "LUA54" or "lua5.4"
local MODULE <const> = process.here .. "../build/lio.so"
local SECONDS <const> = 0.3 -- of a case in a process
local BOUND <const> = 30

local child = quote(process.here .. "micro/child.lua")

local function is_there(path)
  local file <close> = io.open(path)
  return file ~= nil
end

local HOSTS <const> = {
  { name = "executable", program = quote(process.lio) },
  {
    name = "module",
    program = ("env %s %s"):format(quote("LUA_CPATH=" .. process.here .. "../build/?.so"), quote(stock)),
    missing = function()
      if not is_there(MODULE) then return "needs build/lio.so (make module)" end
      if not process.succeeds("command -v " .. quote(stock)) then return "needs " .. stock end
    end,
  },
}

local function contender(host, name)
  return {
    name = host.name,
    open = function()
      local problem = host.missing and host.missing()
      if problem then return nil, problem end
      return {}
    end,
    turn = function()
      return process.figures(("%s%s %s %s seconds=%s"):format(
        process.pinning(), host.program, child, name, SECONDS), BOUND)
    end,
  }
end

M.cases = {}
for i, one in ipairs(cases) do
  local contenders = {}
  for k, host in ipairs(HOSTS) do contenders[k] = contender(host, one.name) end
  M.cases[i] = {
    name = one.name, what = one.what, contenders = contenders, rounds = 5, turn_seconds = SECONDS, beyond = SECONDS,
  }
end

M.matrices = { { title = "CPU for each, ns:", figure = "each" } }

return M
