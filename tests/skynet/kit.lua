-- What the suites of the Skynet API share: tests by description, as in tests/ltaskkit.lua, with a first service that is
-- not made by skynet. Sources have `skynet`, `ltask` and `say`; `main` runs as a coroutine of the first service, and
-- the system ends after it.

local kit = require "tests.ltaskkit"

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

-- kit.both of tests/ltaskkit.lua, with the Skynet API in all sources.
function M.both(name, spec)
  for service, source in pairs(spec.services or {}) do spec.services[service] = use .. serve .. source end
  if spec.main then spec.main = use .. spec.main end
  kit.both(name, spec)
end

return M
