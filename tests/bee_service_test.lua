-- A network service in the style of bee.lua. Its udata are callbacks, its tasks call event_mod to request the events
-- that they wait for, and its accept callback closes the listener if accept returns no connection. It uses only the
-- calls socket, option, bind, listen, accept, recv, send, close, event_add, event_mod, event_del and wait(). The suite
-- shows that such programs run unchanged on bee.select and bee.socket.

local t = require "tests.kit"
require "lio" -- makes the bee modules loadable in a stock Lua
local select_ = require "bee.select"
local socket = require "bee.socket"
local loopback = require "tests.kit.loopback"

local READ <const>, WRITE <const> = select_.SELECT_READ, select_.SELECT_WRITE

-- Returns a new service. Its `objects` are the connections by id, each with the tasks that wait to read and to write.
local function new_service(create)
  local selector = select_.create()
  local objects, next_id = {}, 1
  local runnable = {}
  local service = { accepted = 0 }

  local function wakeup(co) if co then runnable[#runnable + 1] = co end end

  local function register(fd)
    local obj = { fd = fd, flag = 0 }
    function obj.update(event)
      if event & READ ~= 0 then
        wakeup(obj.reader)
        obj.reader = nil
      end
      if event & WRITE ~= 0 then
        wakeup(obj.writer)
        obj.writer = nil
      end
      obj.flag = obj.flag & ~event
      selector:event_mod(fd, obj.flag)
    end
    selector:event_add(fd, 0, obj.update)
    local id = next_id
    next_id = next_id + 1
    objects[id] = obj
    return id
  end

  local function want(obj, flag)
    obj.flag = obj.flag | flag
    selector:event_mod(obj.fd, obj.flag)
  end

  function service.listen(address, port, serve)
    local fd = assert(create "tcp")
    fd:option("reuseaddr", 1)
    assert(fd:bind(address, port))
    assert(fd:listen())
    selector:event_add(fd, READ, function()
      local newfd, message = fd:accept()
      if not newfd then
        -- If the listener gets an event without a connection, the service fails, so this must not happen.
        selector:event_del(fd)
        fd:close()
        service.failure = message or "accept returned no connection"
        return
      end
      service.accepted = service.accepted + 1
      wakeup(coroutine.create(function() serve(register(newfd)) end))
    end)
    function service.stop()
      selector:event_del(fd)
      fd:close()
    end
    return fd
  end

  function service.recv(id)
    local obj = objects[id]
    local data, message = obj.fd:recv()
    while data == false do
      obj.reader = coroutine.running()
      want(obj, READ)
      coroutine.yield()
      data, message = obj.fd:recv()
    end
    return data, message
  end

  function service.send(id, data)
    local obj = objects[id]
    while data ~= "" do
      local n, message = obj.fd:send(data)
      if n == nil then return nil, message end
      if n then
        data = data:sub(n + 1)
      else
        obj.writer = coroutine.running()
        want(obj, WRITE)
        coroutine.yield()
      end
    end
    return true
  end

  function service.close(id)
    local obj = objects[id]
    objects[id] = nil
    selector:event_del(obj.fd)
    obj.fd:close()
  end

  function service.run(task)
    wakeup(coroutine.create(task))
    local main = runnable[1]
    while coroutine.status(main) ~= "dead" do
      local list = runnable
      runnable = {}
      for _, co in ipairs(list) do assert(coroutine.resume(co)) end
      if #runnable == 0 and coroutine.status(main) ~= "dead" then
        if service.before_wait then service.before_wait() end
        for update, event in selector:wait() do update(event) end
      end
    end
  end

  service.register = register
  function service.leave() selector:close() end
  return service
end

-- Runs clients and a server in one service. Each client sends `size` bytes and expects the same bytes back.
local function echoes(create, clients, size)
  local service = new_service(create)
  local listener = service.listen("127.0.0.1", 0, function(id)
    while true do
      local data = service.recv(id)
      if not data or not service.send(id, data) then break end
    end
    service.close(id)
  end)
  local where = listener:info "socket"
  service.run(function()
    local done, main, waiting = 0, coroutine.running(), false
    for i = 1, clients do
      local fd = create "tcp"
      fd:connect(where)
      local id = service.register(fd)
      local data = string.char(i % 256):rep(size)
      local function client()
        -- The data may fill the buffers of both directions, so another task sends while this one reads.
        local writer = coroutine.create(function() assert(service.send(id, data)) end)
        assert(coroutine.resume(writer))
        local pieces, length = {}, 0
        while length < size do
          local piece = assert(service.recv(id))
          pieces[#pieces + 1] = piece
          length = length + #piece
        end
        assert(table.concat(pieces) == data, "client " .. i .. " got other bytes")
        service.close(id)
        done = done + 1
        if done == clients and waiting then assert(coroutine.resume(main)) end
      end
      assert(coroutine.resume(coroutine.create(client)))
    end
    if done < clients then
      waiting = true
      coroutine.yield()
    end
    service.stop()
  end)
  t.is_nil(service.failure)
  t.eq(service.accepted, clients)
  service.leave()
  collectgarbage()
end

t.test("a client gets its bytes back", function() echoes(socket.create, 1, 5) end)

t.test("the module can be called to create sockets", function() echoes(socket, 1, 5) end)

t.test("fifty clients get their bytes back at the same time", function() echoes(socket.create, 50, 1000) end)

t.test("clients get back more bytes than any buffer holds", function() echoes(socket.create, 3, 8 << 20) end)

t.test("the accept callback is called only if there is a connection", function()
  local service = new_service(socket.create)
  local listener = service.listen("127.0.0.1", 0, function(id) service.close(id) end)
  local where = listener:info "socket"
  service.run(function()
    for _ = 1, 20 do
      local fd = socket.create "tcp"
      fd:connect(where)
      local id = service.register(fd)
      t.is_nil((service.recv(id)))
      service.close(id)
    end
    service.stop()
  end)
  t.is_nil(service.failure)
  t.eq(service.accepted, 20)
  service.leave()
end)

t.test("a service that waits in the selector receives what an unregistered socket sends", function()
  local a, b = loopback.tcp()
  local service = new_service(socket.create)
  local id = service.register(b)
  local waited = false
  service.run(function()
    service.before_wait = function()
      waited = true
      a:send "hello"
      service.before_wait = nil
    end
    t.eq(service.recv(id), "hello")
    t.ok(waited)
    t.ok(service.send(id, "bye"))
    service.close(id)
  end)
  t.eq(loopback.receive(a), "bye")
  service.leave()
  a:close()
end)

t.finish()
