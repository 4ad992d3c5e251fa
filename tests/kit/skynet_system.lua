-- Tests of the Skynet compatibility API: each boots a system as tests/kit/ltask_system.lua does. The sources can use
-- `skynet`, `ltask` and `say`. `main` runs as a task of the first service, which is an ltask service without
-- handlers of Skynet's; the system ends when `main` returns.
-- Known to programs: skynet, serve

local kit = require "tests.kit.ltask_system"

local M = { lines = kit.lines }

local use <const> = "local skynet = require 'skynet' "

-- `serve()` answers "lua" messages with the results of the function in `CMD` that the command names.
local serve <const> = ([[
  local CMD = {}
  local function serve()
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd, ...) skynet.retpack(CMD[cmd](...)) end)
    end)
  end ]]):gsub("\n", " ")

-- A protocol whose messages are text, for `skynet.register_protocol`; in one line.
M.text_protocol = ([[
  skynet.register_protocol {
    name = "text", id = skynet.PTYPE_TEXT, pack = function(text) return text end, unpack = skynet.tostring,
  } ]]):gsub("\n", " ")

-- kit.test of tests/kit/ltask_system.lua, with the Skynet API in all sources.
function M.test(name, spec)
  for service, source in pairs(spec.services or {}) do spec.services[service] = use .. serve .. source end
  if spec.main then spec.main = use .. spec.main end
  kit.test(name, spec)
end

return M
