-- SIGHUP makes `app:run` read its certificates again, with one worker and with several; and `lio --watch` restarts a
-- server with TLS without refusing connections. The servers are child processes.

local t = require "tests.kit"
local http = require "lio.http.client"
local loop = require "lio.loop"
local net = require "lio.net"
local tls = require "lio.tls"
local watchkit = require "tests.kit.watched_program"

local authority = tls.authority()

-- The first loop of a process opens descriptors that stay open.
loop.run(function() end)

-- Writes a certificate with this subject, and its key, into a folder. The time of their last change stays the same, so
-- the server notices no change.
local function issue(dir, subject)
  local cert, key = authority:issue { names = { "127.0.0.1" }, subject = subject }
  t.write(dir .. "/cert.pem", cert)
  t.write(dir .. "/key.pem", key)
  assert(os.execute(("touch -d 2020-01-01 %s/cert.pem %s/key.pem"):format(t.quote(dir), t.quote(dir))))
end

-- Starts a server with `count` workers and the code `before`. Returns the child, its port, and the folder of its
-- certificate.
local function start(count, before)
  local dir = t.tmp()
  issue(dir, "first")
  t.write(dir .. "/server.lua", ([[
    local loop, web = require "lio.loop", require "lio.webserver"
    local app = web.new()
    %s
    app:get("/", function() return "served" end)
    app:run("127.0.0.1:0", { workers = %d, tls = { cert = %q, key = %q } })
  ]]):format(before or "", count, dir .. "/cert.pem", dir .. "/key.pem"))
  local child = t.spawn(t.lio() .. " " .. t.quote(dir .. "/server.lua"))
  local port = child:expect "^lio: serving https://127%.0%.0%.1:(%d+)/$"
  return child, math.tointeger(tonumber(port)), dir
end

-- Returns the subject of the certificate that a new connection gets.
local function subject(port)
  local c <close> = assert(net.connect("127.0.0.1", port, { timeout = 10, tls = { ca = authority.cert } }))
  return c:tls().peer.subject
end

-- Waits until new connections, `row` in succession, get a certificate with this subject.
local function until_subject(port, wanted, row)
  local deadline, count = loop.now() + 60, 0
  repeat
    count = subject(port) == wanted and count + 1 or 0
    if loop.now() > deadline then error("no certificate with the subject " .. wanted, 2) end
  until count == row
end

for _, count in ipairs { 1, 2 } do
  t.test(("SIGHUP makes a server with workers = %d read its certificates again"):format(count), function()
    local child <close>, port, dir = start(count)
    loop.run(function()
      local kept <close> = http.new { tls = { ca = authority.cert } }
      local url <const> = ("https://127.0.0.1:%d/"):format(port)
      t.eq(assert(kept:get(url)).body, "served")
      t.eq(subject(port), "CN=first")
      issue(dir, "second")
      t.eq(subject(port), "CN=first")
      child:kill "HUP"
      -- The system distributes connections to the workers by their addresses.
      until_subject(port, "CN=second", count == 1 and 1 or 20)
      -- The connection of before was not closed.
      t.eq(assert(kept:get(url)).body, "served")
      t.eq(kept:counts().opened, 1)
    end)
    child:kill()
    t.eq({ child:all(), child:close() }, { "", 0 })
  end)
end

-- Regression: the connections that a worker accepted for a blocked worker were not encrypted.
t.test("a worker also encrypts the connections of a blocked worker", function()
  local child <close>, port = start(2, [[
    app:get("/block", function()
      local deadline = loop.now() + 2
      while loop.now() < deadline do end
    end)
  ]])
  loop.run(function()
    local c <close> = assert(net.connect("127.0.0.1", port, { timeout = 10, tls = { ca = authority.cert } }))
    c:send "GET /block HTTP/1.1\r\nHost: x\r\n\r\n"
    for _ = 1, 20 do t.eq(subject(port), "CN=first") end
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.test("a certificate that cannot be read is logged, and the server keeps its certificates", function()
  local child <close>, port, dir = start(1)
  t.write(dir .. "/cert.pem", "no certificate")
  child:kill "HUP"
  child:expect "SIGHUP: cannot read the certificates again: .*cert%.pem': there is no certificate in PEM$"
  loop.run(function() t.eq(subject(port), "CN=first") end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.test("a program's own handler for SIGHUP replaces this", function()
  local child <close>, port, dir = start(1, [[
    loop.signal("SIGHUP", function() print "own handler" io.stdout:flush() end)
  ]])
  issue(dir, "second")
  child:kill "HUP"
  child:expect "^own handler$"
  loop.run(function() t.eq(subject(port), "CN=first") end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.test("a server without files of certificates ends on SIGHUP, as before", function()
  local dir = t.tmp()
  local cert, key = tls.self_signed()
  t.write(dir .. "/server.lua", ([[
    local app = require("lio.webserver").new()
    app:run("127.0.0.1:0", { tls = { cert = %q, key = %q } })
  ]]):format(cert, key))
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(dir .. "/server.lua"))
  child:expect "^lio: serving https://"
  child:kill "HUP"
  child:all()
  local code, signal = child:close()
  t.eq({ code, signal }, { nil, 1 })
end)

-- Returns the source of a server that responds with `text`. Its certificate is in its folder.
local function version(text, count)
  return ([[
    local dir = arg[0]:match "^.*/"
    local app = require("lio.webserver").new { grace = 10 }
    app:get("/", function() return %q end)
    app:run("127.0.0.1:0", { workers = %d, tls = { cert = dir .. "cert.pem", key = dir .. "key.pem" } })
  ]]):format(text, count)
end

for _, count in ipairs { 1, 2 } do
  t.test(("lio --watch restarts a server with TLS and workers = %d; no request fails"):format(count), function()
    local cert, key = authority:issue { names = { "127.0.0.1" } }
    local p <close> = watchkit.start {
      ["server.lua"] = version("version 1", count), ["cert.pem"] = cert, ["key.pem"] = key,
    }
    local port = math.tointeger(tonumber(p:expect "^lio: serving https://[%d.]+:(%d+)/$"))
    p:settled()
    loop.run(function()
      local client <close> = http.new { tls = { ca = authority.cert }, max_idle = 0 }
      local function ask() return assert(client:get(("https://127.0.0.1:%d/"):format(port))).body end
      t.eq(ask(), "version 1")
      p:write("server.lua", version("version 2", count))
      local deadline = loop.now() + 60
      while ask() ~= "version 2" do
        if loop.now() > deadline then error "the new version does not respond" end
      end
    end)
    t.eq((p:stop "TERM"), 0)
  end)
end

t.finish()
