-- Suite `tls`: the CPU time of a request and of a handshake with TLS, compared with lio's own without TLS, and with
-- nginx; and the memory of an idle connection. wrk sends the requests; `openssl s_time` opens connections one after
-- another; tls_idle.lua keeps connections open. The certificate has an ECDSA key on the curve P-256; lio makes it when
-- the suite begins.

local process = require "harness.process"
local wrk = require "harness.wrk"

local quote = process.quote

local M = { title = "TLS", columns = { { "rate", "per second" }, { "cpu", "CPU µs" }, { "user", "user µs" } } }

local files
-- Returns the paths of the certificate and of its key. The first call makes both.
local function certificate()
  if files then return files.cert, files.key end
  local cert, key = assert(require("lio.tls").self_signed())
  files = {}
  for name, text in pairs { cert = cert, key = key } do
    files[name] = ("%s/%s.pem"):format(process.folder(), name)
    local file = assert(io.open(files[name], "wb"))
    file:write(text)
    file:close()
  end
  return files.cert, files.key
end

local function accepts(port, scheme)
  return process.succeeds(("curl -s -k -o /dev/null %s://127.0.0.1:%d/"):format(scheme, port))
end

-- Starts a server whose port is appended to `command`. Returns the program, with the fields `port` and `scheme`.
local function start(command, port, scheme)
  local program = process.start { command = command, ready = function() return accepts(port, scheme) end }
  program.port, program.scheme = port, scheme
  return program
end

local function lio(scheme)
  return function()
    local port = process.port()
    local words = { quote(process.lio), quote(process.here .. "servers/tls.lua"), tostring(port) }
    if scheme == "https" then words[4], words[5] = certificate() end
    return start(table.concat(words, " "), port, scheme)
  end
end

local function nginx()
  local binary = process.run("PATH=$PATH:/usr/sbin command -v nginx"):match "%S+"
  if not binary then return nil, "is not installed (Debian package: nginx)" end
  certificate()
  local port, folder = process.port(), process.folder()
  local text = process.text(process.here .. "peers/nginx_tls.conf"):gsub("@(%u+)@", { PORT = port, FOLDER = folder })
  local path = ("%s/nginx_tls-%d.conf"):format(folder, port)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return start(("%s -p %s -c %s -e stderr"):format(binary, folder, path), port, "https")
end

-- Returns the function `turn` of a contender that gets requests on 64 connections.
local function requests(program, seconds)
  local _, cores = process.pinning()
  return wrk.measure(program, {
    url = ("%s://127.0.0.1:%d/"):format(program.scheme, program.port),
    cores = cores, connections = 64, seconds = seconds,
  })
end

-- Returns the function `turn` of a contender that gets connections without requests. `options` are those of s_time.
local function handshakes(options)
  return function(program, seconds)
    local _, cores = process.pinning()
    local text
    local user, system = process.during(program, function()
      text = process.run(("%sopenssl s_time -connect 127.0.0.1:%d %s -time %d 2>&1"):format(
        cores, program.port, options, seconds), seconds + 15)
    end)
    local count, elapsed = text:match "(%d+) connections in (%d+) real seconds"
    count, elapsed = tonumber(count), tonumber(elapsed)
    if not count or count == 0 then error("openssl s_time: " .. text, 0) end
    return {
      rate = count / elapsed,
      cpu = (user + system) / count * 1e6, user = user / count * 1e6, system = system / count * 1e6,
    }
  end
end

-- The function `turn` of a contender whose server gets connections that are idle after one request. The growth of its
-- memory is divided by their number. `start` has made a request before, because the first handshake allocates tables.
local IDLE <const> = 5000
local function idle(program)
  local _, cores = process.pinning()
  local before = program:resident()
  local holder <close> = process.start { -- luacheck: ignore 211
    command = ("%s %stls_idle.lua %d %d"):format(quote(process.lio), quote(process.here), program.port, IDLE),
    cores = cores, seconds = 60,
    ready = function(client) return process.text(client.log):find "ready" ~= nil end,
  }
  return { resident = (program:resident() - before) / IDLE }
end

local function contender(name, open, turn, peer)
  return { name = name, open = open, turn = turn, peer = peer }
end

local full <const>, resumed <const> = handshakes "-new -tls1_3", handshakes "-reuse -tls1_2"

M.cases = {
  {
    name = "hello", what = "hello with TLS, keep-alive, 64 connections", share = 1, contenders = {
      contender("lio, plain", lio "http", requests),
      contender("lio", lio "https", requests),
      contender("nginx", nginx, requests, true),
    },
    targets = {
      { what = "hello with TLS: CPU over that without TLS", of = "lio", to = "lio, plain", figure = "cpu", most = 1.6 },
      { what = "hello with TLS: CPU over that of nginx", of = "lio", to = "nginx", figure = "cpu", most = 1 },
    },
  },
  {
    name = "handshake", what = "a full handshake of TLS 1.3", share = 1, contenders = {
      contender("lio", lio "https", full), contender("nginx", nginx, full, true),
    },
    targets = {
      { what = "full handshake: CPU over that of nginx", of = "lio", to = "nginx", figure = "cpu", most = 1 },
    },
  },
  {
    name = "resumed", what = "a resumed handshake of TLS 1.2", share = 1, contenders = {
      contender("lio", lio "https", resumed), contender("nginx", nginx, resumed, true),
    },
  },
  {
    name = "memory", what = "an idle keep-alive connection with TLS", rounds = 1, turn_seconds = 10,
    columns = { { "resident", "KiB each" } }, contenders = {
      contender("lio", lio "https", idle), contender("nginx", nginx, idle, true),
    },
    targets = {
      { what = "memory of an idle keep-alive connection with TLS", of = "lio", figure = "resident", most = 24,
        unit = "KiB" },
    },
  },
}

M.matrices = {
  { title = "CPU of the server in µs per request or handshake, user and system", figure = "cpu" },
  { title = "Of it in user space, µs", figure = "user" },
}

return M
