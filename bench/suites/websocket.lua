-- Suite `websocket`: the CPU time of an echo, and of a message to many connections, and the memory of idle connections.
-- Echoes are compared with a baseline of raw epoll (bench/websocket/baseline.rs) and with the npm package ws on
-- Node.js. The clients are bench/websocket/client.rs and bench/websocket/audience.lua.

local process = require "harness.process"

local quote = process.quote

local M = { title = "WebSocket", columns = { { "rate", "messages/s" }, { "cpu", "CPU µs" }, { "user", "user µs" } } }

-- The number of connections that get a message, and of idle connections with and without TLS.
local AUDIENCE <const>, IDLE <const>, IDLE_TLS <const> = 10000, 10000, 5000

local function here(path) return quote(process.here .. path) end

-- Starts a server that prints a line when it is ready. Its port is appended to `command`, and then `more`.
local function start(command, more)
  local port = process.port()
  local program = process.start {
    command = ("%s %d %s"):format(command, port, more or ""),
    ready = function(program) return process.text(program.log):find "listening on" ~= nil end,
  }
  program.port = port
  return program
end

-- Returns the function `open` of a contender that runs bench/servers/websocket.lua.
local function lio(form)
  return function() return start(quote(process.lio) .. " " .. here "servers/websocket.lua", form) end
end

local function baseline() return start(quote(process.examples .. "/websocket_baseline")) end

-- Returns the function `open` of a contender that runs a program on Node.js.
local function node(file)
  return function()
    if not process.succeeds "node -e 'require(`ws`)'" then
      return nil, "is not installed (npm package: ws; NODE_PATH must lead to it)"
    end
    return start("node " .. here("websocket/peer/" .. file))
  end
end

-- Returns the figures of a turn in which `count` messages were handled.
local function figures(seen, count, user, system)
  seen.rate = count / seen.elapsed
  seen.cpu = (user + system) / count * 1e6
  seen.user, seen.system = user / count * 1e6, system / count * 1e6
  return seen
end

-- Returns the function `turn` of a contender that echoes messages.
local function echoes(connections, size)
  return function(program, seconds)
    local _, cores = process.pinning()
    local user, system, seen = process.during(program, function()
      return process.figures(("%s%s %d %d %d %d"):format(
        cores, quote(process.examples .. "/websocket_client"), program.port, connections, size, seconds), seconds + 15)
    end)
    return figures(seen, seen.requests, user, system)
  end
end

-- Opens `count` connections to a server. Returns the program that keeps them open.
local function audience(scheme, port, count, seconds)
  local _, cores = process.pinning()
  return process.start {
    command = ("%s %s %s://127.0.0.1:%d/ %d %d"):format(
      quote(process.lio), here "websocket/audience.lua", scheme, port, count, seconds),
    cores = cores, seconds = 60,
    ready = function(program) return process.text(program.log):find "ready" ~= nil end,
  }
end

-- The function `turn` of a contender that sends a message to many connections.
local function broadcasts(program, seconds)
  local holder <close> = audience("ws", program.port, AUDIENCE, seconds)
  local user, system, seen = process.during(program, function()
    process.run("kill -USR1 " .. holder.pid)
    for _ = 1, (seconds + 15) * 50 do
      local requests, elapsed = process.text(holder.log):match "requests\t(%d+)\nelapsed\t([%d.]+)\n"
      if requests then return { requests = tonumber(requests), elapsed = tonumber(elapsed) } end
      process.sleep(0.02)
    end
    error("no results: " .. process.text(holder.log), 0)
  end)
  return figures(seen, seen.requests, user, system)
end

local function contender(name, open, turn, peer)
  return { name = name, open = open, turn = turn, peer = peer }
end

local function echo_contenders(turn)
  return {
    contender("baseline", baseline, turn),
    contender("lio", lio "function", turn),
    contender("lio callbacks", lio "callbacks", turn),
    contender("Node ws", node "node.js", turn, true),
  }
end

-- Memory ------------------------------------------------------------------------------------------------

local files
-- Returns the paths of a certificate and of its key.
local function certificate()
  if files then return files.cert, files.key end
  local cert, key = assert(require("lio.tls").self_signed())
  files = {}
  for name, text in pairs { cert = cert, key = key } do
    files[name] = ("%s/ws_%s.pem"):format(process.folder(), name)
    local file <close> = assert(io.open(files[name], "wb"))
    file:write(text)
  end
  return files.cert, files.key
end

-- Returns a contender: a new server gets idle connections, and the growth of its memory is divided by their number.
local function idle(name, form, scheme)
  local count = scheme == "wss" and IDLE_TLS or IDLE
  return {
    name = name,
    open = function() return {} end,
    turn = function()
      if scheme == "wss" then form = ("%s %s %s"):format(form, certificate()) end
      local program <close> = lio(form)()
      local before = program:resident()
      local holder <close> = audience(scheme, program.port, count, 1) -- luacheck: ignore 211
      return { resident = (program:resident() - before) / count }
    end,
  }
end

M.cases = {
  {
    name = "echo", what = "echo of 64 bytes, 64 connections", share = 1, contenders = echo_contenders(echoes(64, 64)),
    targets = {
      { what = "echo of 64 bytes: CPU over the baseline's", of = "lio", to = "baseline", figure = "cpu", most = 1.2 },
      { what = "echo of 64 bytes, Node ws: CPU in user space over lio's", of = "Node ws", to = "lio", figure = "user",
        least = 4 },
    },
  },
  {
    name = "echo16k", what = "echo of 16 KiB, 64 connections", share = 0.5,
    contenders = echo_contenders(echoes(64, 16384)),
  },
  {
    name = "broadcast", what = ("1 KiB to %d connections, per recipient"):format(AUDIENCE), share = 1,
    contenders = {
      contender("lio callbacks", lio "topic", broadcasts),
      contender("Node ws", node "node_topic.js", broadcasts, true),
    },
  },
  {
    name = "memory", what = "an idle connection", rounds = 1, turn_seconds = 3,
    columns = { { "resident", "KiB each" } },
    contenders = {
      idle("lio callbacks", "callbacks", "ws"), idle("lio", "function", "ws"),
      idle("lio callbacks, TLS", "callbacks", "wss"), idle("lio, TLS", "function", "wss"),
    },
    targets = {
      { what = "memory of an idle ws connection", of = "lio callbacks", figure = "resident", most = 3, unit = "KiB" },
      { what = "memory of an idle wss connection", of = "lio, TLS", figure = "resident", most = 24, unit = "KiB" },
    },
  },
}

M.matrices = {
  { title = "CPU of the server in µs per message, user and system", figure = "cpu" },
  { title = "Of it in user space, µs", figure = "user" },
}

return M
