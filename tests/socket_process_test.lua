-- Sockets and processes: accept without a free descriptor, one port that two processes serve, and a blocking socket of
-- another program.

local t = require "tests.kit"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local function script(code)
  return t.write(t.tmp() .. "/script.lua", 'local lio, socket = require "lio", require "lio.socket"\n' .. code)
end

t.test("without a free descriptor accept returns nil and a message; later the listener works again", function()
  local path = script [[
    local listener = socket.create "tcp"
    listener:bind("127.0.0.1", 0)
    listener:listen()
    print((select(2, listener:info "socket":value())))
    io.stdout:flush()
    local sel = lio.create()
    sel:event_add(listener, lio.SELECT_READ)
    local taken, message, code = {}, nil, nil
    repeat
      local s
      for _ in sel:wait(10) do
        s, message, code = listener:accept()
        if s then taken[#taken + 1] = s end
      end
    until message
    print(message, code)
    -- The connection that could not be accepted is reported again, because readiness is level-triggered.
    for _ in sel:wait(10) do print "reported again" end
    local last = table.remove(taken)
    last:send "bye"
    last:close()
    for _ in sel:wait(10) do
      taken[#taken + 1] = assert(listener:accept())
      print "accepted"
    end
    -- All thirty connections are served, even those whose handshake was completed later.
    local served = 1
    for _, s in ipairs(taken) do s:send "bye" s:close() served = served + 1 end
    while served < 30 do
      for _ in sel:wait(10) do
        local s = listener:accept()
        if s then s:send "bye" s:close() served = served + 1 end
      end
    end
    print "done"
  ]]
  local child <close> = t.spawn("sh -c " .. t.quote("ulimit -n 24; exec " .. t.lio() .. " " .. path))
  local port = tonumber(child:line())
  t.ok(port, "the child wrote no port")
  local clients = {}
  for i = 1, 30 do
    clients[i] = socket.create "tcp"
    clients[i]:connect("127.0.0.1", port)
  end
  t.eq(child:line(), "accept: Too many open files (os error 24)\tEMFILE")
  t.eq(child:line(), "reported again")
  t.eq(child:line(), "accepted")
  t.eq(child:line(), "done")
  for i, c in ipairs(clients) do
    t.eq(loopback.receive(c, 3), "bye", "client " .. i)
    c:close()
  end
  t.eq(child:close(), 0)
end)

t.test("create and pair return EMFILE too", function()
  local path = script [[
    local list = {}
    local function until_full(make)
      while true do
        local s, a, b = make()
        if not s then return print(a, b) end
        list[#list + 1], list[#list + 2] = s, a
      end
    end
    until_full(socket.pair)
    until_full(function() return socket.create "tcp" end)
  ]]
  local result = t.run("ulimit -n 24; " .. t.lio() .. " " .. path)
  t.eq(result.out, "socketpair: Too many open files (os error 24)\tEMFILE\n"
    .. "socket: Too many open files (os error 24)\tEMFILE\n")
end)

t.test("two processes serve one port with reuseport", function()
  local mine <close> = socket.create "tcp"
  mine:option("reuseport", true)
  mine:bind("127.0.0.1", 0)
  mine:listen()
  local _, port = mine:info "socket":value()
  local path = script([[
    local listener = socket.create "tcp"
    listener:option("reuseport", true)
    assert(listener:bind("127.0.0.1", ]] .. port .. [[))
    assert(listener:listen())
    print "listening"
    io.stdout:flush()
    local sel = lio.create()
    sel:event_add(listener, lio.SELECT_READ)
    while true do
      for _ in sel:wait(20) do
        local s = listener:accept()
        if s then s:send "child" s:close() end
      end
    end
  ]])
  local child <close> = t.spawn(t.lio() .. " " .. path)
  t.eq(child:line(), "listening")
  local refused <close> = socket.create "tcp"
  t.eq(select(3, refused:bind("127.0.0.1", port)), "in use", "without reuseport the port is taken")
  local served = { child = 0, parent = 0 }
  for _ = 1, 60 do
    local c <close> = socket.create "tcp"
    c:connect("127.0.0.1", port)
    local sel <close> = require "lio".create()
    sel:event_add(c, 1, "client")
    sel:event_add(mine, 1, "mine")
    local answer
    repeat
      for who in sel:wait(10) do
        if who == "client" then answer = c:recv() end
        local s = who == "mine" and mine:accept()
        if s then s:send "parent" s:close() end
      end
    until answer
    served[answer] = served[answer] + 1
  end
  t.ok(served.child > 0 and served.parent > 0, t.show(served))
end)

t.test("socket.fd makes a descriptor that another program left blocking non-blocking", function()
  local path = script [[
    local s = assert(socket.fd(0))
    print(s:recv())
    print(s:send "out")
  ]]
  local listener <close>, port = loopback.listener()
  -- bash opens the connection as a blocking socket, and passes it to the child as descriptor 0.
  local command = string.format("exec %s %s 0<>/dev/tcp/127.0.0.1/%d", t.lio(), path, port)
  local pipe <close> = io.popen("bash -c " .. t.quote(command))
  loopback.await(listener)
  local server <close> = listener:accept()
  t.eq(pipe:read "l", "false")
  t.eq(pipe:read "l", "3")
  t.eq(loopback.receive(server, 3), "out")
end)

t.finish()
