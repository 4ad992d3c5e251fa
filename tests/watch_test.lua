-- `lio --watch`: restarts, messages, and how it ends. The tests run the executable in both hosts.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local kit = require "tests.kit.watched_program"

local HEAD <const> = kit.HEAD

t.test("a change of the script restarts it at the same port, and prints a message", function()
  local p <close> = kit.start { ["server.lua"] = kit.server '"one"' }
  local port = p:serving()
  p:settled(1)
  t.eq(kit.get(port), "one")
  p:write("server.lua", kit.server '"two"')
  p:expect "server.lua changed, restarting$"
  t.eq(p:serving(), port)
  kit.until_answer(port, "two")
  t.eq((p:stop "INT"), 0)
end)

t.test("a change of a file that was loaded, or was passed to lio.watch, restarts the script", function()
  local before = [[
    local dir = arg[0]:match "^.*/"
    local one = require "one"
    local two = dofile(dir .. "two.lua")
    local three = assert(loadfile(dir .. "three.lua"))()
    assert(require("lio").watch(dir .. "four.txt"))
    local f <close> = io.open(dir .. "four.txt")
    local four = f:read "a"]]
  local p <close> = kit.start {
    ["server.lua"] = kit.server("one .. two .. three .. four", before),
    ["one.lua"] = "return 'a'", ["two.lua"] = "return 'a'", ["three.lua"] = "return 'a'", ["four.txt"] = "a",
  }
  local port = p:serving()
  p:settled(5)
  p:write("other.lua", "not one that was loaded")
  for i, name in ipairs { "one.lua", "two.lua", "three.lua", "four.txt" } do
    p:write(name, name == "four.txt" and "bbb" or "return 'bbb'")
    t.eq(p.child:line():match "/([^/]*)$", name .. " changed, restarting")
    p:serving()
    kit.until_answer(port, ("bbb"):rep(i) .. ("a"):rep(4 - i))
  end
end)

t.test("a change of a template, of a file that it includes, or of a missing template restarts the script", function()
  local before = [[
    local dir = arg[0]:match "^(.*/)"
    local views = require("lio.template").new(dir)
    local page = views:render("page.txt")
    local _, message = pcall(views.render, views, "missing.txt")
    local word = page .. (message:find "does not exist" and "-" or views:render "missing.txt")]]
  local p <close> = kit.start {
    ["server.lua"] = kit.server("word", before),
    ["page.txt"] = "a{% include 'part.txt' %}", ["part.txt"] = "a",
  }
  local port = p:serving()
  p:settled(3)
  t.eq(kit.get(port), "aa-")
  p:write("part.txt", "b")
  t.eq(p.child:line():match "/([^/]*)$", "part.txt changed, restarting")
  p:serving()
  kit.until_answer(port, "ab-")
  p:write("missing.txt", "c")
  t.eq(p.child:line():match "/([^/]*)$", "missing.txt changed, restarting")
  p:serving()
  kit.until_answer(port, "abc")
end)

t.test("files that a slow script loads before it listens are watched", function()
  local p <close> = kit.start {
    ["server.lua"] = kit.server("word", [[
      while not io.open(arg[0]:match "^.*/" .. "go") do os.execute "sleep 0.01" end
      local word = require "word"]]),
    ["word.lua"] = "return 'a'",
  }
  -- The supervisor treats the script as running, although it does not listen yet.
  p:settled(1)
  p:write("go", "")
  local port = p:serving()
  p:settled(2)
  p:write("word.lua", "return 'b'")
  p:expect "word.lua changed, restarting$"
  kit.until_answer(port, "b")
end)

t.test("a watched file that does not exist restarts the script when it appears", function()
  local before = [[
    local dir = arg[0]:match "^.*/"
    require("lio").watch(dir .. "page.txt")
    local f = io.open(dir .. "page.txt")
    local page = f and f:read "a" or "none"
    if f then f:close() end]]
  local p <close> = kit.start { ["server.lua"] = kit.server("page", before) }
  local port = p:serving()
  p:settled()
  t.eq(kit.get(port), "none")
  p:write("page.txt", "some")
  p:expect "page.txt changed, restarting$"
  kit.until_answer(port, "some")
end)

