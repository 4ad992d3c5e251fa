-- `lio.net` in a service that has no loop: the same calls and connections, done by requests to one that has
-- (`lio.service`). `require "lio.net.remote" (io)`, or `net.remote(io)`, → the calls.
--
-- Beside it, in `remote/`: requests, what a service has by handle, `recv` and `send`; each made for the `ltask` of
-- the service. Invariant: each connection has one `read` and one `put` under way at most.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local serve = require "lio.net.serve"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local type <const>, sub <const> = type, string.sub
local MOST <const> = 0xffffffff -- the highest address of a service

local requests = require "lio.net.remote.request" (ltask)
local finish <const>, ask_for_new <const>, ask <const> = requests.finish, requests.ask_for_new, requests.ask

local classes = require "lio.net.remote.handle" (ltask)
local Connection <const>, Listener <const>, Udp <const> = classes.Connection, classes.Listener, classes.Udp
local check <const> = classes.check

local receive = require "lio.net.remote.receive" (ltask, requests.failure)
local send = require "lio.net.remote.send" (ltask, requests.failure)

-- How the service learns that this one has died. In our scheduler every service has it.
if not package.loaded["ltask.core"] then
  pcall(ltask.dispatch, { ["lio.net.watch"] = function() ltask.wait {} end })
end

local function centiseconds(seconds)
  return math.max(0, math.ceil(seconds * 100))
end

-- The timers that `serve` needs, on ltask's own.
local timers = {}

function timers:add(seconds, value)
  local timer = { value = value }
  ltask.timeout(centiseconds(seconds), function()
    local waits = timer.value
    if waits then waits:expired() end
  end)
  return timer, self
end

function timers:cancel(timer)
  timer.value = nil
  return self ~= nil
end

local instances = {}

