-- net.serve: one handler per connection, every way in which a handler ends, the limit of connections, stopping.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

-- Starts a server on a free port. Returns the server, the port, and an object that stops the server when it is closed.
local function serving(handler, opts)
  local listener = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local server = net.serve(listener, handler, opts)
  return server, port, setmetatable({}, { __close = function() server:stop() end })
end

local function connect(port)
  return t.ok(net.connect("127.0.0.1", port))
end

netkit.test("each connection has a handler, and is closed when its handler returns", function()
  local _, port, stop <close> = serving(function(c)
    for line in function() return (c:recv "line") end do c:send(line:upper(), "\n") end
  end)
  local a <close>, b = connect(port), connect(port)
  local _ <close> = netkit.closing(b)
  b:send "b\n"
  a:send "a\n"
  t.eq({ a:recv "line", b:recv "line" }, { "A", "B" })
  local _, once, stop_too <close> = serving(function(c) c:send "bye" end)
  local c <close> = connect(once)
  t.eq(c:recv "all", "bye")
  t.ok(stop and stop_too)
end)

netkit.test("an error in a handler is logged and closes its connection; other connections continue", function()
  local logged
  local server, port, stop <close> = serving(function(c)
    if c:recv "line" == "break" then error "it broke" end
    c:send "fine"
  end, { on_error = function(message, c) logged = { message, c:is_closed() } end })
  local a <close> = connect(port)
  a:send "break\n"
  t.is_nil(a:recv())
  t.ok(logged[1]:find "net_serve_test.lua:%d+: it broke", logged[1])
  t.ok(logged[1]:find("stack traceback:", 1, true), logged[1])
  t.eq(logged[2], false)
  local b <close> = connect(port)
  b:send "x\n"
  t.eq(b:recv "all", "fine")
  t.eq(server.count, 0)
  t.ok(stop)
end)

t.test("without on_error the error is written to standard error, with the traceback", function()
  local r = t.run(t.lio() .. " " .. t.quote(t.write(t.tmp() .. "/s.lua", [[
    local loop, net = require "lio.loop", require "lio.net"
    loop.run(function()
      local listener = net.listen("127.0.0.1", 0)
      local server = net.serve(listener, function() error "broken handler" end)
      local c = net.connect("127.0.0.1", (select(2, listener:address())))
      print(c:recv())
      c:close()
      server:stop()
    end)
  ]])))
  t.eq(r.out, "nil\n")
  t.ok(r.err:find "error in a connection's handler: .*s.lua:4: broken handler\nstack traceback", r.err)
end)

netkit.test("max_connections connections are handled at once; further connections wait", function()
  local most, current, served = 0, 0, 0
  local _, port, stop <close> = serving(function(c)
    current = current + 1
    most = math.max(most, current)
    c:recv "line"
    current = current - 1
    served = served + 1
  end, { max_connections = 3 })
  local waits = {}
  for i = 1, 20 do
    waits[i] = netkit.promise(function()
      local c <close> = connect(port)
      c:send "x\n"
      return c:recv()
    end)
  end
  for i = 1, 20 do t.is_nil(waits[i]()) end
  t.eq({ served, most <= 3, current }, { 20, true, 0 })
  t.ok(stop)
end)

