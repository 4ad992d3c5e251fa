-- event_add, event_mod and event_del with all kinds of descriptors, and with values that are not descriptors.

local t = require "tests.kit"
local lio = require "lio"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local events, READ <const>, WRITE <const> = loopback.events, lio.SELECT_READ, lio.SELECT_WRITE

-- Adds, changes and deletes the registration of `fd`, and checks its events. `fd` must be ready for `bit`.
local function serves(fd, bit)
  local sel <close> = lio.create()
  t.eq({ sel:event_add(fd, bit) }, { true })
  t.eq(sel:count(), 1)
  t.eq(events(sel, 5), { [fd] = bit }, "udata is the descriptor itself")
  t.eq({ sel:event_add(fd, bit) }, { nil, "event_add: already registered", "exists" })
  t.eq({ sel:event_mod(fd, 0) }, { true })
  t.eq(events(sel, 0.01), {})
  t.eq({ sel:event_mod(fd, bit, "named") }, { true })
  t.eq(events(sel, 5), { named = bit })
  t.eq({ sel:event_mod(fd, bit) }, { true })
  t.eq(events(sel, 5), { named = bit }, "udata stays")
  t.eq({ sel:event_del(fd) }, { true })
  t.eq(events(sel, 0.01), {})
  t.eq(sel:count(), 0)
  t.eq({ sel:event_del(fd) }, { nil, "event_del: descriptor is not registered", "not found" })
  t.eq({ sel:event_mod(fd, bit) }, { nil, "event_mod: descriptor is not registered", "not found" })
  t.eq(events(sel, 0.01), {}, "event_mod does not register an unknown descriptor")
end

t.test("a socket can be registered", function()
  local a, b = loopback.tcp()
  a:send "x"
  loopback.await(b)
  serves(b, READ)
  serves(b, WRITE)
  a:close() b:close()
end)

t.test("the descriptor of a lio socket can be registered as a lightuserdata or an integer", function()
  local a, b = socket.pair()
  a:send "x"
  serves(b:handle(), READ)
  serves(loopback.number(b:handle()), READ)
  serves(b:handle(), WRITE)
  a:close() b:close()
end)

t.test("a foreign descriptor can be registered as a lightuserdata or an integer", function()
  local handle, a = loopback.foreign()
  a:send "x"
  serves(handle, READ)
  serves(loopback.number(handle), READ)
  serves(handle, WRITE)
  loopback.close(handle)
  a:close()
end)

t.test("the object, its handle and its number are one registration", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  t.ok(sel:event_add(b:handle(), READ, "b"))
  t.eq(select(2, sel:event_add(b, READ)), "event_add: already registered")
  t.ok(sel:event_mod(b, READ | WRITE))
  t.eq(events(sel, 5), { b = WRITE })
  t.ok(sel:event_del(loopback.number(b:handle())))
  t.eq(sel:count(), 0)
  a:close() b:close()
end)

t.test("a socket that is registered by its handle is not reported after all its data was read", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  sel:event_add(b:handle(), READ, "b")
  a:send "xy"
  t.eq(events(sel, 5), { b = READ })
  b:recv(1)
  t.eq(events(sel, 5), { b = READ })
  b:recv()
  t.eq(events(sel, 0), {})
  a:close() b:close()
end)

t.test("a file* of a pipe can be registered for reading or for writing", function()
  local p = io.popen "echo one; echo two; cat /dev/zero 2>/dev/null | head -c 1"
  p:setvbuf "no"
  serves(p, READ)
  local sel <close> = lio.create()
  sel:event_add(p, READ, "p")
  for byte in ("one\ntwo\n"):gmatch "." do
    t.eq(events(sel, 5), { p = READ })
    t.eq(p:read(1), byte)
  end
  sel:event_del(p)
  p:close()
  local w = io.popen("cat >/dev/null", "w")
  serves(w, WRITE)
  w:close()
end)

t.test("tables and userdata with a method handle, fileno or getfd can be registered", function()
  local a, b = socket.pair()
  a:send "x"
  for _, name in ipairs { "handle", "fileno", "getfd" } do
    serves({ [name] = function() return b:handle() end }, READ)
    serves({ [name] = function() return loopback.number(b:handle()) end }, READ)
    serves({ [name] = function() return b end }, READ)
  end
  local class = { fileno = function(self) return self.socket end }
  class.__index = class
  serves(setmetatable({ socket = b }, class), READ)
  local nested = { handle = function() return { getfd = function() return b end } end }
  serves(nested, READ)
  a:close() b:close()
end)

t.test("the descriptor of another library's full userdata comes from its methods", function()
  local watcher = require "lio.signal".open "SIGUSR1"
  require "lio.signal".raise "SIGUSR1"
  serves(watcher, READ)
  watcher:close()
end)

