-- `lio --watch` with several workers: each gets a socket of the process before. The executable is tested,
-- whichever host runs this suite.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local loop = require "lio.loop"
local net = require "lio.net"
local kit = require "tests.watchkit"

local function script(answer, workers, where)
  return ([[%s
    local web = require "lio.webserver"
    local app = web.new { grace = 10 }
    app:get("/", function() return %q end)
    app:run(%q, { workers = %d })]]):format(kit.HEAD, answer, where or "127.0.0.1:0", workers)
end

t.test("under load workers are replaced without a refused connection or a lost answer", function()
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

t.test("there may be more workers after a change, or fewer, or one", function()
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
    -- The one before has left its sockets, so that nobody waits in them.
    local row, deadline = 0, loop.now() + 60
    repeat
      row = kit.get(port) == text and row + 1 or 0
      t.ok(loop.now() < deadline, "the new one alone answers")
    until row == 20
  end
  t.eq((p:stop "TERM"), 0)
end)

t.test("workers of a unix socket leave its file to the next ones", function()
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
