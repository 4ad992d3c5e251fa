-- `lio serve DIR`: the served files, the output, the options, and the errors for invalid options. The tests always run
-- the executable `lio`, even if another host runs this suite; examples/static.lua runs in the host of the suite.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"

local lio = t.quote(t.bin()) .. " serve "
local site = t.tmp()
t.write(site .. "/index.html", "home")
assert(os.execute("mkdir " .. t.quote(site .. "/sub")))
t.write(site .. "/sub/.dot", "dot")
t.write(site .. "/sub/file.txt", "file")
local folder = t.quote(site)

-- Runs `f(get, child)` while the command serves; `get(target)` sends a request and returns its response. Then ends the
-- command with SIGTERM, and returns its exit code and the rest of its output.
local function with(command, f)
  local child <close> = t.spawn(command)
  local port = math.tointeger(tonumber((child:expect "lio: serving http://127%.0%.0%.1:(%d+)/")))
  loop.run(function()
    f(function(target)
      local c <close> = http.open(port)
      return c:request("GET", target)
    end, child)
  end)
  child:kill()
  local rest = child:all()
  return child:close(), rest
end

t.test("a folder is served on 127.0.0.1, and SIGTERM ends the server with exit code 0", function()
  local code = with(lio .. folder .. " --port 0", function(get)
    t.eq(get("/").body, "home")
    t.eq(get("/sub/file.txt").body, "file")
    t.eq({ get("/sub/").status, get("/sub/.dot").status, get("/none").status }, { 404, 404, 404 })
  end)
  t.eq(code, 0)
end)

t.test("--list lists folders, --hidden serves dot files; options may precede the folder and contain =", function()
  with(lio .. "--port=0 --list --hidden " .. folder, function(get)
    t.ok(get("/sub/").body:find("./file.txt", 1, true))
    t.eq(get("/sub/.dot").body, "dot")
  end)
end)

t.test("--log writes one line per request", function()
  local _, rest = with(lio .. folder .. " --port 0 --log", function(get) get "/sub/file.txt?x" end)
  t.ok(rest:find('"GET /sub/file.txt?x HTTP/1.1" 200 4', 1, true), rest)
end)

t.test("--addr selects the address", function()
  local child <close> = t.spawn(lio .. folder .. " --port 0 --addr 0.0.0.0")
  child:expect "lio: serving http://0%.0%.0%.0:%d+/"
end)

t.test("--workers serves with several workers", function()
  local code = with(lio .. folder .. " --port 0 --workers 2", function(get)
    for _ = 1, 8 do t.eq(get("/").body, "home") end
  end)
  t.eq(code, 0)
end)

local function fails(words, message)
  local r = t.run(lio .. words)
  t.eq({ r.code, r.out }, { 1, "" }, words)
  t.ok(r.err:find("lio serve: " .. message, 1, true) == 1, words .. ": " .. r.err)
  t.ok(not r.err:find("traceback", 1, true), r.err)
end

t.test("an invalid argument causes a one-line error message", function()
  fails("", "the folder is missing; see lio serve --help\n")
  fails("/none/such --port 0", "cannot serve '/none/such': No such file or directory\n")
  fails(folder .. "/index.html --port 0", "cannot serve '" .. site .. "/index.html': Not a directory\n")
  fails(folder .. " " .. folder, "only one folder can be served")
  fails(folder .. " --port 65536", "--port: a number from 0 to 65535 expected, got '65536'\n")
  fails(folder .. " --port -1", "--port: a number from 0 to 65535 expected, got '-1'\n")
  fails(folder .. " --port x", "--port: a number")
  fails(folder .. " --workers 0", "--workers: a number from 1 to 1024 expected, got '0'\n")
  fails(folder .. " --port", "'--port' needs a value; see lio serve --help\n")
  fails(folder .. " --frobnicate", "unknown option '--frobnicate'; see lio serve --help\n")
  fails(folder .. " --prot 1", "unknown option '--prot' (did you mean '--port'?); see lio serve --help\n")
  fails(folder .. " --list=yes", "'--list' takes no value; see lio serve --help\n")
end)

-- Sends a request over TLS. Returns the body of the response. `ca`: the certificate to trust.
local function get_encrypted(port, ca)
  return loop.run(function()
    local client <close> = require("lio.http.client").new { tls = { ca = ca } }
    return assert(client:get(("https://127.0.0.1:%d/"):format(port))).body
  end)