local COUNTER <const> = [[
  package.path = (...) .. "?.lua;" .. package.path
  local part = require "part"
  return { get = function() return "%s " .. part end }]]

t.test("files that services load are watched, even on the scheduler's own threads", function()
  local p <close> = kit.start({
    ["server.lua"] = [[
      local ltask = require "ltask"
      local counter = ltask.spawn("counter", arg[0]:match "^.*/")
      local app = require("lio.webserver").new()
      app:get("/", function() return ltask.call(counter, "get") end)
      app:run "127.0.0.1:0"]],
    ["counter.lua"] = COUNTER:format "one",
    ["part.lua"] = "return 1",
  }, "--service")
  local port = p:serving()
  kit.until_answer(port, "one 1")
  p:settled()
  p:write("counter.lua", COUNTER:format "two")
  p:expect "counter.lua changed, restarting$"
  kit.until_answer(port, "two 1")
  p:write("part.lua", "return 2")
  p:expect "part.lua changed, restarting$"
  kit.until_answer(port, "two 2")
  t.eq((p:stop "TERM"), 0)
end)

t.test("if a changed script cannot be loaded, the previous process continues until the script is fixed", function()
  local p <close> = kit.start { ["server.lua"] = kit.server '"one"' }
  local port = p:serving()
  p:settled()
  p:write("server.lua", "this is not Lua")
  p:expect "server.lua:1: syntax error near 'is'"
  p:expect "server.lua has ended with exit code 1; the previous process continues$"
  t.eq(kit.get(port), "one")
  p:write("server.lua", kit.server('"two"', 'error "on purpose"'))
  p:expect "on purpose"
  p:expect "the previous process continues$"
  t.eq(kit.get(port), "one")
  p:write("server.lua", kit.server '"three"')
  t.eq(p:serving(), port)
  kit.until_answer(port, "three")
end)

