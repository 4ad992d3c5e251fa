-- `lio.net` in a service that has no loop: the same calls and connections, done by requests to one that has
-- (`lio.service`). `require "lio.net.remote" (io)`, or `net.remote(io)`, → the calls.
--
-- A connection reads ahead: what its service has beyond the result comes along, so that a burst of small
-- messages costs few requests. What is sent goes out from here, through the connection's outlet, as long as
-- the system takes it; what several tasks send beyond that goes out together. Invariant: each connection has
-- one `read` and one `put` under way at most, made by a task of its own, so that a task that is killed while
-- it waits loses nothing that was received, and stops nobody else. `outlet` is false once another request has
-- to do with what is sent: from then on the requests' order is that of the bytes.

local ltask = require "ltask"
local outlet = require "lio.outlet"
local serve = require "lio.net.serve"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local pack <const>, unpack <const>, type <const> = table.pack, table.unpack, type
local find <const>, sub <const> = string.find, string.sub

-- How the service learns that this one has died. In our scheduler every service has it.
if not package.loaded["ltask.core"] then
  pcall(ltask.dispatch, { ["lio.net.watch"] = function() ltask.wait {} end })
end

local function centiseconds(seconds)
  return math.max(0, math.ceil(seconds * 100))
end

-- A request's error: I/O by a service that is gone has failed; anything else is misuse.
local function failure(err, io)
  local text = type(err) == "table" and err.message or tostring(err)
  if find(text, ("{service:%d} is dead"):format(io), 1, true) then return text, "dead" end
  -- Where the service found it is not where the caller made it.
  return nil, text:gsub("^[^:\n]+:%d+: (bad argument)", "%1", 1)
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

local Connection = {}
Connection.__index = Connection
Connection.__name = "lio.remote connection"

local Listener = {}
Listener.__index = Listener
Listener.__name = "lio.remote listener"

local Udp = {}
Udp.__index = Udp
Udp.__name = "lio.remote udp"

local function check(x, class, what, name)
  if getmetatable(x) ~= class then
    error(("bad argument #1 to '%s' (%s expected, got %s)"):format(name, what, type(x)), 3)
  end
end

-- → the results of a request, or nil, message, code when its service is dead; misuse is raised, at a level
-- of who tail-calls this.
local function finish(io, level, ok, ...)
  if ok then return ... end
  local message, code = failure((...), io)
  if not message then error(code, level) end
  return nil, message, code
end

-- A request for something new. Whoever is killed while it is made does not leave it open; a connection that
-- was accepted goes to the next.
local function ask_for_new(io, name, ...)
  local token = {}
  fork(function(...)
    local ok, handle, message, code = pcall(call, io, name, ...)
    if wakeup(token, ok, handle, message, code) or not ok or not handle then return end
    if name == "accept" then
      pcall(call, io, "put_back", (...), handle)
    else
      pcall(call, io, "close", handle)
    end
  end, ...)
  return finish(io, 3, wait(token))
end

local function ask(x, name, ...)
  if x.closed then return nil, "closed", "closed" end
  return finish(x.io, 2, pcall(call, x.io, name, x.handle, ...))
end

-- Reading ------------------------------------------------------------------------------------------

-- What a reader that was killed did not take goes back to the front.
local function put_back(c, value, form, delimiter)
  if form == "line" then
    value = value .. "\n"
  elseif form == "until" then
    value = value .. delimiter
  end
  c.data = c.data and value .. sub(c.data, c.at) or value
  c.at = 1
end

-- Who reads: `mine` once it has the turn. While a request is under way, the turn is the request's.
local Turn = {}

local function next_reader(c)
  local turn = table.remove(c.readers, 1)
  c.reading = turn ~= nil
  if turn then
    turn.mine = true
    wakeup(turn)
  end
end

function Turn.__close(turn)
  local c = turn.c
  if turn.mine then
    if not c.fetching then return next_reader(c) end
    -- Killed: the request ends, and hands the turn on then.
    fork(pcall, call, c.io, "stop_read", c.handle)
    return
  end
  for at, other in ipairs(c.readers) do
    if other == turn then
      table.remove(c.readers, at)
      return
    end
  end
end

