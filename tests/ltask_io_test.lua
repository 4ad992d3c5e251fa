-- An I/O service like those of programs for ltask. It owns a selector of `bee.select`, in which the service's event
-- descriptor and its sockets are registered with functions as udata. Other services send this service the
-- requests `accept`, `connect`, `recv` and `send`. The service is tested in both generations, and as an exclusive
-- service without a service library.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The handlers of the I/O service, in `S`, which identify sockets by integers. A request that would block waits for an
-- event: the selector calls the descriptor's function with the event.
local requests <const> = [[
  require "lio"
  local select, socket = require "bee.select", require "bee.socket"
  local READ <const>, WRITE <const> = select.SELECT_READ, select.SELECT_WRITE
  local selector = select.create()
  local S, files, last = {}, {}, 0

  -- Registers a socket and returns its id. The selector calls the socket's function, which wakes requests.
  local function enter(fd)
    last = last + 1
    local file = { fd = fd, asked = 0 }
    files[last] = file
    assert(selector:event_add(fd, 0, function(event)
      file.asked = file.asked & ~event
      selector:event_mod(fd, file.asked)
      for _, bit in ipairs { READ, WRITE } do
        local co = file[bit]
        if event & bit ~= 0 and co then
          file[bit] = nil
          ltask.wakeup(co)
        end
      end
    end))
    return last
  end

  local function wait_for(file, bit)
    assert(not file[bit], "two requests wait for the same event")
    local co = coroutine.running()
    file[bit] = co
    file.asked = file.asked | bit
    assert(selector:event_mod(file.fd, file.asked))
    ltask.wait(co)
    assert(not file.closed, "closed")
  end

  -- Calls `f(file.fd, ...)` until it does not block, and returns its results.
  local function try(file, bit, f, ...)
    while true do
      local result, message = f(file.fd, ...)
      if result ~= false then return result, message end
      wait_for(file, bit)
    end
  end

  function S.listen(address, port)
    local fd = assert(socket.create "tcp")
    fd:option("reuseaddr", 1)
    assert(fd:bind(address, port))
    assert(fd:listen())
    local _, bound = fd:info "socket":value()
    return enter(fd), bound
  end

  function S.accept(id)
    local file = files[id]
    return enter((assert(try(file, READ, file.fd.accept))))
  end

  function S.connect(address, port)
    local fd = assert(socket.create "tcp")
    local done, message = fd:connect(address, port)
    if done == nil then
      fd:close()
      return nil, message
    end
    local id = enter(fd)
    if not done then wait_for(files[id], WRITE) end
    local ok, why = fd:status()
    if not ok then
      S.close(id)
      return nil, why
    end
    return id
  end

  function S.recv(id)
    local file = files[id]
    return try(file, READ, file.fd.recv)
  end

  function S.send(id, data)
    local file = files[id]
    repeat
      local n = assert(try(file, WRITE, file.fd.send, data))
      data = data:sub(n + 1)
    until data == ""
    return true
  end

  function S.close(id)
    local file = files[id]
    files[id] = nil
    file.closed = true
    selector:event_del(file.fd)
    file.fd:close()
    for _, bit in ipairs { READ, WRITE } do
      if file[bit] then ltask.wakeup(file[bit]) end
    end
  end

  function S.files()
    local count = 0
    for _ in pairs(files) do count = count + 1 end
    return count
  end

]]

