-- The programs of examples/ltask do what their first lines describe, the code of docs/ltask.md does what its comments
-- describe, and `lio --service` runs the programs of examples/, which have their own loops, unchanged. In both hosts,
-- the executable runs the programs that need it.

local t = require "tests.kit"
local childkit = require "tests.kit.server_process"
local kit = require "tests.kit.ltask_system"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"

local connect, stop = childkit.connect, childkit.stop

-- Runs an example in the host of this suite, with `/` as the current folder.
local function run(path, argument)
  return t.run(("cd / && timeout -k 1 60 %s %s %s"):format(
    kit.host(), t.quote(t.root .. "examples/" .. path), argument or ""))
end

t.test("minimal prints the output of the original program, and ends", function()
  local r = run "ltask/minimal/main.lua"
  t.eq(r, {
    out = "ltask Start\nservice0\nservice1\nservice2\nservice3\nservice4\nservice5\n", err = "", code = 0,
  })
end)

t.test("pingpong prints the number of its calls, and ends", function()
  local r = run("ltask/pingpong/main.lua", 500)
  t.eq({ r.err, r.code }, { "", 0 })
  t.ok(r.out:find "%(3 ping%) 500 times pong, %d+ a second\n$", r.out)
end)

-- ---------------------------------------------------------------------------------------------
-- lio --service

-- Starts `lio --service examples/NAME.lua 0 …`. Returns the child, and the port that the system has chosen. If SIGTERM
-- does not end the child within 5 seconds, it is killed.
local function start(name, ...)
  -- Without --foreground, `timeout` would signal the process and then its group, so each signal would arrive twice.
  local path = t.quote(t.root .. "examples/" .. name .. ".lua")
  local words = { "timeout --foreground -k 5 60", t.quote(t.bin()), "--service", path, "0", ... }
  return childkit.start(table.concat(words, " "))
end

t.test("the handlers of web call services, which work while the server continues", function()
  local child <close>, port = start "ltask/web/main"
  loop.run(function()
    local seen, done = {}, 0
    for i = 1, 8 do
      loop.fork(function()
        local c <close> = http.open(port)
        local r = json.decode(c:request("GET", "/primes/" .. 1000 * i).body)
        t.eq(r.limit, 1000 * i)
        seen[i] = r
        done = done + 1
        if done == 8 then loop.wakeup "done" end
      end)
    end
    loop.wait "done"
    t.eq({ seen[1].count, seen[8].count }, { 168, 1007 })
    local services = {}
    for _, r in ipairs(seen) do services[r.service] = true end
    local count = 0
    for _ in pairs(services) do count = count + 1 end
    t.eq(count, 4, "all services have worked")

    local c <close> = http.open(port)
    t.eq(c:request("GET", "/primes/many").status, 400)
    local labels = {}
    for _, figures in ipairs(json.decode(c:request("GET", "/stat").body)) do
      labels[figures.label] = (labels[figures.label] or 0) + 1
    end
    t.eq(labels, { root = 1, logger = 1, ["main.lua"] = 1, primes = 4 })
  end)
  t.eq(stop(child), 0, "the services end with the server")
end)

t.test("hello runs unchanged, and SIGTERM ends it", function()
  local child <close>, port = start "hello"
  loop.run(function()
    local c <close> = http.open(port)
    t.eq(c:request("GET", "/").body, "Hello, World!\n")
    t.eq(c:request("GET", "/users/7").body, '{"id":"7"}')
  end)
  t.eq(stop(child), 0)
end)

t.test("echo runs unchanged, and SIGTERM ends it while clients are connected", function()
  local child <close>, port = start "echo"
  loop.run(function()
    local clients = {}
    for i = 1, 20 do clients[i] = connect(port) end
    for i, c in ipairs(clients) do c:send("line ", tostring(i), "\n") end
    for i, c in ipairs(clients) do t.eq(c:recv "line", "line " .. i) end
    local large = ("0123456789abcdef"):rep(65536)
    loop.fork(function()
      clients[1]:send(large)
      clients[1]:shutdown "w"
    end)
    t.ok(clients[1]:recv "all" == large)
    t.eq(stop(child), 0)
    for _, c in ipairs(clients) do c:close() end
  end)
end)

