-- `lio --watch` with several workers: each worker gets a socket of the previous process. The tests run the executable
-- in both hosts.

local t = require "tests.kit"
local loop = require "lio.loop"
local net = require "lio.net"
local http = require "tests.kit.raw_http"
local kit = require "tests.kit.watched_program"

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

local function script(answer, workers, where)
  return ([[%s
    local web = require "lio.webserver"
    local app = web.new { grace = 10 }
    app:get("/", function() return %q end)
    app:run(%q, { workers = %d })]]):format(kit.HEAD, answer, where or "127.0.0.1:0", workers)
end

t.test("under load workers are replaced without a refused connection or a lost response", function()
  local p <close> = kit.start { ["server.lua"] = script("version 1", 2) }
  local port = p:serving()
  p:settled()
  local count = kit.hammer(port, 16, function(count)
    for i = 1, 4 do
      if i > 1 then p:write("server.lua", script("version " .. i, 2)) end
      kit.until_counted(count, "version " .. i, 100)
    end
  end)
  t.ok(count.answered >= 400)
  t.eq((p:stop "INT"), 0)
end)

t.test("a change may increase or decrease the number of workers, even to one", function()
  local port = loop.run(function()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    return (select(2, listener:address()))
  end)
  local where = "127.0.0.1:" .. port
  local p <close> = kit.start { ["server.lua"] = script("version 1", 2, where) }
  t.eq(p:serving(), port)
  p:settled()
  for i, workers in ipairs { 4, 3, 1, 2 } do
    local text = "version " .. i + 1
    p:write("server.lua", script(text, workers, where))
    t.eq(p:serving(), port)
    kit.until_answer(port, text)
    -- The previous process has closed its sockets, so no connection waits in them.
    local row, deadline = 0, loop.now() + 60
    repeat
      row = kit.get(port) == text and row + 1 or 0
      t.ok(loop.now() < deadline, "the previous process still answers")
    until row == 20
  end
  t.eq((p:stop "TERM"), 0)
end)

-- Returns the number of sockets that listen on 127.0.0.1:`port`.
local function listening(port)
  local pattern, count = ("^ *%%d+: 0100007F:%04X 00000000:0000 0A "):format(port), 0
  for line in io.lines "/proc/net/tcp" do
    if line:find(pattern) then count = count + 1 end
  end
  return count
end

t.test("with fewer workers all sockets of the address stay open, and connections to each are answered", function()
  local p <close> = kit.start { ["server.lua"] = script("version 1", 4) }
  local port = p:serving()
  p:settled()
  t.eq(listening(port), 4)
  for i, workers in ipairs { 2, 3 } do
    local text = "version " .. i + 1
    local before = p:children()
    p:write("server.lua", script(text, workers))
    t.eq(p:serving(), port)
    kit.until_answer(port, text)
    kit.until_gone(before)
    t.eq(listening(port), 4)
    -- The system distributes the connections over the sockets. The probability that a socket gets no connection is
    -- below 1 in 10 million.
    for _ = 1, 64 do t.eq(kit.get(port), text) end
  end
  t.eq((p:stop "TERM"), 0)
end)

-- Returns a program that answers with the number of the worker; `/spin` loops until the file `go` exists.
local function spinning(workers)
  return ([[%s
    local web = require "lio.webserver"
    local app = web.new { grace = 10 }
    app:get("/", function() return tostring(web.worker()) end)
    app:get("/spin", function()
      print "it loops"
      local go = arg[0]:match "^.*/" .. "go"
      repeat until os.rename(go, go)
      return "spun"
    end)
    app:run("127.0.0.1:0", { workers = %d, watchdog = 0.2 })]]):format(kit.HEAD, workers)
end

t.test("the connections of a blocked worker are answered, on all its sockets", function()
  local p <close> = kit.start { ["server.lua"] = spinning(6) }
  local port = p:serving()
  p:settled()
  local before = p:children()
  p:write("server.lua", spinning(2))
  t.eq(p:serving(), port)
  kit.until_gone(before)
  t.eq(listening(port), 6)
  loop.run(function()
    local stuck
    repeat
      if stuck then stuck:close() end
      stuck = http.open(port)
    until stuck:ask(GET).body == "1"
    stuck:send "GET /spin HTTP/1.1\r\nHost: x\r\n\r\n"
    p:expect "^it loops$"
    -- The system distributes the connections over six sockets; three of them belong to the worker that loops.
    for i = 1, 64 do
      local c <close> = http.open(port)
      t.eq(c:ask(GET).body, "2", "connection " .. i)
    end
    p:write("go", "")
    t.eq(stuck:response().body, "spun")
    stuck:close()
  end)
  t.eq((p:stop "TERM"), 0)
end)

t.test("workers that listen on a unix socket leave its file to the workers of the next process", function()
  local path = t.tmp() .. "/socket"
  local p <close> = kit.start { ["server.lua"] = script("one", 2, "unix:" .. path) }
  p:expect "^lio: serving unix:"
  p:settled()
  local function get()
    return loop.run(function()
      local c <close> = assert(net.connect("unix:" .. path))
      c:timeout(10, 10)
      c:send "GET / HTTP/1.0\r\n\r\n"
      return c:recv "all":match "\r\n\r\n(.*)"
    end)
  end
  t.eq(get(), "one")
  local before = p:children()
  p:write("server.lua", script("two", 2, "unix:" .. path))
  p:expect "^lio: serving unix:"
  kit.wait_for(function() return get() == "two" end, "the new one answers")
  kit.until_gone(before)
  t.eq(get(), "two")
  t.eq((p:stop "INT"), 0)
  t.is_nil((os.rename(path, path)))
end)

t.finish()