t.test("a value that is not a descriptor raises an error that names its type", function()
  local sel <close> = lio.create()
  for _, wrong in ipairs { "7", true, {}, 1.5, print, coroutine.create(print) } do
    t.raises("bad argument #1 to 'event_add' %(descriptor expected, got ", function()
      sel:event_add(wrong, READ)
    end)
  end
  t.raises("descriptor expected, got lio.selector", function() sel:event_add(sel, READ) end)
  t.raises("descriptor expected, got nil", function() sel:event_del(nil) end)
  t.raises("%-1 is not a descriptor", function() sel:event_add(-1, READ) end)
  t.raises("4294967296 is not a descriptor", function() sel:event_add(1 << 32, READ) end)
  t.raises("descriptor expected", function()
    sel:event_add({ handle = function() return "no" end }, READ)
  end)
  local ring = {}
  ring.handle = function() return ring end
  t.raises("descriptor expected, got table", function() sel:event_add(ring, READ) end)
  t.raises("from the method", function()
    sel:event_add({ fileno = function() error "from the method" end }, READ)
  end)
  t.eq(sel:count(), 0)
end)

t.test("event_add of a regular file or a folder returns nil and a message", function()
  local sel <close> = lio.create()
  local dir = t.tmp()
  local message = "event_add: a regular file or directory cannot be waited for: it is always ready"
  for _, path in ipairs { t.write(dir .. "/file", "x"), dir } do
    local f <close> = io.open(path)
    t.eq({ sel:event_add(f, READ) }, { nil, message, "denied" })
  end
  t.eq(sel:count(), 0)
end)

t.test("event_add of a closed object, or of a number that is not open, returns nil and a message", function()
  local sel <close> = lio.create()
  local a, b = socket.pair()
  local handle = b:handle()
  local p = io.popen "true"
  a:close() b:close() p:close()
  for _, closed in ipairs { a, p } do
    t.eq({ sel:event_add(closed, READ) }, { nil, "event_add: descriptor is closed", "closed" })
    t.eq(select("#", sel:event_mod(closed, READ)), 3)
    t.is_nil(sel:event_mod(closed, READ))
    t.is_nil(sel:event_del(closed))
  end
  t.eq({ sel:event_add(handle, READ) },
    { nil, "event_add: Bad file descriptor (os error 9)", "EBADF" })
  t.eq({ sel:event_add(999999, READ) },
    { nil, "event_add: Bad file descriptor (os error 9)", "EBADF" })
  t.eq(sel:count(), 0)
end)

t.test("event_mod returns nil and a message if the descriptor was closed without event_del", function()
  local handle, a = loopback.foreign()
  local sel <close> = lio.create()
  sel:event_add(handle, READ)
  loopback.close(handle)
  t.eq({ sel:event_mod(handle, WRITE) },
    { nil, "event_mod: Bad file descriptor (os error 9)", "EBADF" })
  t.eq(sel:count(), 0, "event_mod removes the registration")
  a:close()
end)

t.test("a closed descriptor that a child process keeps open reports no events for its successor", function()
  local sel <close> = lio.create()
  -- The shell ends at once; its background process writes later, on the pipe that `sleep` inherits.
  local p = io.popen "(sleep 0.2; echo late) & echo started"
  t.eq(p:read "l", "started")
  local number
  for fd in pairs((t.descriptors())) do
    if not number and sel:event_add(fd, READ, "old") then
      if fd > 2 and sel:event_add(p, READ) == nil then number = fd else sel:event_del(fd) end
      if not number then sel:event_del(p) end
    end
  end
  t.ok(number, "the pipe's number")
  os.execute "sleep 0.6 >/dev/null 2>&1 &"
  p:close()
  t.is_nil(sel:event_mod(number, READ), "closed here, so no longer registered")
  local a, b = socket.pair()
  sel:event_add(b, READ, "successor")
  t.eq(events(sel, 0.4), {})
  a:close() b:close()
end)

t.test("udata may be any value; nil means the descriptor", function()
  local a, b = socket.pair()
  a:send "x"
  local sel <close> = lio.create()
  local key = {}
  for _, udata in ipairs { key, print, 0, "", false, 1.5 } do
    sel:event_add(b, READ, udata)
    local got
    for value in sel:wait(5) do got = value end
    t.eq(got, udata)
    sel:event_del(b)
  end
  sel:event_add(b, READ, nil)
  t.eq(events(sel, 5), { [b] = READ })
  a:close() b:close()
end)

t.test("a detached socket's descriptor is foreign and can be registered again", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  sel:event_add(b, READ, "before")
  local handle = b:detach()
  t.eq(sel:count(), 0)
  a:send "x"
  t.eq(events(sel, 0.01), {})
  sel:event_add(handle, READ, "after")
  for _ = 1, 2 do t.eq(events(sel, 5), { after = READ }) end
  sel:event_del(handle)
  loopback.close(handle)
  a:close()
end)

t.test("closing a borrowed socket removes the registration and leaves the descriptor open", function()
  local handle, a = loopback.foreign()
  local sel <close> = lio.create()
  local borrowed = socket.fd(handle, true)
  sel:event_add(borrowed, READ, "borrowed")
  borrowed:close()
  t.eq(sel:count(), 0)
  a:send "x"
  t.eq(events(sel, 0.01), {})
  t.eq(loopback.borrow(handle, function(s) return s:recv() end), "x")
  loopback.close(handle)
  a:close()
end)

t.finish()