-- The program of an ordinary service that uses the I/O service `io`. It consists of an echo server and eight concurrent
-- clients that send more bytes than a socket accepts at once. Then it closes the listener during an accept, and
-- connects to a port without a listener.
local use <const> = [[
  local function call(...) return ltask.call(io, ...) end
  local listener, port = call("listen", "127.0.0.1", 0)
  ltask.fork(function()
    while true do
      local ok, id = pcall(call, "accept", listener)
      if not ok then
        say("accept ended", (id and tostring(id):match "closed"))
        return ltask.wakeup "accept ended"
      end
      ltask.fork(function()
        while true do
          local data = call("recv", id)
          if not data then break end
          call("send", id, data)
        end
        call("close", id)
      end)
    end
  end)
  local sum, ended = 0, 0
  for i = 1, 8 do
    ltask.fork(function()
      local id = assert(call("connect", "127.0.0.1", port))
      local message = string.char(96 + i):rep(300000)
      ltask.fork(function() call("send", id, message) end)
      local pieces, length = {}, 0
      while length < #message do
        local piece = assert(call("recv", id))
        pieces[#pieces + 1], length = piece, length + #piece
      end
      if table.concat(pieces) == message then sum = sum + length end
      call("close", id)
      ended = ended + 1
      if ended == 8 then ltask.wakeup "ended" end
    end)
  end
  ltask.wait "ended"
  say(sum)
  call("close", listener)
  ltask.wait "accept ended"
  say(call("connect", "127.0.0.1", port))
  while call "files" > 0 do ltask.sleep(1) end
]]

local expected <const> = {
  "2400000", "accept ended\tclosed", "nil\tconnect: Connection refused (os error 111)",
}

kit.test("an I/O service may use an idle handler (second generation)", {
  services = { io = requests .. [[
    local waitfunc, fd = ltask.eventinit()
    local ltaskfd = socket.fd(fd)
    selector:event_add(ltaskfd, READ, waitfunc)
    ltask.idle_handler(function()
      for func, event in selector:wait() do
        func(event)
      end
    end)
    return S
  ]] },
  main = [[ local io = ltask.spawn "io" ]] .. use,
  out = expected,
})

kit.test("an I/O service may be unique, and its quit handler may end it", {
  services = { io = requests .. [[
    local waitfunc, fd = ltask.eventinit()
    selector:event_add(socket.fd(fd), select.SELECT_READ, waitfunc)
    ltask.idle_handler(function()
      for func, event in selector:wait() do func(event) end
    end)
    function S.quit() ltask.quit() end
    return S
  ]] },
  main = [[
    local io = ltask.uniqueservice "io"
    ]] .. use .. [[
    pcall(ltask.call, io, "quit")
    say((pcall(ltask.call, io, "files")))
  ]],
  out = { expected[1], expected[2], expected[3], "false" },
})

kit.test("an I/O service may be exclusive (first generation)", {
  services = { io = requests .. [[
    local exclusive = require "ltask.exclusive"
    local waitfunc, fd = exclusive.eventinit()
    local ltaskfd = socket.fd(fd)
    selector:event_add(ltaskfd, READ, function() waitfunc() end)
    function ltask.on_idle()
      for func, event in selector:wait() do
        func(event)
      end
      ltask.dispatch_wakeup()
    end
    return S
  ]] },
  config = { exclusive = { "io" } },
  main = [[ local io = ltask.queryservice "io" ]] .. use,
  out = expected,
})

kit.test("an exclusive I/O service works even if it does not call dispatch_wakeup", {
  services = { io = requests .. [[
    local waitfunc, fd = require "ltask.exclusive".eventinit()
    selector:event_add(socket.fd(fd), READ, waitfunc)
    function ltask.on_idle()
      for func, event in selector:wait() do func(event) end
    end
    ltask.dispatch(S)
  ]] },
  config = { exclusive = { "io" } },
  main = [[ local io = ltask.queryservice "io" ]] .. use,
  out = expected,
})

-- A package such as ant.net is loaded into the I/O service later and adds requests. In the original ltask it finds the
-- table of the handlers in an upvalue of the dispatcher, which is on the stack.
kit.test("code that an I/O service loads later finds the service's handlers and its selector", {
  services = { io = requests .. [[
    local waitfunc, fd = ltask.eventinit()
    selector:event_add(socket.fd(fd), READ, waitfunc)
    ltask.idle_handler(function()
      for func, event in selector:wait() do func(event) end
    end)
    function S.load(text, ...)
      local results = table.pack(assert(load(text))(...))
      return table.unpack(results, 1, results.n)
    end
    return S
  ]] },
  main = [[
    local io = ltask.spawn "io"
    say(ltask.call(io, "load", [=[
      local ltask = require "ltask"
      local socket = require "bee.socket"
      local requests = ltask.dispatch()
      local selector
      for _, f in pairs(requests) do
        for index = 1, 255 do
          local name, value = debug.getupvalue(f, index)
          if not name then break end
          if name == "selector" then selector = value end
        end
      end
      -- Registers a socket of the package with the service's selector.
      local a, b = socket.pair()
      selector:event_add(b, 1, function() ltask.wakeup(b, b:recv()) end)
      function requests.through(data)
        a:send(data)
        return ltask.wait(b)
      end
      return type(requests.listen), type(selector)
    ]=]))
    for i = 1, 50 do assert(ltask.call(io, "through", "text " .. i) == "text " .. i) end
    say(ltask.call(io, "through", "the last"))
  ]],
  out = { "function\tuserdata", "the last" },
})

-- The service has only a main coroutine, as in a custom library of the first generation. The coroutine is resumed after
-- each yield, blocks in the selector, and receives all messages.
kit.test("an exclusive service may run its own loop over a selector of bee.select", {
  root = [[
    raw.next()
    for i = 1, 100 do
      assert(raw.post(2, i, 1, "message " .. i) == 1)
      local from, session, type, what = raw.next()
      assert(from == 2 and session == i and type == 2 and what == "message " .. i, what)
    end
    for i = 1, 500 do assert(raw.post(2, i, 1, i) == 1) end
    local sum = 0
    for _ = 1, 500 do sum = sum + tonumber((select(4, raw.next()))) end
    say(sum)
  ]],
  before = "local source = " .. kit.literal [[
    require "lio"
    local ltask, exclusive = require "ltask", require "ltask.exclusive"
    local select, socket = require "bee.select", require "bee.socket"
    local selector = select.create()
    local waitfunc, fd = exclusive.eventinit()
    selector:event_add(socket.fd(fd), select.SELECT_READ, waitfunc)
    local function post(to, session, type, ...)
      local p, n = ltask.pack(...)
      while not exclusive.send(to, session, type, p, n) do exclusive.scheduling()() end
    end
    -- Each message is sent to one end of a socket pair and received at the other end.
    local a, b = socket.pair()
    local queue = {}
    selector:event_add(b, select.SELECT_READ, function()
      for session, data in b:recv():gmatch "(%d+) ([^\n]*)\n" do post(1, math.tointeger(session), 2, data) end
    end)
    selector:event_add(a, 0, function(event)
      assert(event == select.SELECT_WRITE)
      a:send(table.remove(queue, 1))
      if #queue == 0 then selector:event_mod(a, 0) end
    end)
    while true do
      for func, event in selector:wait() do func(event) end
      while true do
        local from, session, type, p, n = ltask.recv_message()
        if not from then break end
        local what = ltask.unpack_remove(p, n)
        if type == 1 and session > 0 then
          queue[#queue + 1] = session .. " " .. what .. "\n"
          selector:event_mod(a, select.SELECT_WRITE)
        end
      end
      coroutine.yield()
    end
  ]] .. [[

    boot.new_service("exclusive", source, 2)
    boot.new_thread(2)
    start(2)
  ]],
  out = { "125250" },
})

t.finish()