-- Writes the failing `scripts` in turn, until `seconds` have passed. Each of them fails before the next is written.
local function fail_for(p, seconds, scripts)
  local deadline, count = loop.now() + seconds, 0
  repeat
    p:write("server.lua", ("%s -- %d"):format(scripts[count % #scripts + 1], count))
    p:expect "the previous process continues$"
    count = count + 1
  until loop.now() > deadline and count >= #scripts
end

-- Returns a script that fails after it has begun to listen, and has called `before`, an expression, with the listener.
local function failing(before)
  return ([[
    require("lio.loop").run(function()
      %s(require("lio.net").listen("127.0.0.1", 0))
      error "on purpose"
    end)]]):format(before)
end

t.test("Regression: after a failed restart, the sockets were lost, so no later restart could bind the port", function()
  -- Without a restart, the supervisor closes unused sockets 2 s after a process has begun to serve.
  for _, case in ipairs {
    { seconds = 2.5, "x = = 1" },
    { seconds = 0, failing "(function(l) l:close() end)", failing '(function() os.execute "kill -KILL $PPID" end)' },
  } do
    local p <close> = kit.start { ["server.lua"] = kit.server '"one"' }
    local port = p:serving()
    p:settled()
    fail_for(p, case.seconds, case)
    t.eq(kit.get(port), "one")
    for _, answer in ipairs { "two", "three" } do
      p:write("server.lua", kit.server(("%q"):format(answer)))
      t.eq(p:serving(), port, answer)
      kit.until_answer(port, answer)
    end
  end
end)

t.test("after a crash clients wait until a change restarts the script, which then answers them", function()
  local p <close> = kit.start { ["server.lua"] = kit.server('os.exit(7)') }
  local port = p:serving()
  p:settled()
  loop.run(function()
    local first <close> = http.open(port)
    first:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    t.is_nil((first.c:recv()))
  end)
  p:expect "server.lua has ended with exit code 7; waiting for a change$"
  loop.run(function()
    local c <close> = http.open(port)
    c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    p:write("server.lua", kit.server '"repaired"')
    t.eq(c:response().body, "repaired")
  end)
  t.eq((p:stop "INT"), 0)
end)

t.test("a script that failed because of a missing file starts when the file appears", function()
  local p <close> = kit.start { ["server.lua"] = kit.server("word", 'local word = require "word"') }
  p:expect "module 'word' not found"
  p:expect "exit code 1; waiting for a change$"
  p:write("word.lua", "return 'here'")
  t.eq(kit.get(p:serving()), "here")
end)

t.test("a module that appears right after require has searched it causes a restart", function()
  -- The script writes the file itself, so the file appears before the supervisor detects that the script has failed.
  local p <close> = kit.start { ["server.lua"] = kit.server("word", [[
    local found, word = pcall(require, "part.word")
    if not found then
      os.execute("mkdir " .. arg[0]:match "^.*/" .. "part")
      local f = assert(io.open(arg[0]:match "^.*/" .. "part/word.lua", "w"))
      f:write "return 'here'"
      f:close()
      error(word)
    end]]) }
  p:expect "waiting for a change$"
  p:expect "part/word.lua changed, restarting$"
  local port = p:serving()
  t.eq(kit.get(port), "here")
  p:settled(2)
  p:write("part/word.lua", "return 'there'")
  p:expect "part/word.lua changed, restarting$"
  kit.until_answer(port, "there")
end)

t.test("a module that cannot be loaded because of a syntax error is watched", function()
  local p <close> = kit.start {
    ["server.lua"] = kit.server("word", 'local word = require "word"'), ["word.lua"] = "return (",
  }
  p:expect "waiting for a change$"
  p:write("word.lua", "return 'right'")
  p:expect "word.lua changed, restarting$"
  t.eq(kit.get(p:serving()), "right")
end)

t.test("SIGHUP restarts the script without a change", function()
  local p <close> = kit.start { ["server.lua"] = kit.server 'io.open("/proc/self/stat"):read("a"):match("%d+")' }
  local port = p:serving()
  p:settled()
  local pid = kit.get(port)
  p.child:kill "HUP"
  p:expect "^lio: SIGHUP, restarting$"
  t.eq(p:serving(), port)
  kit.wait_for(function() return kit.get(port) ~= pid end, "another process answers")
  kit.wait_for(function() return not kit.descriptors(tonumber(pid)) end, "the previous process ends")
end)

-- Regression: when the first process had listened for a while, it replaced the newer process.
t.test("SIGHUP restarts a script that has just begun to serve", function()
  local p <close> = kit.start { ["server.lua"] = kit.server 'io.open("/proc/self/stat"):read("a"):match("%d+")' }
  local pid = kit.get(p:serving())
  p.child:kill "HUP"
  p:expect "^lio: SIGHUP, restarting$"
  local port = p:serving()
  kit.wait_for(function() return not kit.descriptors(tonumber(pid)) end, "the previous process ends")
  t.ok(kit.get(port) ~= pid)
end)

t.test("the script receives the signal, and lio --watch exits with the script's exit code", function()
  local script = HEAD .. [[
    local loop = require "lio.loop"
    loop.run(function()
      loop.signal("SIGTERM", function() print "told" loop.stop() end)
      print "ready"
      io.stdout:flush()
      loop.sleep(60)
    end)
    os.exit(9)]]
  local p <close> = kit.start { ["server.lua"] = script }
  p:expect "^ready$"
  local code, text = p:stop "TERM"
  t.eq(code, 9)
  t.ok(text:find "told", text)
end)

t.test("the exit code is that of the serving process, even if a new process is loading", function()
  local p <close> = kit.start { ["server.lua"] = kit.server '"one"' }
  p:serving()
  p:settled()
  p:write("server.lua", 'print "loading" io.stdout:flush() while true do end')
  p:expect "^loading$"
  t.eq((p:stop "TERM"), 0)
end)

t.test("Ctrl-C waits for requests in progress; a second Ctrl-C ends the program at once", function()
  local p <close> = kit.start { ["server.lua"] = kit.server '"one"' }
  local port = p:serving()
  p:settled()
  loop.run(function()
    local c <close> = http.open(port)
    c:send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    kit.taken(port)
    p.child:kill "INT"
    t.eq(c:response().body, "one")
  end)
  p.child:all()
  t.eq((p.child:close()), 0)

  local q <close> = kit.start { ["server.lua"] = 'print "busy" io.stdout:flush() '
    .. 'require("lio.loop").run(function() while true do end end)' }
  q:expect "^busy$"
  q:settled()
  t.eq(q:interrupt(), 128 + 2)
end)

-- Regression: each further Ctrl-C postponed the end.
t.test("a script that ignores Ctrl-C ends a second after the second one, even if more follow", function()
  local p <close> = kit.start { ["server.lua"] = [[
    local loop = require "lio.loop"
    loop.run(function()
      loop.signal("SIGINT", function() end)
      print "ready"
      io.stdout:flush()
      loop.sleep(60)
    end)]] }
  p:expect "^ready$"
  t.eq(p:interrupt(), 128 + 9)
end)

t.test("Ctrl-C while lio --watch waits for a change ends it with the script's exit code", function()
  local p <close> = kit.start { ["server.lua"] = "os.exit(3)" }
  p:expect "waiting for a change$"
  t.eq((p:stop "INT"), 3)
end)

t.test("a script that does not listen ends before the next one starts", function()
  local script = [[
    local loop = require "lio.loop"
    local done <close> = setmetatable({}, { __close = function() print "end %s" io.stdout:flush() end })
    print "begin %s"
    io.stdout:flush()
    loop.run(loop.sleep, 60)]]
  local p <close> = kit.start { ["server.lua"] = script:format("one", "one") }
  p:expect "^begin one$"
  p:settled()
  p:write("server.lua", script:format("two", "two"))
  p:expect "changed, restarting$"
  t.eq({ p.child:line(), p.child:line() }, { "end one", "begin two" })
end)

t.test("when the supervisor is killed, the script ends as well", function()
  local p <close> = kit.start { ["server.lua"] = kit.server '"one"' }
  local port = p:serving()
  p.child:kill "KILL"
  p.child:all() -- returns when the script has closed the pipe; at an exit, the listener is closed later
  kit.wait_for(function()
    return loop.run(function()
      local c, _, code = require("lio.net").connect("127.0.0.1", port)
      if c then c:close() end
      return code == "refused"
    end)
  end, "the script's listener is closed")
end)

t.test("the script gets its own arguments, and inherits no socket of the supervisor", function()
  local script = [[
    print(arg[0]:match "[^/]*$", arg[1], arg[-1]:match "[^/]*$", arg[2], arg[-2])
    local before = io.popen "ls -l /proc/self/fd"
    for line in before:lines() do if line:find "socket:" then print "a socket is open" end end
    print "done"
    io.stdout:flush()]]
  local p <close> = kit.start({ ["server.lua"] = script }, nil, "x --watch")
  t.eq(p:expect "^server.lua.*$", "server.lua\tx\t" .. t.bin():match "[^/]*$" .. "\t--watch\tnil")
  t.eq(p.child:line(), "done")
end)

t.test("the example restarts when its text changes, and answers slow requests", function()
  local dir = t.tmp()
  os.execute(("cp %sexamples/restart/* %s"):format(t.quote(t.root), t.quote(dir)))
  local child <close> = t.spawn(("%s --watch %s/server.lua 0"):format(t.bin(), t.quote(dir)))
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127.0.0.1:(%d+)/$"))
  t.eq(tonumber(child:expect "^lio: watching (%d+) files$"), 3)
  t.ok(kit.get(port):find "^Hello from the process of %d+:%d+:%d+\nThis text")
  loop.run(function()
    local c <close> = http.open(port)
    c:send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    kit.taken(port)
    t.write(dir .. "/greeting.txt", "another text")
    child:expect "greeting.txt changed, restarting$"
    t.ok(c:response().body:find "^slowly, from the process of ")
  end)
  t.ok(kit.get(port):find "\nanother text$")
  child:kill "INT"
  child:all()
  t.eq((child:close()), 0)
end)

t.test("lio --watch without a script is an error", function()
  for _, words in ipairs { "--watch", "--watch -", "--watch -e 'x = 1'" } do
    local r = t.run(t.bin() .. " " .. words)
    t.eq({ r.code, r.out }, { 1, "" })
    t.eq(r.err, "lio: '--watch' needs a script; see lio --help\n")
  end
end)

t.test("lio.watch returns false without a supervisor, and requires a path", function()
  local lio = require "lio"
  t.eq(lio.watch "x", false)
  t.raises("bad argument #1 to '[%a.]*watch'", lio.watch)
  t.raises("bad argument #1 to '[%a.]*watch' %(path expected", lio.watch, "")
end)

t.finish()
