-- `lio --watch`: sockets that outlive the processes, under load and when the script's addresses change; and the ways in
-- which editors save files. The tests run the executable in both hosts.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"
local kit = require "tests.kit.watched_program"

local function version(i) return kit.server(('"version %d"'):format(i)) end

t.test("five restarts under load refuse no connection and lose no response", function()
  local p <close> = kit.start { ["server.lua"] = version(1) }
  local port = p:serving()
  p:settled()
  local count = kit.hammer(port, 32, function(count)
    for i = 1, 6 do
      if i > 1 then p:write("server.lua", version(i)) end
      kit.until_counted(count, "version " .. i, 100)
    end
  end)
  t.ok(count.answered >= 600)
  t.eq((p:stop "INT"), 0)
end)

t.test("a restart by SIGHUP under load loses no request, and slow requests are answered", function()
  local p <close> = kit.start { ["server.lua"] = version(1) }
  local port = p:serving()
  p:settled()
  kit.hammer(port, 8, function(count)
    local slow <close> = http.open(port)
    local idle <close> = http.open(port)
    t.eq(idle:ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").body, "version 1")
    slow:send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    kit.taken(port)
    p:write("server.lua", version(2))
    t.eq(slow:response().body, "version 1", "the process that received the request answers it")
    kit.until_counted(count, "version 2", 20)
    -- The previous process still answers on an idle connection, and announces that it will close it.
    local r = idle:ask "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq({ r.body, r.headers.connection }, { "version 1", "close" })
    p.child:kill "HUP"
    local before = count["version 2"]
    kit.until_counted(count, "version 2", before + 100)
  end)
  t.eq((p:stop "TERM"), 0)
end)

t.test("restarts leave no additional descriptors open in the supervisor or in the program", function()
  local server = kit.server '#"x" .. " " .. io.open("/proc/self/stat"):read("a"):match("%d+")'
  local p <close> = kit.start { ["server.lua"] = server }
  local port = p:serving()
  p:settled()
  local function process() return tonumber(kit.get(port):match "%d+$") end
  local function restart()
    local before = process()
    p.child:kill "HUP"
    p:serving()
    kit.wait_for(function() return process() ~= before end, "a new process answers")
    kit.wait_for(function() return not kit.descriptors(before) end, "the previous process ends")
  end
  for _ = 1, 2 do restart() end
  local here, there = kit.descriptors(p.child.pid), kit.descriptors(process())
  for _ = 1, 6 do restart() end
  -- The numbers may differ slightly, because a connection may just be closing.
  local still_here, still_there = kit.descriptors(p.child.pid), kit.descriptors(process())
  t.ok(still_here <= here + 2, ("%d, before %d"):format(still_here, here))
  t.ok(still_there <= there + 2, ("%d, before %d"):format(still_there, there))
end)

t.test("a unix socket's file stays during a restart, and is removed when lio --watch ends", function()
  local path = t.tmp() .. "/socket"
  local p <close> = kit.start { ["server.lua"] = kit.server('"one"', "", "unix:" .. path) }
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
  p:write("server.lua", kit.server('"two"', "", "unix:" .. path))
  p:expect "^lio: serving unix:"
  kit.wait_for(function() return get() == "two" end, "the new one answers")
  -- The previous process has ended without removing the file.
  kit.until_gone(before)
  t.eq(get(), "two")
  t.eq((p:stop "INT"), 0)
  t.eq({ io.open(path) }, { nil, path .. ": No such file or directory", 2 })
end)

local function is_refused(port)
  return loop.run(function()
    local c, _, code = net.connect("127.0.0.1", port)
    if c then c:close() end
    return code == "refused"
  end)
end

t.test("a script that listens on another address after a change no longer listens on the old address", function()
  local p <close> = kit.start { ["server.lua"] = version(1) }
  local port = p:serving()
  p:settled()
  -- 0.0.0.0 with the same port cannot be bound until the previous socket is closed.
  p:write("server.lua", kit.server('"all"', "", "0.0.0.0:" .. port))
  t.eq(p:serving(), port)
  kit.until_answer(port, "all")
  local path = t.tmp() .. "/socket"
  p:write("server.lua", kit.server('"unix"', "", "unix:" .. path))
  p:expect "^lio: serving unix:"
  kit.wait_for(function() return is_refused(port) end, "the old port is closed")
  p:write("server.lua", version(2))
  kit.until_answer(p:serving(), "version 2")
  kit.wait_for(function() return not os.rename(path, path) end, "the file of the unix socket is removed")
end)

t.test("if the port of a changed script is in use, the script fails, and the previous process continues", function()
  local taken = loop.run(function() return assert(net.listen("127.0.0.1", 0)) end)
  local _, theirs = taken:address()
  local p <close> = kit.start { ["server.lua"] = version(1) }
  local port = p:serving()
  p:settled()
  p:write("server.lua", kit.server('"none"', "", "127.0.0.1:" .. theirs))
  p:expect "cannot listen on 127.0.0.1:%d+: .*in use"
  p:expect "the previous process continues$"
  t.eq(kit.get(port), "version 1")
  taken:close()
end)

t.test("a listener that the script closes does not accept connections, even while lio --watch runs", function()
  local p <close> = kit.start { ["server.lua"] = kit.HEAD .. [[
    local loop, net = require "lio.loop", require "lio.net"
    loop.run(function()
      local listener = assert(net.listen("127.0.0.1", 0))
      local _, port = listener:address()
      print("lio: serving http://127.0.0.1:" .. port .. "/")
      io.stdout:flush()
      local c <close> = assert(listener:accept())
      listener:close()
      c:recv "line"
    end)]] }
  local port = p:serving()
  loop.run(function()
    local c <close> = assert(net.connect("127.0.0.1", port))
    loop.fork(function() c:send "x" end)
    repeat
      local other, _, code = net.connect("127.0.0.1", port)
      if other then other:close() end
      loop.sleep(0.01)
    until code == "refused"
    c:send "\n"
  end)
  local ok, problem = pcall(p.settled, p)
  t.ok(ok or problem:find "has ended; waiting", problem)
end)

t.test("listeners that share a port each take a socket of the previous process, or open a new one", function()
  local function script(count, word)
    return kit.HEAD .. ([[
      local loop, net = require "lio.loop", require "lio.net"
      loop.run(function()
        local port = tonumber(arg[1])
        for _ = 1, %d do
          local listener = assert(net.listen("127.0.0.1", port, { reuseport = true }))
          net.serve(listener, function(c) c:send(%q) c:recv() end)
        end
        print("lio: serving http://127.0.0.1:" .. port .. "/")
        io.stdout:flush()
      end)]]):format(count, word)
  end
  local port = loop.run(function()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    return (select(2, listener:address()))
  end)
  local p <close> = kit.start({ ["server.lua"] = script(2, "a") }, nil, tostring(port))
  p:serving()
  p:settled()
  for word, count in pairs { b = 3, c = 1, d = 4 } do
    p:write("server.lua", script(count, word))
    p:serving()
    local seen = 0
    loop.run(function()
      local deadline = loop.now() + 60
      while seen < 20 do
        assert(loop.now() < deadline, "the previous process still answers")
        local c <close> = assert(net.connect("127.0.0.1", port))
        c:timeout(10, 10)
        seen = assert(c:recv(1)) == word and seen + 1 or 0
        if seen == 0 then loop.sleep(0.01) end
      end
    end)
  end
end)

t.test("a datagram that arrives while no process runs is answered by the next process", function()
  local script = [[
    local loop, net = require "lio.loop", require "lio.net"
    loop.run(function()
      local u = assert(net.udp("127.0.0.1", tonumber(arg[1])))
      print "ready"
      io.stdout:flush()
      while true do
        local data, ip, port = u:recvfrom()
        if data == "die" then os.exit(1) end
        u:sendto("%s " .. data, ip, port)
      end
    end)]]
  local port = loop.run(function()
    local u <close> = assert(net.udp("127.0.0.1", 0))
    return (select(2, u.socket:info "socket":value()))
  end)
  local p <close> = kit.start({ ["server.lua"] = script:format "one" }, nil, tostring(port))
  p:expect "^ready$"
  p:settled()
  loop.run(function()
    local u <close> = assert(net.udp("127.0.0.1", 0))
    local function ask(data)
      assert(net.sendto(u, data, "127.0.0.1", port))
      return (net.recvfrom(u))
    end
    t.eq(ask "x", "one x")
    assert(net.sendto(u, "die", "127.0.0.1", port))
    p:expect "exit code 1; waiting for a change$"
  end)
  loop.run(function()
    local u <close> = assert(net.udp("127.0.0.1", 0))
    assert(net.sendto(u, "y", "127.0.0.1", port))
    p:write("server.lua", script:format "two")
    t.eq((net.recvfrom(u)), "two y")
  end)
end)

-- The ways in which editors save. Each function writes `text` to the file `path`.
local WAYS <const> = {
  ["a new file is renamed to the name"] = function(path, text)
    t.write(path .. ".new", text)
    os.rename(path .. ".new", path)
  end,
  ["the old file is renamed and a new file is written"] = function(path, text)
    os.rename(path, path .. "~")
    t.write(path, text)
  end,
  ["a file deleted and made anew a moment later"] = function(path, text)
    os.remove(path)
    loop.run(function() loop.sleep(0.2) end)
    t.write(path, text)
  end,
  ["writes in several steps"] = function(path, text)
    local f <close> = io.open(path, "w")
    for i = 1, #text, 40 do
      f:write(text:sub(i, i + 39))
      f:flush()
    end
  end,
}

for name, save in pairs(WAYS) do
  t.test("a save is detected: " .. name, function()
    local p <close> = kit.start { ["server.lua"] = version(1) }
    local port = p:serving()
    p:settled()
    for i = 2, 3 do
      save(p.dir .. "/server.lua", version(i))
      kit.until_answer(port, "version " .. i)
    end
  end)
end

t.test("a restart happens if a linked file changes, and if the symbolic link changes", function()
  local p <close> = kit.start {
    ["server.lua"] = kit.server("word .. other", 'local word, other = require "word", require "sub.other"'),
    ["real.lua"] = "return 'a'", ["next.lua"] = "return 'c'",
    ["word.lua"] = "return 'not yet'",
  }
  -- The program fails while modules are missing, and starts when all of them exist.
  p:expect "waiting for a change$"
  for _, dir in ipairs { "x", "y" } do os.execute("mkdir " .. t.quote(p.dir .. "/" .. dir)) end
  p:write("x/other.lua", "return '1'")
  p:write("y/other.lua", "return '2'")
  local function link(target, name)
    os.execute(("ln -sfn %s %s"):format(t.quote(target), t.quote(p.dir .. "/" .. name)))
  end
  link("real.lua", "word.lua")
  link("x", "sub")
  p.child:kill "HUP"
  local port = p:serving()
  kit.until_answer(port, "a1")
  p:write("real.lua", "return 'b'")
  kit.until_answer(port, "b1")
  link("next.lua", "word.lua")
  kit.until_answer(port, "c1")
  link("y", "sub")
  kit.until_answer(port, "c2")
end)

t.test("a folder that is renamed and created again is watched again", function()
  local p <close> = kit.start {
    ["server.lua"] = kit.server("word", 'local word = dofile(arg[0]:match "^.*/" .. arg[1])'),
  }
  p:expect "waiting for a change$"
  local dir = t.quote(p.dir)
  os.execute(("mkdir %s/sub"):format(dir))
  p:write("sub/word.lua", "return 'a'")
  p:write("server.lua", kit.server("word", 'local word = dofile(arg[0]:match "^.*/" .. "sub/word.lua")'))
  local port = p:serving()
  kit.until_answer(port, "a")
  os.execute(("mv %s/sub %s/old && mkdir %s/sub"):format(dir, dir, dir))
  p:write("sub/word.lua", "return 'b'")
  kit.until_answer(port, "b")
  p:write("sub/word.lua", "return 'cc'")
  kit.until_answer(port, "cc")
end)

t.finish()