t.test("chat runs unchanged, and SIGTERM ends it", function()
  local child <close>, port = start "chat"
  loop.run(function()
    local function join(name)
      local c = connect(port)
      t.eq(c:recv "line", "Your name?")
      c:send(name, "\n")
      return c
    end
    local ann <close> = join "ann"
    local bob <close> = join "bob"
    t.eq(ann:recv "line", "bob is here")
    ann:send "hi\n"
    t.eq(bob:recv "line", "ann: hi")
    t.eq(stop(child), 0)
  end)
end)

t.test("proxy runs unchanged, and SIGTERM ends it", function()
  loop.run(function()
    local listener = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local child <close>, at = start("proxy", "127.0.0.1", tostring(port))
    local client <close> = connect(at)
    local upstream <close> = assert(listener:accept())
    upstream:timeout(10, 10)
    client:send "question\n"
    t.eq(upstream:recv "line", "question")
    upstream:send "answer\n"
    upstream:shutdown "w"
    t.eq(client:recv "all", "answer\n")
    listener:close()
    t.eq(stop(child), 0)
  end)
end)

t.test("udp_echo runs unchanged, and SIGTERM ends it", function()
  local child <close>, port = start "udp_echo"
  loop.run(function()
    local u <close> = assert(net.udp("127.0.0.1", 0))
    assert(net.sendto(u, "one", "127.0.0.1", port))
    t.eq({ net.recvfrom(u) }, { "one", "127.0.0.1", port })
  end)
  t.eq(stop(child), 0)
end)

t.test("http_client_raw runs unchanged, and ends without a signal", function()
  local child <close>, port = start "hello"
  local r = t.run(("timeout -k 1 60 %s --service %s http://127.0.0.1:%d/users/7"):format(
    t.quote(t.bin()), t.quote(t.root .. "examples/http_client_raw.lua"), port))
  t.eq({ r.code, r.err }, { 0, "" })
  t.eq(r.out:match "^[^\r\n]+", "HTTP/1.1 200 OK")
  t.eq(r.out:match '\n\r?\n(.*)$', '{"id":"7"}')
  t.eq(stop(child), 0)
end)

-- ---------------------------------------------------------------------------------------------
-- docs/ltask.md

-- Returns the Lua code blocks of a page: a table of the blocks whose first line is the name of a file, by this name,
-- and a list of the other blocks.
local function blocks(path)
  local file <close> = assert(io.open(t.root .. path))
  local files, others = {}, {}
  for text in file:read("a"):gmatch "\n```lua\n(.-\n)```" do
    local name = text:match "^%-%- ([%w]+)%.lua\n"
    if name then files[name] = text else others[#others + 1] = text end
  end
  return files, others
end

-- Returns the lines of output that the comments `--> …` in `text` describe.
local function promised(text)
  local lines = {}
  for line in text:gmatch "%-%-> ([^\n]*)" do lines[#lines + 1] = line end
  return lines
end

-- Returns the lines of `out` without the prefixes of the log.
local function said(out)
  local lines = {}
  for _, line in ipairs(kit.lines(out)) do lines[#lines + 1] = line:gsub("^%[.-%]%[INFO%]%b() ", "") end
  return lines
end

t.test("the manual's system in ten lines prints the output that the manual shows", function()
  local files = blocks "docs/ltask.md"
  local dir = t.tmp()
  for name, text in pairs(files) do t.write(("%s/%s.lua"):format(dir, name), text) end
  local r = t.run(("cd %s && timeout -k 1 60 %s main.lua"):format(t.quote(dir), kit.host()))
  t.eq({ r.err, r.code }, { "", 0 })
  t.eq(said(r.out), promised(files.hello))
end)

t.test("the manual's code prints the output that its comments show", function()
  local files, others = blocks "docs/ltask.md"
  t.ok(#others > 5)
  for _, text in ipairs(others) do
    local out, err, code = kit.system { services = { greeter = files.greeter }, main = text }
    t.eq({ err, code }, { "", 0 }, text)
    t.eq(said(out), promised(text), text)
  end
end)

t.finish()
