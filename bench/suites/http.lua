-- Suite `http`: the web server, compared with a minimal baseline and with other servers; wrk sends the requests.
-- servers/catalog.lua lists the servers. A case is one kind of request under one load.

local catalog = require "servers.catalog"
local http = require "lio.http.client"
local loop = require "lio.loop"
local process = require "harness.process"
local wrk = require "harness.wrk"

local IDLE <const> = 10000
-- The slowest server is excluded from some cases, because measuring it takes a long time.
local SLOWEST <const> = { ["lua-http"] = true }

-- Sends one request of the kind `kind`. Returns true if the response is as expected; otherwise false and the reason.
local function check(port, kind)
  local client = http.new { max_idle = 0, timeout = 5 }
  local want, problem = catalog.kinds[kind], nil
  loop.run(function()
    local body = want.body and ("x"):rep(want.body)
    local res, message = client:request {
      url = ("http://127.0.0.1:%d%s"):format(port, want.path), method = body and "POST" or "GET", body = body,
    }
    local text = res and res:text()
    if not text then
      problem = message or "no body"
    else
      local got = res.headers["content-type"] or "no type"
      if res.status ~= 200 or #text ~= want.length or not got:find(want.type, 1, true) then
        problem = ("responds with %d, %d bytes of %s"):format(res.status, #text, got)
      end
    end
    client:close()
  end)
  return not problem, problem
end

-- Starts a server on a free port, and sends requests until it responds. Returns the program, with the field `port`.
local function start(server, kind, mode, workers)
  local port = process.port()
  local problem
  local cores = process.pinning(workers)
  local ok, program = pcall(process.start, {
    command = server.command(port, mode or kind, workers), cores = cores,
    ready = function()
      local up
      up, problem = check(port, kind)
      return up
    end,
  })
  if not ok then error(("%s\n%s"):format(program, problem or ""), 0) end
  program.port = port
  return program
end

-- Returns a server as a contender of a case. The server runs during the whole case.
local function contender(server, case)
  local load = case.load
  return {
    name = case.as or server.name, series = case.as and server.name, peer = server.peer,
    open = function()
      local missing = server.missing()
      if missing then return nil, missing end
      return start(server, case.kind, load.close and "close", case.workers)
    end,
    turn = function(program, seconds)
      local _, client = process.pinning(case.cores or case.workers)
      return wrk.measure(program, {
        url = ("http://127.0.0.1:%d%s"):format(program.port, catalog.kinds[case.kind].path), cores = client,
        connections = load.connections, pipeline = load.pipeline, close = load.close,
        body = catalog.kinds[case.kind].body, seconds = seconds,
      })
    end,
  }
end

-- Returns a case of all servers that support `kind`, except the servers in `more.without`.
local function case(name, what, kind, load, more)
  local one = { name = name, what = what, kind = kind, load = load, share = 0.5, contenders = {} }
  for key, value in pairs(more or {}) do one[key] = value end
  for _, server in ipairs(catalog.servers) do
    if server.kinds[kind] and not (one.without or {})[server.name] then
      table.insert(one.contenders, contender(server, one))
    end
  end
  return one
end

-- Returns the case of the JSON route, which also measures lio's hello case in the same rounds.
local function json_case()
  local one = case("json", "JSON, two parameters", "json", { connections = 64 })
  table.insert(one.contenders, 3, contender(catalog.servers[2], {
    as = "lio, hello", kind = "hello", load = one.load,
  }))
  one.targets = {
    { what = "JSON, two parameters: CPU over hello's", of = "lio", to = "lio, hello", figure = "cpu", most = 1.35 },
  }
  return one
end

-- -----------------------------------------------------------------------------------------------------------
-- Cases that measure only lio

-- Returns a case that compares two handlers of a hello request: one without parameters, and one that takes the request
-- and the response.
local function request_case()
  local load = { connections = 64 }
  local function by(name, server, kind)
    return contender(server, { as = name, kind = kind, load = load })
  end
  return {
    name = "request", what = "hello, 64 connections, by what the handler takes", share = 0.5, contenders = {
      by("the baseline", catalog.servers[1], "hello"),
      by("function()", catalog.servers[2], "hello"),
      by("function(req, res)", catalog.servers[2], "request"),
    },
  }
end

-- Returns a case that compares one worker with two workers, each of which has its own core. If there are enough cores,
-- the client uses other cores.
local function workers_case()
  local one = {
    name = "workers2", what = "hello, 64 connections, by workers", share = 0.5, contenders = {},
  }
  local _, _, shared = process.pinning(2)
  for count = 1, 2 do
    one.contenders[count] = contender(catalog.servers[2], {
      as = count == 1 and "1 worker" or "2 workers", kind = "hello", load = { connections = 64 }, workers = count,
      cores = 2,
    })
  end
  one.targets = {
    { what = "2 workers: CPU over that of 1", of = "2 workers", to = "1 worker", figure = "cpu", most = 1.1 },
  }
  -- If the client and the servers share cores, the client limits the throughput.
  if shared then
    one.note = "client and server share cores on this machine, so compare CPU, not throughput"
  else
    table.insert(one.targets, {
      what = "2 workers: throughput over that of 1", of = "2 workers", to = "1 worker", figure = "rate", least = 1.9,
    })
  end
  return one
end

-- Opens `count` connections to a server, and makes one request on each. Returns the program that keeps the connections
-- open.
local function hold(port, count)
  local _, client = process.pinning()
  return process.start {
    command = ("%s/idle 127.0.0.1:%d %d --send-first"):format(process.quote(process.examples), port, count),
    cores = client,
    seconds = 60, ready = function(program) return process.text(program.log):find "ready" ~= nil end,
  }
end

-- Returns a contender: a server that has `idle` idle connections in addition to the 64 busy connections.
local function beside(server, idle)
  local plain = contender(server, { kind = "hello", load = { connections = 64 } })
  return {
    name = ("%s beside %d"):format(server.name, idle), series = server.name, x = idle,
    open = function()
      local program, why = plain.open()
      if not program or idle == 0 then return program, why end
      local holder = hold(program.port, idle)
      return setmetatable({ program = program }, { __index = {
        close = function()
          holder:close()
          program:close()
        end,
      } })
    end,
    turn = function(state, seconds) return plain.turn(state.program or state, seconds) end,
  }
end

local function idle_case()
  local one = { name = "idle", what = "hello, 64 connections, beside idle ones", share = 0.5, contenders = {} }
  for _, server in ipairs { catalog.servers[1], catalog.servers[2] } do
    for _, idle in ipairs { 0, 1000, IDLE } do table.insert(one.contenders, beside(server, idle)) end
  end
  one.targets = {
    { what = "64 busy beside 10,000 idle: CPU per request over that of 64 alone", of = "lio beside 10000",
      to = "lio beside 0", figure = "cpu", most = 1.1 },
  }
  return one
end

-- Returns the case that measures the memory of an idle keep-alive connection. A new server gets 10,000 connections, and
-- the growth of its memory is divided by their number.
local function memory_case()
  local one = {
    name = "memory", what = "an idle keep-alive connection", rounds = 1, turn_seconds = 3, contenders = {},
    columns = { { "resident", "KiB each" } },
    targets = {
      { what = "memory of an idle keep-alive connection", of = "lio", figure = "resident", most = 6, unit = "KiB" },
    },
  }
  for _, server in ipairs(catalog.servers) do
    table.insert(one.contenders, {
      name = server.name, peer = server.peer,
      open = function()
        local missing = server.missing()
        if missing then return nil, missing end
        return {}
      end,
      turn = function()
        local program <close> = start(server, "hello")
        local before = program:resident()
        local holder <close> = hold(program.port, IDLE) -- luacheck: ignore 211
        return { resident = (program:resident() - before) / IDLE }
      end,
    })
  end
  return one
end

-- -----------------------------------------------------------------------------------------------------------
-- The suite

-- Returns a target for the ratio of lio's CPU time per request to the baseline's.
local function of_baseline(what, most)
  return { what = what .. ": CPU over the baseline's", of = "lio", to = "baseline", figure = "cpu", most = most }
end

local M = {
  title = "Web server",
  columns = {
    { "cpu", "CPU µs" }, { "user", "user µs" }, { "rate", "requests/s" }, { "p99", "p99 ms" }, { "max", "max ms" },
  },
  matrices = {
    { title = "CPU of the server in µs per request, user and system (in brackets: over the baseline's)", figure = "cpu",
      to = "baseline" },
    { title = "Of it in user space, µs", figure = "user" },
    { title = "Requests a second", figure = "rate" },
    { title = "Latency, 50th percentile, ms", figure = "p50" },
    { title = "Latency, 99th percentile, ms", figure = "p99" },
    { title = "Latency, longest, ms", figure = "max" },
    { title = "Memory, KiB", figure = "resident" },
  },
}

M.needs = wrk.missing

function M.versions()
  local commands = { wrk = "wrk -v 2>&1" }
  for _, server in ipairs(catalog.servers) do
    if server.version and not server.missing() then commands[server.name] = server.version() end
  end
  return commands
end

M.cases = {
  case("hello1", "hello, keep-alive, 1 connection", "hello", { connections = 1 }, { x = 1, without = SLOWEST }),
  case("hello64", "hello, keep-alive, 64 connections", "hello", { connections = 64 }, {
    x = 64, share = 0.75, targets = {
      of_baseline("hello, 64 connections", 1.15),
      { what = "hello, 64 connections: user", of = "lio", figure = "user", most = 1.6, unit = "µs" },
      { what = "hello, 64 connections: p99 over that of nginx with Lua", of = "lio", to = "nginx Lua", figure = "p99",
        most = 1 },
    },
  }),
  case("hello1000", "hello, keep-alive, 1,000 connections", "hello", { connections = 1000 }, { x = 1000, targets = {
    of_baseline("hello, 1,000 connections", 1.2),
  } }),
  case("hello10000", "hello, keep-alive, 10,000 connections", "hello", { connections = 10000 }, {
    x = 10000, share = 1, least_seconds = 4, beyond = 1.5, without = SLOWEST, targets = {
      { what = "hello, 10,000 connections: longest request", of = "lio", figure = "max", most = 1000, unit = "ms" },
    },
  }),
  case("pipelined16", "hello, 16 pipelined, 64 connections", "hello", { connections = 64, pipeline = 16 }, {
    without = SLOWEST, targets = { of_baseline("pipelined 16", 2) },
  }),
  case("close", "hello, a connection for each request", "hello", { connections = 64, close = true }, { targets = {
    of_baseline("a connection for each request", 1),
  } }),
  case("echo1k", "POST, 1 KiB sent back", "echo", { connections = 64 }, { targets = {
    of_baseline("POST of 1 KiB", 1.2),
  } }),
  case("large", "100 KiB from Lua", "large", { connections = 64 }, { targets = {
    of_baseline("100 KiB from Lua", 1),
  } }),
  json_case(),
  case("small_file", "static file, 1 KiB", "small_file", { connections = 64 }),
  case("large_file", "static file, 1 MiB", "large_file", { connections = 64 }),
  case("stream", "8 chunks of 128 bytes", "stream", { connections = 64 }),
  request_case(),
  workers_case(),
  idle_case(),
  memory_case(),
}

M.plots = {
  { file = "http_throughput.svg", kind = "lines", figure = "rate", title = "Hello, keep-alive", x = "connections",
    y = "requests per second", logarithmic = true, cases = { "hello1", "hello64", "hello1000", "hello10000" } },
  { file = "http_cpu.svg", kind = "bars", figures = { "user", "system" }, title = "CPU of the server per request",
    y = "µs", scale = "lio", cases = { "hello64", "hello1000", "echo1k", "json", "stream" } },
  { file = "http_latency.svg", kind = "percentiles", title = "Latency, 64 connections", y = "ms", case = "hello64",
    figures = { "p50", "p75", "p90", "p99", "p999" }, labels = { "50", "75", "90", "99", "99.9" } },
  { file = "http_idle.svg", kind = "series", figure = "cpu", title = "64 busy connections beside idle ones",
    x = "idle connections", y = "CPU µs per request", case = "idle" },
}

return M