local function read_task(c, token, ahead, form, ...)
  local ok, value, message, partial, code = pcall(call, c.io, "read", c.handle, ahead, form, ...)
  c.fetching = false
  if ok and value then
    -- Beyond what was asked for.
    if message and not c.closed then c.data, c.at = message, 1 end
    message = nil
  end
  if wakeup(token, ok, value, message, partial, code) then return end
  if ok and (value or partial) and not c.closed then put_back(c, value or partial, value and form, ...) end
  next_reader(c)
end

-- Takes what is there already, for the forms and limits that are plain. → value, or nil: ask.
local function take(c, form, limit, more)
  local data, at = c.data, c.at
  if form == nil then
    c.data = nil
    return at == 1 and data or sub(data, at)
  end
  local first, last
  if form == "line" then
    first, last = find(data, "\n", at, true)
    if first and limit and first - at > limit then return nil end
    if first and first > at and data:byte(first - 1) == 13 then first = first - 1 end
  elseif form == "until" and type(limit) == "string" and limit ~= "" then
    first, last = find(data, limit, at, true)
    if first and more and first - at > more then return nil end
  elseif math.type(form) == "integer" and form >= 0 then
    last = at + form - 1
    first = at + form
    if last > #data then return nil end
  end
  if not first then return nil end
  if last == #data then c.data = nil else c.at = last + 1 end
  return sub(data, at, first - 1)
end

