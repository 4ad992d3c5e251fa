-- Each example runs as a child process in the host of this suite, and does what its first lines describe.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local childkit = require "tests.kit.server_process"
local loop = require "lio.loop"
local net = require "lio.net"

local connect, stop = childkit.connect, childkit.stop

-- Starts an example on a port that the system chooses. Returns the child and the port.
local function start(name, ...)
  local words = { t.lio(), t.quote(t.root .. "examples/" .. name .. ".lua"), "0", ... }
  return childkit.start(table.concat(words, " "))
end

t.test("hello serves text and JSON", function()
  local child <close>, port = start "hello"
  loop.run(function()
    local c <close> = http.open(port)
    t.eq(c:request("GET", "/").body, "Hello, World!\n")
    local r = c:request("GET", "/users/7")
    t.eq({ r.headers["content-type"], r.body }, { "application/json", '{"id":"7"}' })
  end)
  t.eq(stop(child), 0)
end)

t.test("hello reports a port that is not a number, and does not serve", function()
  local r = t.run(("timeout -k 1 60 %s %s nonsense"):format(t.lio(), t.quote(t.root .. "examples/hello.lua")))
  t.eq({ r.out, r.code }, { "", 1 })
  t.ok(r.err:find "the port must be a number", r.err)
end)

t.test("echo sends received data back to many clients at the same time", function()
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
    for _, c in ipairs(clients) do c:close() end
  end)
  t.eq(stop(child), 0)
end)

t.test("echo ends at once even if clients are connected", function()
  local child <close>, port = start "echo"
  loop.run(function()
    local c <close> = connect(port)
    c:send "x"
    t.eq(c:recv(), "x")
    local began = loop.now()
    t.eq(stop(child), 0)
    t.ok(loop.now() - began < 5)
  end)
end)

t.test("chat sends lines to all other members, and reports members that join and leave", function()
  local child <close>, port = start "chat"
  loop.run(function()
    local function join(name)
      local c = connect(port)
      t.eq(c:recv "line", "Your name?")
      c:send(name, "\n")
      return c
    end
    local ann = join "ann"
    local bob <close> = join "bob"
    t.eq(ann:recv "line", "bob is here")
    ann:send "hi\nthere\n"
    t.eq({ bob:recv "line", bob:recv "line" }, { "ann: hi", "ann: there" })
    bob:send "\27[31mred\n"
    t.eq(ann:recv "line", "bob: [31mred", "control characters are removed")
    ann:close()
    t.eq(bob:recv "line", "ann has left")
  end)
  t.eq(stop(child), 0)
end)

t.test("a member of the chat that does not read does not block the others", function()
  local child <close>, port = start "chat"
  loop.run(function()
    local slow <close> = connect(port)
    slow:send "slow\n"
    local talker <close> = connect(port)
    talker:send "talker\n"
    t.eq(slow:recv "line", "Your name?")
    t.eq(slow:recv "line", "talker is here")
    local reader <close> = connect(port)
    reader:send "reader\n"
    t.eq(talker:recv "line", "Your name?")
    t.eq(talker:recv "line", "reader is here")
    local count, text = 20000, ("x"):rep(1000)
    loop.fork(function()
      for _ = 1, count do if not talker:send(text, "\n") then return end end
    end)
    t.eq(reader:recv "line", "Your name?")
    for _ = 1, count do
      local line
      repeat line = assert(reader:recv "line") until line ~= "slow has left"
      if line ~= "talker: " .. text then error("this line was not sent: " .. line:sub(1, 80)) end
    end
    -- The server resets the connection of the member that does not read, because too much data is unread.
    local data, got = "", 0
    while data do
      got = got + #data
      data = slow:recv()
    end
    t.ok(got < count * 1000, got)
  end)
  t.eq(stop(child), 0)
end)

