-- Suite `net`: the CPU time of echo servers per round trip, compared with a baseline of raw epoll (bench/echo). The
-- client sends in a closed loop: on each connection it waits for the echo before it sends again. `lio` uses `lio.net`
-- with one coroutine per connection (examples/echo.lua); `lio selector` uses only the selector.

local process = require "harness.process"

local M = { title = "Echo", columns = { { "rate", "round trips/s" }, { "cpu", "CPU µs" }, { "user", "user µs" } } }

local quote = process.quote
local stock = os.getenv "LUA54" or "lua5.4"

-- Returns a contender. The port is appended to `command`. `missing()` returns the reason why a peer cannot run here, or
-- nil; if `missing` is nil, the contender is not a peer.
local function server(name, command, missing)
  local one = { name = name, peer = missing ~= nil }
  function one.open()
    local problem = missing and missing()
    if problem then return nil, problem end
    local port = process.port()
    local program = process.start {
      command = ("%s %d"):format(command, port),
      ready = function(program) return process.text(program.log):find "listening on" ~= nil end,
    }
    program.port = port
    return program
  end
  return one
end

local function here(path) return quote(process.here .. path) end

local function requirement(test, package)
  return function()
    if not process.succeeds(test) then return "is not installed (Debian package: " .. package .. ")" end
  end
end

-- Returns a peer that runs in a stock Lua with the module `module`; `package` is the module's Debian package.
local function module_peer(name, module, package)
  local test = ("%s -e 'require [[%s]]'"):format(quote(stock), module)
  return server(name, ("%s %s"):format(quote(stock), here("echo/peer/" .. name .. ".lua")), requirement(test, package))
end

local SERVERS <const> = {
  server("baseline", quote(process.examples .. "/echo_baseline")),
  server("lio", ("%s %s"):format(quote(process.lio), here "../examples/echo.lua")),
  server("lio selector", ("%s %s"):format(quote(process.lio), here "echo/selector.lua")),
  module_peer("luv", "luv", "lua-luv"),
  module_peer("cqueues", "cqueues.socket", "lua-cqueues"),
  module_peer("luasocket", "socket", "lua-socket"),
  server("node", "node " .. here "echo/peer/node.js", requirement("node -e 0", "nodejs")),
}

-- Returns the function `turn` of a contender, which puts a load on the server from other cores.
local function load(connections, size)
  return function(program, seconds)
    local _, cores = process.pinning()
    local user, system, seen = process.during(program, function()
      return process.figures(("%s%s %d %d %d %d"):format(
        cores, quote(process.examples .. "/echo_client"), program.port, connections, size, seconds), seconds + 15)
    end)
    local trips = seen.requests
    seen.rate = trips / seen.elapsed
    seen.cpu = (user + system) / trips * 1e6
    seen.user, seen.system = user / trips * 1e6, system / trips * 1e6
    seen.busy = (user + system) / seen.elapsed
    return seen
  end
end

-- Returns a case. The turns of a case without targets are half as long.
local function case(name, what, connections, size, targets)
  local contenders = {}
  for i, one in ipairs(SERVERS) do
    contenders[i] = { name = one.name, peer = one.peer, open = one.open, turn = load(connections, size) }
  end
  return { name = name, what = what, contenders = contenders, targets = targets, share = targets and 1 or 0.5 }
end

M.cases = {
  case("64b", "64 bytes, 64 connections", 64, 64, {
    { what = "echo of 64 bytes on the selector: CPU over the baseline's", of = "lio selector", to = "baseline",
      figure = "cpu", most = 1.05 },
    { what = "echo of 64 bytes on the selector: user", of = "lio selector", figure = "user", most = 0.8, unit = "µs" },
    { what = "echo of 64 bytes through `lio.net`: CPU over the baseline's", of = "lio", to = "baseline",
      figure = "cpu", most = 1.15 },
    { what = "echo of 64 bytes through `lio.net`: user", of = "lio", figure = "user", most = 1.5, unit = "µs" },
  }),
  case("64b1", "64 bytes, 1 connection", 1, 64),
  case("64k", "64 KiB, 64 connections", 64, 65536),
  case("64k1", "64 KiB, 1 connection", 1, 65536),
}

M.matrices = {
  { title = "CPU of the server in µs per round trip, user and system (in brackets: over the baseline's)",
    figure = "cpu", to = "baseline" },
  { title = "Of it in user space, µs", figure = "user" },
  { title = "Round trips a second", figure = "rate" },
  { title = "Latency, 50th percentile, µs", figure = "p50" },
  { title = "Latency, 99th percentile, µs", figure = "p99" },
}

M.plots = {
  { file = "net_cpu.svg", kind = "bars", figures = { "user", "system" },
    title = "CPU of the server per echo of 64 bytes", y = "µs", cases = { "64b", "64b1" } },
  { file = "net_cpu_64k.svg", kind = "bars", figures = { "user", "system" },
    title = "CPU of the server per echo of 64 KiB", y = "µs", cases = { "64k", "64k1" } },
  { file = "net_latency.svg", kind = "percentiles", title = "Echo of 64 bytes, 64 connections", y = "µs", case = "64b",
    figures = { "p50", "p90", "p99", "p999", "max" }, labels = { "50", "90", "99", "99.9", "max" } },
}

return M
