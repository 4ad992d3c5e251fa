-- A client like those of language servers and debuggers, on bee.select and bee.socket only. Its udata are functions. It
-- requests SELECT_WRITE only while it has data to write, and replaces its registration when the connection is
-- established. Regression: event_add refused the second registration, so the client received none of its 20,000 bytes.

local t = require "tests.kit"
local lio = require "lio"
local select_ = require "bee.select"
local socket = require "bee.socket"

local READ <const>, WRITE <const> = select_.SELECT_READ, select_.SELECT_WRITE
local TOTAL <const> = 20000

-- Returns the client's network layer, which has one selector with functions as udata. `how` is one of the variants
-- below.
local function network(how)
  local selector = select_.create()
  local net = { selector = selector }

  local Stream = {}
  Stream.__index = Stream

  local function ask(self, events)
    self.events = events
    selector:event_mod(self.fd, events)
  end

  function Stream:write(data)
    if self.queued == "" and self.connected then ask(self, self.events | WRITE) end
    self.queued = self.queued .. data
  end

  function Stream:close()
    if self.closed then return end
    self.closed = true
    selector:event_del(self.fd)
    self.fd:close()
    -- Programs for bee remove a registration twice, so this client does it too.
    selector:event_del(self.fd)
    self.on_close()
  end

  local function readable(self)
    local data = self.fd:recv()
    if data then
      self.on_data(data)
    elseif data == nil then
      self:close()
    end
  end

  local function writable(self)
    local n = self.fd:send(self.queued)
    if n == nil then return self:close() end
    self.queued = self.queued:sub((n or 0) + 1)
    if self.queued == "" then ask(self, self.events & ~WRITE) end
  end

  local function serve(self)
    return function(event)
      if event & READ ~= 0 and not self.closed then readable(self) end
      if event & WRITE ~= 0 and not self.closed then writable(self) end
    end
  end

  -- Called when the connection is established: registers the descriptor with other events and another function.
  local function established(self)
    self.connected = true
    self.events = self.queued == "" and READ or READ | WRITE
    if how.del then selector:event_del(self.fd) end
    assert(selector:event_add(self.fd, self.events, serve(self)))
  end

  function net.connect(protocol, ...)
    local fd = assert(socket.create(protocol))
    local self = setmetatable({ fd = fd, queued = "", events = WRITE }, Stream)
    if how.early then assert(selector:event_add(fd, WRITE, function() end)) end
    local done, message = fd:connect(...)
    assert(done ~= nil, message)
    assert(selector:event_add(fd, WRITE, function()
      local ok, why = fd:status()
      if not ok then
        self.message = why
        return self:close()
      end
      established(self)
    end))
    return self
  end

  function net.listen(protocol, ...)
    local fd = assert(socket.create(protocol))
    assert(fd:bind(...))
    assert(fd:listen())
    assert(selector:event_add(fd, READ, function()
      local accepted = fd:accept()
      if not accepted then return end
      local self = setmetatable({ fd = accepted, queued = "", connected = true, events = READ }, Stream)
      self.on_close = function() end
      self.on_data = function(data) self:write(data) end
      assert(selector:event_add(accepted, READ, serve(self)))
    end))
    return fd
  end

  function net.update()
    for func, event in selector:wait(how.timeout) do func(event) end
  end

  return net
end

local function echoes(how, protocol, where)
  local net = network(how)
  local listener = net.listen(protocol, where())
  local client = net.connect(protocol, listener:info "socket")
  local got, closed = {}, false
  client.on_data = function(data) got[#got + 1] = data end
  client.on_close = function() closed = true end
  local expected, length = {}, 0
  -- When a piece is written, the previous one may or may not have been sent.
  for i = 1, 200 do
    local piece = string.char(97 + i % 26):rep(100)
    expected[i] = piece
    length = length + #piece
    client:write(piece)
    if i % 3 == 0 then net.update() end
  end
  t.eq(length, TOTAL)
  local deadline = lio.now() + 20
  repeat
    net.update()
    local received = #table.concat(got)
  until received >= TOTAL or closed or lio.now() > deadline
  t.eq(closed, false, client.message)
  t.eq(#table.concat(got), TOTAL)
  t.ok(table.concat(got) == table.concat(expected))
  client:close()
  listener:close()
  net.selector:close()
end

local function tcp() return "127.0.0.1", 0 end

for _, how in ipairs {
  { name = "replaces its registration", timeout = 50 },
  { name = "replaces its registration and polls", timeout = 0 },
  { name = "replaces its registration and waits for a fraction of a millisecond", timeout = 0.05 },
  { name = "deletes its registration first", del = true, timeout = 50 },
  { name = "registers before it connects", early = true, timeout = 50 },
} do
  t.test("a client that " .. how.name .. " gets all its bytes back over TCP", function()
    echoes(how, "tcp", tcp)
  end)
  t.test("a client that " .. how.name .. " gets all its bytes back over a unix socket", function()
    local path = t.tmp() .. "/s"
    echoes(how, "unix", function() return path end)
  end)
end

t.test("a client gets one event if its server has closed the listener", function()
  local listener = assert(socket.create "tcp")
  assert(listener:bind(tcp()))
  assert(listener:listen())
  local where = listener:info "socket"
  listener:close()
  local selector <close> = select_.create()
  local fd = assert(socket.create "tcp")
  t.eq(fd:connect(where), false)
  local calls = 0
  assert(selector:event_add(fd, READ | WRITE, function(event)
    calls = calls + 1
    t.eq(event, READ | WRITE)
    t.eq({ fd:status() }, { nil, "connect: Connection refused (os error 111)", "refused" })
    selector:event_del(fd)
    fd:close()
  end))
  local round = 0
  repeat
    for func, event in selector:wait(round == 0 and 5000 or 0) do func(event) end
    round = round + 1
  until round == 3
  t.eq(calls, 1)
end)

t.test("the client's network layer reports a closed listener once", function()
  local net = network { timeout = 5000 }
  local listener = net.listen("tcp", tcp())
  local where = listener:info "socket"
  net.selector:event_del(listener)
  listener:close()
  local closed = 0
  local client = net.connect("tcp", where)
  client.on_close = function() closed = closed + 1 end
  client:write "x"
  net.update()
  t.eq(closed, 1)
  t.eq(client.message, "connect: Connection refused (os error 111)")
  net.selector:close()
end)

t.finish()