local function new(io)
  local api = {}

  local function connection(handle)
    return setmetatable({ io = io, handle = handle, readers = {}, outbox = {}, burst = 0 }, Connection)
  end

  -- A new thing of this service's; `false, message, code` on failure.
  local function made(class, handle, message, code)
    if not handle then return false, message, code end
    if class == Connection then return connection(handle) end
    return setmetatable({ io = io, handle = handle }, class)
  end

  local function request(name, ...)
    return ask_for_new(io, name, ...)
  end

  -- A socket of this VM moves as its descriptor.
  local function request_with(socket, name, ...)
    if type(socket) ~= "userdata" or not socket.detach then misuse.argument(name, 1, "socket", socket) end
    local descriptor = socket:detach()
    local ok, handle, message, code = pcall(call, io, name, descriptor, ...)
    if not ok then
      require "lio.socket".fd(descriptor):close()
      return finish(io, false, handle)
    end
    return handle, message, code
  end

  -- `api.connection(handle)` → the connection of a handle that another service has given to this one.
  function api.connection(handle)
    if math.type(handle) ~= "integer" then
      error("bad argument #1 to 'connection' (handle expected, got " .. type(handle) .. ")", 2)
    end
    return connection(handle)
  end

  -- `api.listener(handle)` → the listener of a handle: to accept from one that another service has.
  function api.listener(handle)
    if math.type(handle) ~= "integer" then
      error("bad argument #1 to 'listener' (handle expected, got " .. type(handle) .. ")", 2)
    end
    return setmetatable({ io = io, handle = handle }, Listener)
  end

  function api.listen(addr, port, opts)
    if type(addr) == "userdata" then return made(Listener, request_with(addr, "listen", port, opts)) end
    return made(Listener, request("listen", addr, port, opts))
  end

  function api.accept(listener)
    check(listener, Listener, "listener", "accept")
    if listener.closed then return false, "closed", "closed" end
    return made(Connection, ask_for_new(listener.io, "accept", listener.handle))
  end

  function api.take_waiting(listener)
    check(listener, Listener, "listener", "take_waiting")
    if listener.closed then return nil end
    return made(Connection, ask_for_new(listener.io, "take_waiting", listener.handle)) or nil
  end

  local Attempt = {}
  Attempt.__index = Attempt
  Attempt.__name = "lio.attempt"
  local attempts = 0

  function Attempt:close()
    self.closed = true
    if self.runs then fork(pcall, call, io, "cancel", self.name) end
    return true
  end

  Attempt.__close = Attempt.close

  function api.attempt()
    attempts = attempts + 1
    return setmetatable({ name = attempts }, Attempt)
  end

  function api.connect(addr, port, opts)
    if opts ~= nil and type(opts) ~= "table" then misuse.argument("connect", 3, "table", opts) end
    local attempt = opts and opts.attempt
    if not attempt then return made(Connection, request("connect", addr, port, opts)) end
    if attempt.closed then return false, "closed", "closed" end
    attempt.runs = true
    local c, message, code = made(Connection,
      request("connect", addr, port, { timeout = opts.timeout, attempt = attempt.name }))
    attempt.runs = false
    if c and attempt.closed then
      c:close()
      return false, "closed", "closed"
    end
    return c, message, code
  end

  function api.wrap(socket)
    return made(Connection, request_with(socket, "wrap"))
  end

  function api.udp(...)
    return made(Udp, request("udp", ...))
  end

  function api.resolve(...)
    return finish(io, pcall(call, io, "resolve", ...))
  end

  function api.recv(c, ...)
    check(c, Connection, "connection", "recv")
    return receive(c, ...)
  end

  function api.send(c, ...)
    check(c, Connection, "connection", "send")
    return send(c, ...)
  end

  function api.close(x)
    local class = getmetatable(x)
    if class ~= Connection and class ~= Listener and class ~= Udp and class ~= Attempt then
      misuse.argument("close", 1, "connection, listener, datagram socket or attempt", x)
    end
    return x:close()
  end

  local PIECE <const> = 256 * 1024

  local function send_pieces(c, file, left)
    while not left or left > 0 do
      local data = file:read(left and math.min(left, PIECE) or PIECE)
      if not data then return true end
      local ok, message, sent, code = api.send(c, data)
      if not ok then return nil, message, sent, code end
      if left then left = left - #data end
    end
    return true
  end

  -- A file of this VM goes piece by piece; one by its path is sent by the service of the connection.
  function api.sendfile(c, file, offset, length)
    check(c, Connection, "connection", "sendfile")
    if type(file) == "string" then
      -- Behind what is being sent.
      if c.sending or c.outbox[1] then
        local ok, message, sent, code = api.send(c)
        if not ok then return nil, message, sent, code end
      end
      c.outlet = false
      return ask(c, "sendfile", file, offset, length)
    end
    local is_object = type(file) == "userdata" or type(file) == "table"
    if not is_object or not file.read or not file.seek then misuse.argument("sendfile", 2, "path or file", file) end
    if offset ~= nil and not math.tointeger(offset) then misuse.argument("sendfile", 3, "integer", offset) end
    if length ~= nil and not math.tointeger(length) then misuse.argument("sendfile", 4, "integer", length) end
    if offset and offset < 0 then misuse.bad("sendfile", 3, "offset must not be negative") end
    if offset then file:seek("set", offset) end
    return send_pieces(c, file, length)
  end

  function api.shutdown(c, how)
    check(c, Connection, "connection", "shutdown")
    if how ~= "r" and (c.sending or c.outbox[1]) then
      local ok, message, _, code = api.send(c)
      if not ok then return nil, message, code end
    end
    c.outlet = false
    return ask(c, "shutdown", how)
  end

  for _, name in ipairs { "timeout", "option", "sock", "peer", "wait_closed", "recvfrom", "sendto" } do
    api[name] = function(x, ...) return ask(x, name, ...) end
  end

  function api.wait_readable(c, seconds)
    check(c, Connection, "connection", "wait_readable")
    if c.data and not c.closed then return true end
    return ask(c, "wait_readable", seconds)
  end

  function api.buffered(c)
    check(c, Connection, "connection", "buffered")
    local here = c.data and #c.data - c.at + 1 or 0
    return here + (ask(c, "buffered") or 0)
  end

  function api.is_over(c)
    check(c, Connection, "connection", "is_over")
    return c.closed or ask(c, "is_over") ~= false
  end

  -- The connection is no longer this service's, if a request has given it away.
  local function gone(c, result, message, code)
    if result or code == "closed" then c.closed = true end
    return result, message, code
  end

  -- What was read ahead goes back first; a task that reads or sends now is told "closed" by its request.
  local function part_with(c, name, service, ...)
    c.outlet = false
    local ahead = c.data and sub(c.data, c.at)
    local result, message, code = ask(c, name, service, ahead, ...)
    if result or code ~= "denied" then c.data = nil end
    return gone(c, result, message, code)
  end

  -- `api.give(c, service)` → the handle, which is that service's now: `api.connection(handle)` there.
  function api.give(c, service)
    check(c, Connection, "connection", "give")
    local ok, message, code = part_with(c, "give", service)
    if not ok then return nil, message, code end
    return c.handle
  end

  function api.transfer(c, service, ...)
    check(c, Connection, "connection", "transfer")
    if math.type(service) ~= "integer" then misuse.argument("transfer", 2, "service", service) end
    local result, message, code = part_with(c, "move", service, ...)
    if result == true then return true end
    if not result then return nil, message, code end
    return instances[service] and instances[service].connection(result) or new(service).connection(result)
  end

  function api.rest(seconds)
    misuse.check_seconds("rest", 1, seconds)
    ltask.sleep(centiseconds(seconds))
  end

  api.start = fork

  serve(api, { sched = { fork = fork, wait = wait, wakeup = wakeup }, timers = timers })

  api.Connection, api.Listener, api.Udp = Connection, Listener, Udp
  instances[io] = api
  return api
end

-- The methods find the calls by their own first argument, so any instance's will do.
local METHODS <const> = {
  [Connection] = {
    "recv", "send", "sendfile", "shutdown", "timeout", "peer", "sock", "option", "wait_readable", "wait_closed",
    "buffered", "is_over", "transfer", "give",
  },
  [Listener] = { "accept", "take_waiting" },
  [Udp] = { "recvfrom", "sendto", "timeout", "option" },
}

local function make_methods(api)
  for class, names in pairs(METHODS) do
    for _, name in ipairs(names) do class[name] = class[name] or api[name] end
  end
end

function Listener:timeout(seconds) return ask(self, "timeout", seconds) end

for class, what in pairs { [Listener] = "listener", [Udp] = "datagram socket" } do
  function class:address()
    check(self, class, what, "address")
    return ask(self, "sock")
  end
end

-- `remote([io])` → the calls, done by service `io`; default: the unique service `lio`.
return function(io)
  if io == nil then io = ltask.uniqueservice "lio" end
  if math.type(io) ~= "integer" then misuse.argument("remote", 1, "service", io) end
  if io < 1 or io > MOST then misuse.bad("remote", 1, ("service expected, got %d"):format(io)) end
  local api = instances[io]
  if not api then
    api = new(io)
    make_methods(api)
  end
  return api
end