t.test("proxy forwards data and half-closes in both directions at the same time", function()
  local listener
  loop.run(function()
    listener = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local child <close>, at = start("proxy", "127.0.0.1", tostring(port))
    local client <close> = connect(at)
    local upstream <close> = assert(listener:accept())
    upstream:timeout(10, 10)
    local large = ("0123456789abcdef"):rep(262144)
    loop.fork(function() client:send(large) client:shutdown "w" end)
    loop.fork(function() upstream:send(large) end)
    t.ok(client:recv(#large) == large)
    t.ok(upstream:recv "all" == large, "the stream ends while the other direction is open")
    upstream:send "the answer comes after the question's end"
    upstream:shutdown "w"
    t.eq(client:recv "all", "the answer comes after the question's end")
    listener:close()
    t.eq(stop(child), 0)
  end)
end)

t.test("proxy reports that its upstream does not listen, and continues to serve", function()
  local unused = loop.run(function()
    local l = assert(net.listen("127.0.0.1", 0))
    local _, port = l:address()
    l:close()
    return port
  end)
  local child <close>, port = start("proxy", "127.0.0.1", tostring(unused))
  loop.run(function()
    for _ = 1, 2 do
      local c <close> = connect(port)
      t.is_nil((c:recv()))
      t.ok(child:expect "^proxy: (.*)")
    end
  end)
  t.eq(stop(child), 0)
end)

t.test("udp_echo sends datagrams back unchanged, even empty ones", function()
  local child <close>, port = start "udp_echo"
  loop.run(function()
    local u = assert(net.udp("127.0.0.1", 0))
    for _, data in ipairs { "one", "", ("x"):rep(8000) } do
      assert(net.sendto(u, data, "127.0.0.1", port))
      local got, ip, from = net.recvfrom(u)
      t.eq({ got, ip, from }, { data, "127.0.0.1", port })
    end
    u:close()
  end)
  t.eq(stop(child), 0)
end)

local function fetch(words)
  return t.run(t.lio() .. " " .. t.quote(t.root .. "examples/http_client_raw.lua") .. " " .. words)
end

t.test("http_client_raw prints status, headers and body for every framing of the body", function()
  local child <close>, port = start "hello"
  local r = fetch(("http://127.0.0.1:%d/users/7"):format(port))
  t.eq({ r.code, r.err }, { 0, "" })
  t.eq(r.out:match "^[^\r\n]+", "HTTP/1.1 200 OK")
  t.ok(r.out:find "Content%-Type: application/json")
  t.eq(r.out:match '\n\r?\n(.*)$', '{"id":"7"}')
  t.eq(fetch(("http://127.0.0.1:%d/none"):format(port)).out:match "^[^\r\n]+", "HTTP/1.1 404 Not Found")
  t.eq(stop(child), 0)

  local script = t.write(t.tmp() .. "/server.lua", [[
    local net = require "lio.net"
    local answers = {
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n",
      "HTTP/1.0 200 OK\r\n\r\nuntil the end",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    }
    require("lio.loop").run(function()
      local listener = assert(net.listen("127.0.0.1", 0))
      print((select(2, listener:address())))
      io.stdout:flush()
      for _, answer in ipairs(answers) do
        local c <close> = listener:accept()
        c:recv("until", "\r\n\r\n")
        c:send(answer)
      end
    end)]])
  local server <close> = t.spawn(t.lio() .. " " .. t.quote(script))
  local url = "http://127.0.0.1:" .. server:line()
  t.eq(fetch(url .. "/a").out:match "\n\r?\n(.*)$", "abcde")
  t.eq(fetch(url).out:match "\n\r?\n(.*)$", "until the end")
  r = fetch(url .. "?q")
  t.eq(r.code, 1, "a truncated body is an error")
  t.ok(r.err:find "^http_client_raw: ", r.err)
end)

t.test("http_client_raw prints its usage if its arguments are invalid", function()
  local wrong = { "", "https://x/", "x", "http:///a", "http://a:b/", "http://a:99999/", "http://a http://b" }
  for _, words in ipairs(wrong) do
    local r = fetch(words)
    t.eq({ r.code, r.out }, { 2, "" }, words)
    t.ok(r.err:find "usage: lio examples/http_client_raw.lua http://host", r.err)
    t.ok(not r.err:find "traceback", r.err)
  end
end)

t.test("http_client_raw reports a port without a server", function()
  local r = fetch "http://127.0.0.1:1/"
  t.eq({ r.code, r.out }, { 1, "" })
  t.ok(r.err:find "refused", r.err)
end)

t.finish()