local function receive_in_turn(c, ...)
  local turn <close> = setmetatable({ c = c, mine = not c.reading }, Turn)
  if turn.mine then
    c.reading = true
  else
    c.readers[#c.readers + 1] = turn
    wait(turn)
  end
  if c.data then
    local value = take(c, ...)
    if value then return true, value end
  end
  if c.closed then return true, nil, "closed", nil, "closed" end
  local ahead = c.data and sub(c.data, c.at)
  c.data, c.fetching, c.burst = nil, true, 0
  fork(read_task, c, turn, ahead, ...)
  return wait(turn)
end

local function received(io, ok, value, message, partial, code)
  if ok then
    if value or not message then return value end
    return nil, message, partial, code
  end
  message, code = failure(value, io)
  if not message then error(code, 2) end
  return nil, message, nil, code
end

-- Sending ------------------------------------------------------------------------------------------

-- Tells the senders of one batch how it ended; `sent` bytes of all are gone when it failed. When it did not,
-- `message` is the number of the connection's outlet.
local function report(c, batch, ok, done, message, sent, code)
  if not (ok and done) then
    c.outlet = c.outlet and nil
  elseif c.outlet == nil and message then
    c.outlet = outlet.find(message)
  end
  for _, one in ipairs(batch) do
    if not ok then
      wakeup(one, ok, done)
    elseif done then
      wakeup(one, true, true)
    else
      local mine = math.min(sent, one.size)
      sent = sent - mine
      if mine == one.size and mine > 0 then
        wakeup(one, true, true)
      else
        wakeup(one, true, nil, message, mine, code)
      end
    end
  end
end

local function send_task(c)
  while c.outbox[1] do
    local batch = c.outbox
    c.outbox = {}
    if #batch == 1 then
      report(c, batch, pcall(call, c.io, "put", c.handle, unpack(batch[1], 1, batch[1].n)))
    else
      local pieces, n = {}, 0
      for _, one in ipairs(batch) do
        table.move(one, 1, one.n, n + 1, pieces)
        n = n + one.n
      end
      report(c, batch, pcall(call, c.io, "put", c.handle, unpack(pieces, 1, n)))
    end
  end
  c.sending = false
end

-- One string when there are many: a request has room for some hundred values.
local MANY <const> = 100

local function message_of(...)
  local one = pack(...)
  local size = 0
  for index = 1, one.n do
    local kind = type(one[index])
    if kind == "number" then
      one[index] = tostring(one[index])
    elseif kind ~= "string" then
      error(("bad argument #%d to 'send' (string expected, got %s)"):format(index + 1, kind), 3)
    end
    size = size + #one[index]
  end
  if one.n > MANY then one = { table.concat(one), n = 1 } end
  one.size = size
  return one
end

-- So many messages go out from here without a wait in between; then others get their turn.
local BURST <const> = 32

-- Sends what the system takes now. → true: that was all; else how many bytes that is, or false and
-- what `send` returns for a failure.
local function send_from_here(c, ...)
  c.burst = c.burst + 1
  local sent, all, code = c.outlet:send(...)
  if all == true then return true end
  if code then return false, all, code end
  return sent or 0
end

-- The rest of a message, of which so many bytes are gone.
local function rest_of(one, gone)
  local data = table.concat(one, "", 1, one.n)
  return { sub(data, gone + 1), n = 1, size = #data - gone }
end

-- Closing ------------------------------------------------------------------------------------------

local function post_close(io, handle)
  -- A mailbox may be full; a request from a task of its own comes through.
  local ok, taken = pcall(ltask.send, io, "close", handle)
  if ok and taken ~= false then return end
  fork(pcall, call, io, "close", handle)
end

local function close(x)
  if x.closed then return true end
  x.closed = true
  x.data, x.outlet = nil, false
  if x.outbox then
    local left = x.outbox
    x.outbox = {}
    for _, one in ipairs(left) do wakeup(one, true, nil, "closed", 0, "closed") end
  end
  post_close(x.io, x.handle)
  return true
end

for _, class in ipairs { Connection, Listener, Udp } do
  class.close = close
  class.__close = close
  class.__gc = function(x)
    if not x.closed then pcall(fork, pcall, call, x.io, "close", x.handle) end
  end
  function class:is_closed() return self.closed == true end
  function class:__tostring()
    local what = self.closed and "closed" or self.handle .. " of service " .. self.io
    return class.__name:match "%S+$" .. " (" .. what .. ")"
  end
end

-- The calls ----------------------------------------------------------------------------------------

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
    local descriptor = socket:detach()
    local ok, handle, message, code = pcall(call, io, name, descriptor, ...)
    if not ok then
      require "lio.socket".fd(descriptor):close()
      return finish(io, 3, false, handle)
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
    return finish(io, 2, pcall(call, io, "resolve", ...))
  end

  function api.recv(c, ...)
    check(c, Connection, "connection", "recv")
    if c.data and not c.reading then
      local value = take(c, ...)
      if value then return value end
    end
    return received(c.io, receive_in_turn(c, ...))
  end

  function api.send(c, ...)
    check(c, Connection, "connection", "send")
    local gone = 0
    if c.outlet and not c.sending and c.burst < BURST then
      local message, code
      gone, message, code = send_from_here(c, ...)
      if gone == true then return true end
      if not gone then return nil, message, 0, code end
    end
    local one = message_of(...)
    if c.closed then return nil, "closed", 0, "closed" end
    if gone > 0 then one = rest_of(one, gone) end
    c.outbox[#c.outbox + 1] = one
    c.burst = 0
    if not c.sending then
      c.sending = true
      fork(send_task, c)
    end
    local ok, done, message, sent, code = wait(one)
    if ok then
      if done then return true end
      return nil, message, sent + gone, code
    end
    message, code = failure(done, c.io)
    if not message then error(code, 2) end
    return nil, message, gone, code
  end

  function api.close(x) return x:close() end

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
    if c.data and not c.closed then return true end
    return ask(c, "wait_readable", seconds)
  end

  function api.buffered(c)
    local here = c.data and #c.data - c.at + 1 or 0
    return here + (ask(c, "buffered") or 0)
  end

  function api.is_over(c)
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
    if math.type(service) ~= "integer" then
      error("bad argument #2 to 'transfer' (service expected, got " .. type(service) .. ")", 2)
    end
    local result, message, code = part_with(c, "move", service, ...)
    if result == true then return true end
    if not result then return nil, message, code end
    return instances[service] and instances[service].connection(result) or new(service).connection(result)
  end

  function api.rest(seconds) ltask.sleep(centiseconds(seconds)) end

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

function Listener:address() return ask(self, "sock") end

Udp.address = Listener.address

-- `remote([io])` → the calls, done by service `io`; default: the unique service `lio`.
return function(io)
  if io == nil then io = ltask.uniqueservice "lio" end
  if math.type(io) ~= "integer" then
    error("bad argument #1 to 'remote' (service expected, got " .. type(io) .. ")", 2)
  end
  local api = instances[io]
  if not api then
    api = new(io)
    make_methods(api)
  end
  return api
end