netkit.test("if a handler is killed, its connection is closed, and the next connection is handled", function()
  local handlers = {}
  local server, port, stop <close> = serving(function(c)
    handlers[#handlers + 1] = loop.running()
    c:send "hello\n"
    c:recv()
  end, { max_connections = 1 })
  local a <close> = connect(port)
  local b <close> = connect(port)
  t.eq(a:recv "line", "hello")
  t.ok(loop.kill(handlers[1]))
  t.is_nil(a:recv())
  t.eq(b:recv "line", "hello")
  t.eq(server.count, 1)
  t.ok(stop)
end)

netkit.test("stop with grace lets the handlers end; no new connection is accepted", function()
  local server, port, read
  server, port = serving(function(c)
    read = c:recv "line"
    netkit.await(function() return server.stopping end)
    netkit.settle()
    c:send(read)
  end)
  local a <close> = connect(port)
  a:send "in time\n"
  netkit.await(function() return read end)
  -- If stop waited for the whole grace period, the test's deadline would pass.
  server:stop(600)
  t.eq(a:recv "all", "in time")
  t.eq(select(3, net.connect("127.0.0.1", port)), "refused")
  t.eq(server.count, 0)
end)

netkit.test("after the grace period the open connections are closed, and their handlers get 'closed'", function()
  local heard
  local server, port = serving(function(c) heard = select(2, c:recv()) end)
  local a <close> = connect(port)
  netkit.await(function() return server.count == 1 end)
  netkit.settle()
  local before = lio.now()
  server:stop(0.03)
  t.ok(lio.now() - before >= 0.03)
  t.is_nil(a:recv())
  t.eq(netkit.await(function() return heard end), "closed")
end)

netkit.test("stop without grace closes at once, even a full server, and wakes the tasks in server:wait", function()
  local server, port = serving(function(c) c:recv() end, { max_connections = 1 })
  local a <close> = connect(port)
  local b <close> = connect(port)
  local over = netkit.promise(function() server:wait() return "over" end)
  netkit.await(function() return server.count == 1 end)
  server:stop()
  t.eq(over(), "over")
  t.is_nil(a:recv())
  -- This connection was in the backlog when the listener was closed: the system resets it.
  t.is_nil((b:recv()))
  server:stop()
  server:wait()
end)

netkit.test("a released connection outlives its handler and the server", function()
  local kept, server, port
  server, port = serving(function(c)
    kept = c
    server:release(c)
  end)
  local a <close> = connect(port)
  netkit.await(function() return kept end)
  netkit.settle()
  t.eq({ server.count, kept:is_closed() }, { 0, false })
  server:stop()
  kept:send "still here"
  t.eq(a:recv(), "still here")
  kept:close()
end)

t.test("loop.stop stops the loop's servers with the same grace period", function()
  local answer, read
  loop.run(function()
    local server, port
    server, port = serving(function(c)
      read = c:recv "line"
      netkit.await(function() return server.stopping end)
      netkit.settle()
      c:send "done"
    end)
    loop.fork(function()
      local a <close> = connect(port)
      a:send "x\n"
      answer = a:recv "all"
    end)
    netkit.await(function() return read end)
    loop.stop(60)
    loop.wait "never"
  end)
  t.eq(answer, "done")
end)

netkit.test("ten thousand connections, one after another, leave no memory in use and no descriptor open", function()
  local server, port, stop <close> = serving(function(c) c:send(c:recv()) end)
  local function round(count)
    for _ = 1, count do
      local c <close> = connect(port)
      -- Avoids TIME_WAIT, because otherwise the system would run out of ports.
      c:option("linger", 0)
      c:send "x"
      assert(c:recv() == "x")
    end
    collectgarbage()
    collectgarbage()
    return collectgarbage "count", select(2, t.descriptors())
  end
  local memory, descriptors = round(500)
  local memory_after, descriptors_after = round(10000)
  t.eq(descriptors_after, descriptors)
  t.ok(memory_after < memory + 200, ("Lua's memory: %.0f to %.0f KiB"):format(memory, memory_after))
  t.eq(server.count, 0)
  t.ok(stop)
end, { seconds = 60 })

netkit.test("misuse raises", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  t.raises("bad argument #2 to 'serve'", net.serve, l)
  l:close()
  t.raises("^[^\n]*net_serve_test.lua:%d+: net.serve: the listener is closed$", function() net.serve(l, print) end)
end)

t.test("stop first serves the clients in the backlogs of the listeners", function()
  loop.run(function()
    local listener, other = assert(net.listen("127.0.0.1", 0)), assert(net.listen("127.0.0.1", 0))
    local ports = { (select(2, listener:address())), (select(2, other:address())) }
    local server = net.serve(listener, function(c)
      c:send(c:recv("line") .. "!")
    end)
    server:accept_from(other)
    local clients = {}
    for i = 1, 10 do
      local s = assert(socket.create "tcp")
      s:connect("127.0.0.1", ports[i % 2 + 1])
      clients[i] = net.wrap(s)
      assert(clients[i]:send("hello " .. i .. "\n"))
    end
    server:stop(5)
    for i, c in ipairs(clients) do
      t.eq(c:recv("all"), "hello " .. i .. "!")
      c:close()
    end
  end)
end)

netkit.test("admit and release take a connection, accept_from a listener", function()
  local server = net.serve(nil, print)
  local web_server = require "lio.webserver".new():server()
  for _, one in ipairs { server, web_server } do
    for _, wrong in ipairs { {}, "x", 5, one, io.stdout } do
      t.raises("^[^\n]*net_serve_test.lua:%d+: bad argument #1 to 'admit' %(connection expected, got ",
        function() one:admit(wrong) end)
      t.raises("^[^\n]*net_serve_test.lua:%d+: bad argument #1 to 'release' %(connection expected, got ",
        function() one:release(wrong) end)
      t.raises("^[^\n]*net_serve_test.lua:%d+: bad argument #1 to 'accept_from' %(listener expected, got ",
        function() one:accept_from(wrong) end)
    end
    t.raises("bad argument #1 to 'accept_from' %(listener expected, got nil%)", function() one:accept_from(nil) end)
    t.eq(one.count, 0)
    one:stop()
  end
end)

-- Runs a script that serves connections, for a minute at most. Returns its standard output and its standard error.
-- The programs may use: loop, net, listener, connect
local function run_script(body)
  local r = t.run("timeout 60 " .. t.lio() .. " " .. t.quote(t.write(t.tmp() .. "/s.lua", [[
    local loop, net = require "lio.loop", require "lio.net"
    local listener = net.listen("127.0.0.1", 0)
    local function connect() return net.connect("127.0.0.1", (select(2, listener:address()))) end
    loop.run(function() ]] .. body .. " end)")))
  return r.out, r.err
end

-- Regression: the server stayed half stopped: `wait` never returned, and no connection was closed.
t.test("an error in on_stop is logged, and the stop continues", function()
  local out, err = run_script [[
    local server = net.serve(listener, function(c) c:recv() end, { on_stop = function() error "broken hook" end })
    local c <close> = connect()
    loop.fork(function()
      server:wait()
      print("ended", server.count)
    end)
    loop.sleep(0.01)
    print(server.count, pcall(server.stop, server))
    print(c:recv())
  ]]
  t.eq(out, "1\ttrue\nnil\nended\t0\n")
  t.ok(err:find "^lio: error in on_stop of net.serve: [^\n]*s.lua:4: broken hook\nstack traceback:", err)
end)

-- Regression: with `attended`, the server stopped accepting connections.
t.test("an error in on_error is logged, and the connection is closed", function()
  for _, attended in ipairs { "true", "false" } do
    local out, err = run_script([[
      local server = net.serve(listener, function() error "broken handler" end, {
        on_error = function() error "broken hook" end,
        attended = ]] .. attended .. [[,
      })
      for _ = 1, 2 do
        local c <close> = connect()
        print(c:recv())
      end
      print(server.count)
      server:stop()
    ]])
    t.eq(out, "nil\nnil\n0\n")
    t.eq(select(2, err:gsub("lio: error in on_error of net.serve: [^\n]*s.lua:5: broken hook\nstack", "")), 2, err)
  end
end)

netkit.test("a stop whose task is killed closes the connections at once", function()
  local server, port = serving(function(c) c:recv() end)
  local a <close> = connect(port)
  netkit.await(function() return server.count == 1 end)
  local stop = loop.fork(function() server:stop(60) end)
  local ended = netkit.promise(server.wait, server)
  netkit.settle()
  t.eq(server.count, 1)
  t.ok(loop.kill(stop))
  ended()
  t.is_nil(a:recv())
  netkit.await(function() return server.count == 0 end)
end)

t.finish()
