-- `lio cert`: the files that it writes, their modes, and the errors for invalid arguments. Both hosts run these tests
-- on the same executable.

local t = require "tests.kit"
local loop = require "lio.loop"
local net = require "lio.net"

local lio = t.quote(t.bin()) .. " cert "

-- The first loop of a process opens descriptors that stay open.
loop.run(function() end)

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- Runs the command with `--out DIR`. Returns its output.
local function create(dir, words)
  local r = t.run(lio .. "--out " .. t.quote(dir) .. " " .. (words or ""))
  t.eq({ r.code, r.err }, { 0, "" })
  return r.out
end

-- Serves with the files of a folder, and connects as `name`, trusting the file `trusted`. Returns the description of
-- the connection; or nil and the message.
local function connect(dir, trusted, name)
  return loop.run(function()
    local listener <close> = assert(net.listen("127.0.0.1", 0, {
      tls = { cert = dir .. "/cert.pem", key = dir .. "/key.pem" },
    }))
    loop.fork(listener.accept, listener)
    local _, port = listener:address()
    local c <close>, message = net.connect("127.0.0.1", port, {
      timeout = 10, tls = { ca = dir .. "/" .. trusted, server_name = name },
    })
    if not c then return nil, message end
    return c:tls()
  end)
end

local function modes(dir)
  return t.run(("cd %s && stat -c '%%a %%n' *"):format(t.quote(dir))).out
end

t.test("the certificate is for localhost, and only the user can read the key", function()
  local dir = t.tmp()
  local out = create(dir)
  t.eq(modes(dir), "644 cert.pem\n600 key.pem\n")
  local info = assert(connect(dir, "cert.pem", "localhost"))
  t.eq(info.peer.names, { "localhost", "127.0.0.1", "::1" })
  t.eq(info.peer.not_after - info.peer.not_before, 365 * 86400)
  local shown = out:match "SHA%-256 fingerprint of cert%.pem: ([%x:]+)\n"
  t.eq(shown:gsub(":", ""):lower(), info.peer.fingerprint)
  t.ok(out:find("curl --cacert '" .. dir .. "/cert.pem' https://localhost:8443/\n", 1, true), out)
end)

t.test("a folder that does not exist is created, and only the user can read it", function()
  local dir = t.tmp() .. "/-new folder"
  create(dir)
  t.eq(t.run("stat -c %a " .. t.quote(dir)).out, "700\n")
  t.eq(modes(dir), "644 cert.pem\n600 key.pem\n")
end)

t.test("names and days can be chosen", function()
  local dir = t.tmp()
  create(dir, "a.example '*.b.example' 192.0.2.1 2001:db8::1 --days 3")
  local info = assert(connect(dir, "cert.pem", "x.b.example"))
  t.eq(info.peer.names, { "a.example", "*.b.example", "192.0.2.1", "2001:db8::1" })
  t.eq({ info.peer.subject, info.peer.not_after - info.peer.not_before }, { "CN=a.example", 3 * 86400 })
end)

t.test("with --authority, clients trust the authority", function()
  local dir = t.tmp()
  local out = create(dir, "--authority a.example")
  t.eq(modes(dir), "644 authority.pem\n644 cert.pem\n600 key.pem\n")
  local info = assert(connect(dir, "authority.pem", "a.example"))
  t.eq({ info.peer.subject, info.peer.issuer }, { "CN=a.example", "CN=lio development authority" })
  t.ok(out:find("--cacert '" .. dir .. "/authority.pem' https://a.example:8443/", 1, true), out)
  local other = t.tmp()
  create(other, "--authority a.example")
  t.write(dir .. "/authority.pem", read(other .. "/authority.pem"))
  t.ok(not connect(dir, "authority.pem", "a.example"), "another authority is not trusted")
end)

local function fails(words, message)
  local r = t.run(lio .. words)
  t.eq(r, { out = "", err = "lio cert: " .. message .. "\n", code = 1 }, words)
end

t.test("an existing file is replaced only with --force, and then it is not readable for others", function()
  local dir = t.tmp()
  t.write(dir .. "/key.pem", "an old key")
  fails("--out " .. t.quote(dir), dir .. "/key.pem exists; --force replaces it")
  t.eq({ read(dir .. "/key.pem"), modes(dir) }, { "an old key", "644 key.pem\n" })
  create(dir, "--force")
  t.eq(modes(dir), "644 cert.pem\n600 key.pem\n")
  t.ok(connect(dir, "cert.pem", "localhost"))
end)

t.test("--force replaces a link, not the file to which it leads", function()
  local dir = t.tmp()
  t.write(dir .. "/other", "other")
  assert(os.execute(("ln -s other %s/key.pem"):format(t.quote(dir))))
  create(dir, "--force")
  t.eq(read(dir .. "/other"), "other")
  t.ok(read(dir .. "/key.pem"):find "PRIVATE KEY")
end)

t.test("an invalid argument causes a one-line error message", function()
  fails("--out /none/such", "cannot write to /none/such: No such file or directory (os error 2)")
  for _, days in ipairs { "0", "36501", "x", "-1", "1.5" } do
    fails("--days " .. days, ("--days: a number from 1 to 36500 expected, got '%s'"):format(days))
  end
  fails("--authority --days 366", "--days: a number from 1 to 365 (with --authority) expected, got '366'")
  for _, name in ipairs { "a/b", "a b", "https://a.example", "*", "", "a..*", ":::g" } do
    fails(t.quote(name), ("'%s' is no host name and no IP address; see lio cert --help"):format(name))
  end
  fails("--day 3", "unknown option '--day' (did you mean '--days'?); see lio cert --help")
  fails("--out", "'--out' needs a value; see lio cert --help")
end)

t.finish()
