-- The programs of examples/tls run as child processes in the host of this suite, and do what their first lines
-- describe.

local t = require "tests.kit"
local childkit = require "tests.kit.server_process"
local http = require "lio.http.client"
local loop = require "lio.loop"
local net = require "lio.net"
local tls = require "lio.tls"

local cert, key = tls.self_signed { names = { "127.0.0.1" } }
local folder = t.tmp()
local files = t.quote(t.write(folder .. "/cert.pem", cert)) .. " " .. t.quote(t.write(folder .. "/key.pem", key))

-- The first loop of a process opens descriptors that stay open.
loop.run(function() end)

local function start(name, words)
  local path = t.quote(t.root .. "examples/tls/" .. name .. ".lua")
  return childkit.start(("%s %s 0 %s"):format(t.lio(), path, words or ""))
end

t.test("hello serves HTTPS with a certificate from files", function()
  local child <close>, port = start("hello", files)
  loop.run(function()
    local client <close> = http.new { tls = { ca = cert } }
    local r = assert(client:get(("https://127.0.0.1:%d/"):format(port)))
    t.ok(r.body:find "^Hello over TLS 1%.3, TLS_[%u%d_]+\n$", r.body)
    t.eq(r.headers["strict-transport-security"], "max-age=31536000")
  end)
  t.eq(childkit.stop(child), 0)
end)

t.test("hello makes a certificate if it gets none", function()
  local child <close>, port = start "hello"
  loop.run(function()
    local client <close> = http.new { tls = { ca = cert } }
    local r, _, code = client:get(("https://127.0.0.1:%d/"):format(port))
    t.eq({ r, code }, { nil, "tls" })
  end)
  t.eq(childkit.stop(child), 0)
end)

t.test("echo sends received data back to many clients at the same time", function()
  local child <close>, port = start("echo", files)
  loop.run(function()
    local opts <const> = { timeout = 30, tls = assert(tls.client { ca = cert }) }
    local clients = {}
    for i = 1, 20 do
      clients[i] = assert(net.connect("127.0.0.1", port, opts))
      clients[i]:timeout(10, 10)
    end
    for i, c in ipairs(clients) do c:send("line ", i, "\n") end
    for i, c in ipairs(clients) do t.eq(c:recv "line", "line " .. i) end
    local large = ("0123456789abcdef"):rep(65536)
    loop.fork(clients[1].send, clients[1], large)
    t.ok(clients[1]:recv(#large) == large)
    for _, c in ipairs(clients) do c:close() end
  end)
  t.eq(childkit.stop(child), 0)
end)

t.test("two services know each other by their certificates", function()
  local path = t.quote(t.root .. "examples/tls/mutual/main.lua")
  local r = t.run(("timeout -k 1 60 %s --service %s"):format(t.quote(t.bin()), path))
  t.eq({ r.err, r.code }, { "", 0 })
  local lines = {}
  for line in r.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
  t.eq({ table.unpack(lines, 1, 3) }, {
    "shop books\t201\t1", "auditor reads\t200\t10 apples", "auditor books\t403\tCN=auditor may not do this",
  })
  t.ok(lines[4]:find "^stranger reads\tnil\t.*certificate.*\ttls$", lines[4])
  t.eq(#lines, 4)
end)

t.finish()
