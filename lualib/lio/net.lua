-- `lio.net`: sockets for coroutines. Code reads top to bottom; the coroutine waits, the thread does not.
--
-- `net.new(selector, sched)` builds the calls on any scheduler that has `wait(token)`, `wakeup(token, …)`,
-- `fork(f, …)` and `running()`; whoever drives the VM calls `step`. Used directly (`net.listen` …), the
-- module stands for the host's own instance, that of `lio.loop` unless a service set another.
--
-- Results have one rule: a value on success; `nil` alone is the end of a stream; `nil, message, partial,
-- code` (recv, send) or `nil, message, code` is a failure; `listen`, `accept` and `connect` fail with
-- `false, message, code`, as they did in the package this API comes from.

local stream = require "lio.stream"
local socket = require "lio.socket"
local timer = require "lio.timer"

local READ <const>, WRITE <const>, OVER <const> = 1, 2, 4

local M = {}
local Connection = stream.methods
local take <const>, put <const>, release <const> = Connection.take, Connection.put, Connection.release
local weak_keys = { __mode = "k" }

-- `net.new(selector, sched)` → the calls of this module for one VM. `sched` may also have `timers` (a
-- `lio.timer` queue to share) and `is_waiting(token)`.
function M.new(selector, sched)
  local api = {}
  local wait <const>, wakeup <const>, running <const> = sched.wait, sched.wakeup, sched.running
  local is_waiting <const> = sched.is_waiting or function() return true end
  local timers = sched.timers or timer.new()

  -- Who waits for reading, writing and the end of what; and who waits behind them.
  local readers, writers, enders = {}, {}, {}
  local behind = { [readers] = {}, [writers] = {} }
  local watched = {}
  -- Time-outs: seconds and timer by connection, for each direction.
  local limits = {
    [readers] = setmetatable({}, weak_keys),
    [writers] = setmetatable({}, weak_keys),
  }
  local alarms = { [readers] = {}, [writers] = {} }

  -- What wakes a task that waits on `x` in `list`, and those behind it.
  local function wake_all(list, x, reason)
    local token = list[x]
    if token then
      list[x] = nil
      wakeup(token, reason)
    end
    local queue = behind[list] and behind[list][x]
    if queue then
      behind[list][x] = nil
      for _, other in ipairs(queue) do wakeup(other, reason) end
    end
  end

  local Alarm = {}
  Alarm.__index = Alarm
  function Alarm:expired()
    local token = self.list[self.x]
    if token then wakeup(token, "timeout") end
  end

  -- Waits until `x`, which is armed, is ready; → true, or "timeout", "closed".
  local function wait_ready(list, x, seconds)
    local token = running()
    list[x] = token
    seconds = seconds or (limits[list] and limits[list][x])
    if not seconds then
      local reason = wait(token)
      if list[x] == token then list[x] = nil end
      return reason
    end
    local known = alarms[list]
    local id = known and known[x]
    if not id then
      id = timers:create(setmetatable({ list = list, x = x }, Alarm))
      if known then known[x] = id end
    end
    timers:set(id, seconds)
    local reason = wait(token)
    if list[x] == token then list[x] = nil end
    if known and known[x] == id then timers:clear(id) else timers:free(id) end
    return reason
  end

  -- Lets the next of those that queue for `x` go on.
  local function pass_on(list, x)
    local queue = behind[list][x]
    if not queue then return end
    local token = table.remove(queue, 1)
    if #queue == 0 then behind[list][x] = nil end
    wakeup(token, true)
  end

  -- Waits until no other task is in the middle of a recv (or send) on `x`. → nil, or why not.
  local function take_turn(list, x)
    while list[x] and list[x] ~= running() do
      if not is_waiting(list[x]) and not (sched.is_alive and sched.is_alive(list[x])) then
        list[x] = nil -- it was killed
        break
      end
      local queue = behind[list][x] or {}
      behind[list][x] = queue
      local token = running()
      queue[#queue + 1] = token
      local reason = wait(token)
      if reason == "closed" then return reason end
    end
  end

  local function recv_slowly(c, ...)
    local problem = take_turn(readers, c)
    if problem then return nil, problem, nil, problem end
    while true do
      local value, message, partial, code = take(c, ...)
      if value ~= false then
        if behind[readers][c] then pass_on(readers, c) end
        if value or not message then return value end
        return nil, message, partial, code
      end
      local reason = wait_ready(readers, c)
      if reason == "timeout" or reason == "closed" then
        if behind[readers][c] then pass_on(readers, c) end
        return nil, reason, nil, reason
      end
    end
  end

  -- `recv(c)` → what is there; `nil` at the end of the stream. `recv(c, n)`: exactly n bytes.
  -- `recv(c, "line" [, limit])`, `recv(c, "until", delimiter [, limit])`: without the delimiter.
  -- `recv(c, "all" [, limit])`: up to the end. Limits in bytes; over one: `nil, "too long"`. Failures:
  -- `nil, message, partial, code`. After a time-out what came stays buffered.
  function api.recv(c, ...)
    if not readers[c] then
      local value, message, partial, code = take(c, ...)
      if value then return value end
      if value == nil then
        if not message then return nil end
        return nil, message, partial, code
      end
    end
    return recv_slowly(c, ...)
  end

  local function send_slowly(c, sent, ...)
    local problem = take_turn(writers, c)
    if problem then return nil, problem, sent, problem end
    while true do
      local done, message, partial, code = put(c, sent, ...)
      if done == true or not done then
        if behind[writers][c] then pass_on(writers, c) end
        if done then return true end
        return nil, message, partial, code
      end
      sent = done
      local reason = wait_ready(writers, c)
      if reason == "timeout" or reason == "closed" then
        if behind[writers][c] then pass_on(writers, c) end
        return nil, reason, sent, reason
      end
    end
  end

  -- `send(c, data, …)` → true when the system has taken all of it, in as few system calls as it lets;
  -- else `nil, message, sent, code`. Messages of concurrent senders are not mixed.
  function api.send(c, ...)
    if writers[c] then return send_slowly(c, 0, ...) end
    local done, message, partial, code = put(c, 0, ...)
    if done == true then return true end
    if not done then return nil, message, partial, code end
    local sent = done
    -- Part of it went out, and the rest has the turn already.
    local reason = wait_ready(writers, c)
    if reason == "timeout" or reason == "closed" then
      if behind[writers][c] then pass_on(writers, c) end
      return nil, reason, sent, reason
    end
    return send_slowly(c, sent, ...)
  end

  -- Waits until `c` may have something to read. For protocol code that reads the buffer itself.
  -- → true; nil and "timeout" or "closed".
  function api.wait_readable(c, seconds)
    if c:is_closed() then return nil, "closed" end
    c:arm(READ)
    local reason = wait_ready(readers, c, seconds)
    if reason == "timeout" or reason == "closed" then return nil, reason end
    return true
  end

  -- Waits on `c`, which a call that would block has armed: for writing when `writing`, else for reading.
  -- For protocol code. → true, or "timeout", "closed", or what `wake_reader` was given.
  function api.wait_armed(c, writing, seconds)
    return wait_ready(writing and writers or readers, c, seconds)
  end

  -- Wakes who waits for reading on `c`, with a reason of the caller's own. → whether somebody did.
  function api.wake_reader(c, reason)
    local token = readers[c]
    return token ~= nil and wakeup(token, reason) == true
  end

  local unflushed = {}

  -- What is queued on `c` goes out before the loop waits, so that small writes share a system call.
  function api.flush_later(c)
    unflushed[c] = true
  end

  -- Waits until the peer ends its side or the connection fails. → true; nil and "timeout" or "closed".
  function api.wait_closed(c, seconds)
    while not c:is_over() do
      c:arm(OVER)
      local reason = wait_ready(enders, c, seconds)
      if reason == "timeout" or reason == "closed" then return nil, reason end
    end
    return true
  end

  -- `timeout(c, read_seconds, write_seconds)`: how long a wait in recv and send may last; nil: for ever.
  -- Over it: `nil, "timeout"`, and the connection stays usable.
  function api.timeout(c, read_seconds, write_seconds)
    limits[readers][c] = read_seconds
    limits[writers][c] = write_seconds
    return true
  end

  local function forget(x)
    for _, list in ipairs { readers, writers, enders } do
      wake_all(list, x, "closed")
    end
    for _, list in ipairs { readers, writers } do
      local id = alarms[list][x]
      if id then
        alarms[list][x] = nil
        timers:free(id)
      end
    end
  end

  -- `close(x)` → true. Idempotent. Everyone who waits on `x` gets `nil, "closed"`.
  function api.close(x)
    if type(x) == "table" then return x:close() end
    if release(x) then forget(x) end
    return true
  end

  -- `shutdown(c [, "r"|"w"|"rw"])`: ends one direction or both, after what is being sent. → true, or
  -- `nil, message, code`.
  function api.shutdown(c, how)
    if c:is_closed() then return nil, "closed", "closed" end
    if how ~= "r" then
      local done, message, _, code = api.send(c, "")
      if not done then return nil, message, code end
    end
    return c:cut(how)
  end

  -- `peer(c)`, `sock(c)` → ip, port, family of the other side and of this one; for unix: path, kind,
  -- "unix". `nil, message, code` on failure.
  function api.peer(c) return c:address("peer") end
  function api.sock(c) return c:address("socket") end

  -- `option(c, name [, value])`: sets or gets a socket option (the names of `lio.socket`).
  function api.option(c, ...)
    if type(c) == "table" then return c.socket:option(...) end
    return c:set_option(...)
  end

  -- `wrap(socket)` → a connection that has taken a connected `lio.socket` over, or `false, message, code`.
  function api.wrap(s)
    local c, message, code = stream.new(selector, s)
    if not c then return false, message, code end
    return c
  end

  local on_timer = function(value) value:expired() end

  -- Who shares the timers says what other timers' values do.
  function api.on_timer(f) on_timer = f end

  -- `watch(descriptor, f)`: calls `f` whenever the descriptor is readable.
  function api.watch(descriptor, f)
    watched[descriptor] = f
    return selector:event_add(descriptor, READ)
  end

  function api.unwatch(descriptor)
    watched[descriptor] = nil
    return selector:event_del(descriptor)
  end

  local function dispatch(x, events)
    if events & READ ~= 0 then
      local token = readers[x]
      if token then
        wakeup(token, true)
      elseif watched[x] then
        watched[x]()
      end
    end
    if events & WRITE ~= 0 and writers[x] then wakeup(writers[x], true) end
    if events & OVER ~= 0 and enders[x] then wakeup(enders[x], true) end
  end

  -- One round: waits for I/O until the next timer, `seconds` at most, then wakes whom it concerns.
  function api.step(seconds)
    local due = timers:next()
    if due and (not seconds or due < seconds) then seconds = due end
    local c = next(unflushed)
    while c do
      unflushed[c] = nil
      if not c:is_closed() then put(c, 0) end
      c = next(unflushed)
    end
    for x, events in selector:wait(seconds) do
      dispatch(x, events)
    end
    if api.poll_answers then api.poll_answers() end
    if due then
      local value, id = timers:expire()
      while id do
        on_timer(value)
        value, id = timers:expire()
      end
    end
  end

  local host = {
    selector = selector,
    timers = timers,
    sched = sched,
    readers = readers,
    writers = writers,
    wait_ready = wait_ready,
    forget = forget,
    socket = socket,
  }
  require "lio.net.listen"(api, host)
  require "lio.net.connect"(api, host)
  require "lio.net.udp"(api, host)
  require "lio.net.serve"(api, host)

  for _, name in ipairs {
    "recv", "send", "close", "shutdown", "timeout", "peer", "sock", "option", "wait_readable",
    "wait_closed",
  } do
    Connection[name] = api[name]
  end
  return api
end

-- The instance of this VM's host: `net.use(api)` sets it, else it is that of `lio.loop`.
function M.use(api)
  for name, f in pairs(api) do M[name] = f end
  return M
end

return setmetatable(M, {
  __index = function(_, name)
    M.use(require("lio.loop").net)
    return rawget(M, name)
  end,
})