end

-- Returns the fingerprint of the server's certificate, as the command prints it, and its names.
local function certificate_of(port)
  return loop.run(function()
    local opts = { tls = { dangerously_skip_verification = true }, timeout = 10 }
    local info
    local log = http.logged(function()
      local c <close> = assert(net.connect("127.0.0.1", port, opts))
      info = c:tls()
    end)
    t.ok(log:find "dangerously_skip_verification", log)
    return info.peer.fingerprint:upper():gsub("%x%x", "%0:"):sub(1, -2), info.peer.names
  end)
end

for _, count in ipairs { 1, 2 } do
  t.test(("--tls serves with one certificate for development, workers = %d"):format(count), function()
    local child <close> = t.spawn(lio .. folder .. " --tls --port 0 --workers " .. count)
    local fingerprint = child:expect "^  ([%x:]+)$"
    local port = math.tointeger(tonumber((child:expect "^lio: serving https://127%.0%.0%.1:(%d+)/$")))
    for _ = 1, count == 1 and 1 or 8 do
      t.eq({ certificate_of(port) }, { fingerprint, { "localhost", "127.0.0.1", "::1" } })
    end
    child:kill()
    child:all()
    t.eq(child:close(), 0)
  end)
end

t.test("a key in the folder that is served is refused", function()
  local key = t.quote(t.write(site .. "/sub/key.pem", "x"))
  for _, words in ipairs { folder .. " --key " .. key, folder .. "/sub/.. --key " .. folder .. "/./sub/key.pem" } do
    fails(words .. " --cert x --port 0", "the key '")
    t.ok(t.run(lio .. words .. " --cert x --port 0").err:find "clients could download it: move it elsewhere\n$")
  end
  os.remove(site .. "/sub/key.pem")
end)

t.test("--cert and --key serve HTTPS with these files", function()
  local cert, key = require("lio.tls").self_signed()
  local dir = t.tmp()
  local words = (" --cert %s --key=%s --port 0"):format(
    t.quote(t.write(dir .. "/cert.pem", cert)), t.quote(t.write(dir .. "/key.pem", key)))
  local child <close> = t.spawn(lio .. folder .. words)
  local port = math.tointeger(tonumber((child:expect "^lio: serving https://127%.0%.0%.1:(%d+)/$")))
  t.eq(get_encrypted(port, cert), "home")
end)

t.test("invalid options of TLS cause a one-line error message", function()
  fails(folder .. " --cert x", "'--cert' and '--key' are needed together; see lio serve --help\n")
  fails(folder .. " --key x", "'--cert' and '--key' are needed together; see lio serve --help\n")
  fails(folder .. " --cert /none/such --key /none/such --port 0", "cert '/none/such': No such file or directory\n")
end)

t.test("the error for a port in use names the address and the port", function()
  loop.run(function()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    fails(folder .. " --port " .. port, "cannot listen on 127.0.0.1:" .. port .. ": ")
    fails(folder .. " --workers 2 --port " .. port, "cannot listen on 127.0.0.1:" .. port .. ": ")
  end)
end)

t.test("--help prints the options", function()
  local r = t.run(lio .. "--help")
  t.eq({ r.code, r.err }, { 0, "" })
  for option in ("addr port workers list hidden log tls cert key"):gmatch "%a+" do
    t.ok(r.out:find("--" .. option, 1, true), option)
  end
end)

t.test("a script named serve runs if it is given as ./serve or after --", function()
  local dir = t.tmp()
  t.write(dir .. "/serve", "print('ran')")
  for _, words in ipairs { " ./serve", " -- serve" } do
    t.eq(t.run("cd " .. t.quote(dir) .. " && " .. t.quote(t.bin()) .. words).out, "ran\n")
  end
end)

t.test("the example serves its site, lists its notes, and has a page for missing files", function()
  with(t.lio() .. " " .. t.quote(t.root .. "examples/static.lua") .. " 0", function(get)
    local r = get "/"
    t.ok(r.status == 200 and r.body:find("A small site", 1, true) and r.headers["cache-control"])
    for target in r.body:gmatch '"([%w]+%.%a+)"' do t.eq({ target, get("/" .. target).status }, { target, 200 }) end
    t.ok(get("/notes/").body:find("ranges.md", 1, true))
    r = get "/nowhere"
    t.ok(r.status == 404 and r.body:find("Not here", 1, true))
  end)
end)

t.finish()
