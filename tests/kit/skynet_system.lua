-- Tests of the Skynet compatibility API. Each test boots a system as tests/kit/ltask_system.lua does. The sources can
-- use `skynet`, `ltask` and `say`. `main` runs as a task of the first service, an ltask service that has no Skynet
-- handlers; the system ends when `main` returns.
-- The programs may use: skynet, serve

local kit = require "tests.kit.ltask_system"

local M = { lines = kit.lines }

local use <const> = "local skynet = require 'skynet' "

-- The source of `serve()`, which responds to a "lua" message with the results of the function in `CMD` whose name is
-- the command.
local serve <const> = ([[
  local CMD = {}
  local function serve()
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd, ...) skynet.retpack(CMD[cmd](...)) end)
    end)
  end ]]):gsub("\n", " ")

-- One line of source code that registers a protocol whose messages are strings.
M.text_protocol = ([[
  skynet.register_protocol {
    name = "text", id = skynet.PTYPE_TEXT, pack = function(text) return text end, unpack = skynet.tostring,
  } ]]):gsub("\n", " ")

-- Returns different ports of 127.0.0.1 that are free.
function M.free_ports(count)
  local sockets, ports = {}, {}
  for i = 1, count do
    sockets[i] = require "lio.socket".create "tcp"
    sockets[i]:bind("127.0.0.1", 0)
    ports[i] = select(2, sockets[i]:info "socket":value())
  end
  for _, socket in ipairs(sockets) do socket:close() end
  return table.unpack(ports)
end

-- Calls kit.test of tests/kit/ltask_system.lua, with the Skynet API in all sources.
function M.test(name, spec)
  for service, source in pairs(spec.services or {}) do spec.services[service] = use .. serve .. source end
  if spec.main then spec.main = use .. spec.main end
  kit.test(name, spec)
end

return M
