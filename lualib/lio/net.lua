-- `lio.net`: sockets for coroutines. Code reads top to bottom; the coroutine waits, the thread does not.
--
-- `net.new(selector, sched)` builds the calls on any scheduler that has `wait(token)`, `wakeup(token, …)`,
-- `fork(f, …)` and `running()`; whoever drives the VM calls `step`. Used directly (`net.listen` …), the
-- module stands for the host's own instance, that of `lio.loop` unless a service set another.
--
-- Results have one rule: a value on success; `nil` alone is the end of a stream; `nil, message, partial,
-- code` (recv, send) or `nil, message, code` is a failure; `listen`, `accept`, `connect`, `udp` and `wrap`
-- fail with `false, message, code`, as they did in the package this API comes from.

local misuse = require "lio.misuse"
local stream = require "lio.stream"
local timer = require "lio.timer"
local new_turns = require "lio.net.wait_queue"

local READ <const>, WRITE <const>, OVER <const> = 1, 2, 4

local now <const> = require("lio").now
local M = {}
local Connection = stream.methods
-- Named as the calls whose arguments they check.
local recv <const>, send <const>, release <const> = Connection.take, Connection.put, Connection.release
local is_closed <const> = Connection.is_closed
local book <const> = stream.book

-- What connections can do as methods.
local METHODS <const> = {
  "recv", "send", "sendfile", "close", "shutdown", "timeout", "peer", "sock", "option", "wait_readable",
  "wait_closed", "transfer",
}

stream.metatable.__close = function(c) c:close() end

-- Nearly always a VM has one instance, and its functions are the methods. With more of them a method
-- finds the instance that the connection belongs to: the first, unless `home` says otherwise.
local first
local home = setmetatable({}, { __mode = "k" })

local function make_methods(api)
  if not first then
    first = api
    for _, name in ipairs(METHODS) do Connection[name] = api[name] end
    return
  end
  for _, name in ipairs(METHODS) do
    Connection[name] = function(c, ...) return (home[c] or first)[name](c, ...) end
  end
end

-- `net.new(selector, sched)` → the calls of this module for one VM. `wakeup` returns true when somebody
-- waited. `sched` may also have `timers` (a `lio.timer` queue to share), `on_abandon(f)` (as `lio.task`
-- has it; needed when tasks can be killed) and `on_stop(f)` (as `lio.loop` has it).
function M.new(selector, sched)
  local api = {}
  local timers = sched.timers or timer.new()
  -- Whether the tasks are those of `lio.task`: then `recv`, `send` and the reading events are native.
  local task = package.loaded["lio.task"]
  local native <const> = task and sched.wait == task.wait and sched.wakeup == task.wakeup
  local turns = new_turns(sched, timers, native)
  local reads <const>, writes <const>, ends <const> = turns.reads, turns.writes, turns.ends
  local await <const>, queue_up <const>, pass_on <const> = turns.await, turns.queue_up, turns.pass_on
  local holder <const> = turns.holder
  local read_turn <const>, write_turn <const> = reads.turn, writes.turn
  local write_tokens <const>, end_tokens <const> = writes.tokens, ends.tokens
  local wakeup <const> = sched.wakeup
  local watched = {}

  -- The rest of a `recv` that would have blocked.
  local function recv_blocked(c, ...)
    while true do
      local reason = await(reads, c)
      if reason == "timeout" or reason == "closed" then
        pass_on(reads, c)
        return nil, reason, nil, reason
      end
      local value, message, partial, code = recv(c, ...)
      if value then
        pass_on(reads, c)
        return value
      end
      if value == nil then
        pass_on(reads, c)
        if not message then return nil end
        return nil, message, partial, code
      end
    end
  end

  -- Not tail calls, which would hide their names from the messages about arguments.
  local function recv_once(c, ...)
    local value, message, partial, code = recv(c, ...)
    return value, message, partial, code
  end

  local function send_once(c, ...)
    local done, message, partial, code = send(c, 0, ...)
    return done, message, partial, code
  end

  -- Calls `f` with the turn that `queue_up` took; misuse, which raises, ends the turn as well.
  local function in_turn(dir, c, f, ...)
    local result = table.pack(pcall(f, c, ...))
    if result[1] == false then
      pass_on(dir, c)
      error(result[2], 0)
    end
    return table.unpack(result, 2, result.n)
  end

  local function recv_queued(c, ...)
    local problem = queue_up(reads, c)
    if problem then return nil, problem, nil, problem end
    local value, message, partial, code = in_turn(reads, c, recv_once, ...)
    if value == false then return recv_blocked(c, ...) end
    pass_on(reads, c)
    if value or not message then return value end
    return nil, message, partial, code
  end

  -- `recv(c)` → what is there; `nil` at the end of the stream. `recv(c, n)`: exactly n bytes.
  -- `recv(c, "line" [, limit])`, `recv(c, "until", delimiter [, limit])`: without the delimiter.
  -- `recv(c, "all" [, limit])`: up to the end. Limits in bytes; over one: `nil, "too long"`. Failures:
  -- `nil, message, partial, code`. After a time-out, or "too long", what came stays buffered.
  function api.recv(c, ...)
    if read_turn[c] then return recv_queued(c, ...) end
    local value, message, partial, code = recv(c, ...)
    if value then return value end
    if value == false then return recv_blocked(c, ...) end
    if not message then return nil end
    return nil, message, partial, code
  end

  -- The rest of a `send` of which `sent` bytes are gone.
  local function send_rest(c, sent, ...)
    while true do
      local reason = await(writes, c)
      if reason == "timeout" or reason == "closed" then
        pass_on(writes, c)
        return nil, reason, sent, reason
      end
      local done, message, partial, code = send(c, sent, ...)
      if done == true then
        pass_on(writes, c)
        return true
      end
      if not done then
        pass_on(writes, c)
        return nil, message, partial, code
      end
      sent = done
    end
  end

  local function send_queued(c, ...)
    local problem = queue_up(writes, c)
    if problem then return nil, problem, 0, problem end
    local done, message, partial, code = in_turn(writes, c, send_once, ...)
    if done and done ~= true then return send_rest(c, done, ...) end
    pass_on(writes, c)
    if done then return true end
    return nil, message, partial, code
  end

  -- `send(c, data, …)` → true when the system has taken all of it, in as few system calls as it lets;
  -- else `nil, message, sent, code`. Messages of concurrent senders are not mixed.
  function api.send(c, ...)
    if write_turn[c] then return send_queued(c, ...) end
    local done, message, partial, code = send(c, 0, ...)
    if done == true then return true end
    if not done then return nil, message, partial, code end
    return send_rest(c, done, ...)
  end

  if native then
    local function pass_on_read(c) pass_on(reads, c) end
    api.recv, api.send = stream.waiting(timers, recv_queued, pass_on_read, send_queued, send_rest)
  end

  -- Waits on `c`, which a call that would block has armed: for writing when `writing`, else for reading.
  -- For protocol code. → true, or "timeout", "closed", or what `wake_reader` was given.
  function api.wait_armed(c, writing, seconds)
    local dir = writing and writes or reads
    if holder(dir, c) then
      local problem = queue_up(dir, c, seconds)
      if problem then return problem end
      pass_on(dir, c)
      return true
    end
    local reason = await(dir, c, seconds)
    pass_on(dir, c)
    return reason
  end

  -- Wakes who waits for reading on `c`, with a reason of the caller's own. → whether somebody did.
  function api.wake_reader(c, reason)
    return wakeup(c, reason) == true
  end

  -- Waits until `c` may have something to read, which is left to the caller. → true; nil and "timeout"
  -- or "closed".
  function api.wait_readable(c, seconds)
    misuse.check_kind("wait_readable", c, "connection")
    misuse.check_optional_seconds("wait_readable", 2, seconds)
    if is_closed(c) then return nil, "closed", "closed" end
    if c:buffered() > 0 then return true end
    local armed, message, code = c:arm(READ)
    if not armed then return nil, message, code end
    local reason = api.wait_armed(c, false, seconds)
    if reason == "timeout" or reason == "closed" then return nil, reason, reason end
    return true
  end

  -- Waits until the peer ends its side or the connection fails. → true; nil and "timeout" or "closed".
  function api.wait_closed(c, seconds)
    misuse.check_kind("wait_closed", c, "connection")
    misuse.check_optional_seconds("wait_closed", 2, seconds)
    while not is_closed(c) do
      if c:is_over() then return true end
      local armed, message, code = c:arm(OVER)
      if not armed then return nil, message, code end
      local reason
      if ends.turn[c] then reason = queue_up(ends, c, seconds) end
      if not reason then
        -- Whoever had the turn before may have seen the end already.
        reason = c:is_over() or await(ends, c, seconds)
        pass_on(ends, c)
      end
      if reason == "timeout" then return nil, reason, reason end
    end
    return nil, "closed", "closed"
  end

  -- What a token of this module stands for, for `lio.tasks`; nil when it is none.
  function api.describe(token)
    local meta = getmetatable(token)
    return type(meta) == "table" and rawget(meta, "stands_for") or turns.describe(token)
  end

  -- What is queued on `c` goes out before the loop waits, so that small writes share a system call.
  -- `before`: called just then, to queue what was held back.
  local unflushed, flushing = {}, {}
  function api.flush_later(c, before)
    book(c)
    unflushed[c] = before or unflushed[c] or true
  end

  local function flush()
    local c, before = next(unflushed)
    while c do
      unflushed[c] = nil
      if before ~= true then before() end
      -- One that is full goes on when there is room, unless somebody sends and takes it along.
      if not is_closed(c) and send(c, 0) == 0 then flushing[c] = true end
      c, before = next(unflushed)
    end
  end

  -- `close(x)` → true. Idempotent. Everyone who waits on `x` gets `nil, "closed"`.
  function api.close(x)
    misuse.check_kind("close", x, "connection, listener, datagram socket or attempt")
    if type(x) == "table" then return x:close() end
    if release(x) then
      turns.forget(x)
      flushing[x] = nil
    end
    return true
  end

  local adopt = first and function(c) home[c] = api end
  -- What a connection is given to before Lua code has it, or nil.
  api.adopts = adopt

  -- `wrap(socket)` → a connection that has taken a connected `lio.socket` over, or `false, message, code`.
  function api.wrap(s)
    misuse.check_kind("wrap", s, "socket")
    local c, message, code = stream.new(selector, s)
    if not c then return false, message, code end
    if adopt then adopt(c) end
    return c
  end

  -- What a timer's value of this module does when it fires.
  function api.expired(value)
    if type(value) == "table" then return value:expired() end
    local f = value.on_timer
    if f then return f(value) end
    wakeup(value, "timeout")
  end

  local on_timer = api.expired

  -- Who shares the timers says what happens when one fires: `f(value, id)`.
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

  -- An event that nobody waits for is dropped: every call tries before it waits, and arms when it does.
  local function dispatch(x, events)
    if events & READ ~= 0 and not wakeup(x, true) then
      local f = watched[x]
      if f then f() end
    end
    if events & WRITE ~= 0 then
      local token = write_tokens[x]
      if not (token and wakeup(token, true)) and flushing[x] then
        flushing[x] = nil
        unflushed[x] = unflushed[x] or true
      end
    end
    if events & OVER ~= 0 then
      local token = end_tokens[x]
      if token then wakeup(token, true) end
    end
  end

  local host = {
    -- The instance that a connection belongs to.
    instance_of = function(c) return home[c] or first or api end,
    selector = selector,
    timers = timers,
    sched = sched,
    turns = turns,
    native = native,
    adopt = adopt,
  }

  -- Nobody waits on `c` here any more, and nothing is sent for it.
  function host.forget(c)
    turns.forget(c)
    unflushed[c], flushing[c] = nil, nil
  end

  -- `api.clock`: seconds of `lio.now` when the last round had its events; costs nothing to read.
  api.clock = now()

  -- `attend(c, protocol)`: from now on the loop calls `protocol:ready(events)` for `c`; nil: as usual again.
  -- `ready` must not wait; events that it does not want go to `api.ready(c, events)`.
  function api.attend(c, protocol)
    return selector:set_udata(c, protocol or c)
  end

  api.ready = dispatch

  -- `take_in(c)` → `c`: the loop looks after a connection that was no loop's.
  function api.take_in(c)
    stream.register(selector, c)
    if adopt then adopt(c) end
    return c
  end

  -- Protocol code that serves many connections natively: the loop calls `protocol:flush()` before it waits, and
  -- `protocol:arrived()` when it has gone through its events. Neither may wait.
  local protocols = {}
  function api.join_loop(protocol) table.insert(protocols, protocol) end

  function api.leave_loop(protocol)
    for index, other in ipairs(protocols) do
      if other == protocol then
        table.remove(protocols, index)
        return
      end
    end
  end

  -- `api.selector`: that of the loop.
  api.selector = selector

  -- `api.timers`: the `lio.timer` queue of the loop. A timer's value is a table with a method `expired`.
  api.timers = timers

  -- `rest(seconds)`: the running task waits that long.
  function api.rest(seconds)
    misuse.check_seconds("rest", 1, seconds)
    local token = {}
    timers:add(seconds, { expired = function() sched.wakeup(token) end })
    sched.wait(token)
  end

  local Parked = { stands_for = "its turn" }
  Parked.__index = Parked
  function Parked:expired() wakeup(self, "timeout") end

  -- `api.ticket()` → what one task parks on.
  function api.ticket()
    return setmetatable({}, Parked)
  end

  -- `park(ticket [, seconds])`: waits for `unpark(ticket, value)`. → that value, or "timeout".
  function api.park(ticket, seconds)
    local id = seconds and timers:add(math.max(seconds, 0), ticket)
    local value = turns.wait(ticket)
    if id then timers:cancel(id) end
    return value
  end

  -- `unpark(ticket, value)` → whether somebody waited.
  function api.unpark(ticket, value)
    return wakeup(ticket, value) == true
  end

  local deferred, deferred_count = {}, 0

  -- `defer(f)`: runs `f` once, when the loop has gone through the events that it has. For `ready`, so
  -- that what a whole round of events asks for is done together.
  function api.defer(f)
    deferred_count = deferred_count + 1
    deferred[deferred_count] = f
  end

  local function run_deferred()
    while deferred_count > 0 do
      local f = deferred[deferred_count]
      deferred[deferred_count] = nil
      deferred_count = deferred_count - 1
      f()
    end
  end

  -- `api.starts`: whether `start` runs a task at once.
  api.starts = sched.start ~= nil

  -- `start(f, …)`: runs `f` as a task: at once where the scheduler can, else as `fork` does.
  api.start = sched.start or sched.fork

  local pump <const>, guard <const> = stream.pump(selector, native)

  -- One round: waits for I/O until the next timer, `seconds` at most, then wakes whom it concerns.
  function api.step(seconds)
    for index = #protocols, 1, -1 do protocols[index]:flush() end
    local due = timers:next()
    if due and (not seconds or due < seconds) then seconds = due end
    if next(unflushed) then flush() end
    selector:wait(seconds)
    -- Before the events: what they set in motion counts from now, not from before the wait.
    api.clock = now()
    for x, events in pump, nil, nil, guard do
      -- A table is protocol code that looks after its connection itself.
      if type(x) == "table" then x:ready(events) else dispatch(x, events) end
    end
    for index = #protocols, 1, -1 do protocols[index]:arrived() end
    if deferred_count > 0 then run_deferred() end
    if host.take_answers then host.take_answers() end
    if due then
      local value, id = timers:expire()
      while id do
        on_timer(value, id)
        value, id = timers:expire()
      end
    end
  end

  require "lio.net.option"(api, host)
  require "lio.net.listen"(api, host)
  require "lio.net.connect"(api, host)
  require "lio.net.udp"(api, host)
  require "lio.net.serve"(api, host)
  require "lio.net.transfer"(api, host)
  require "lio.net.sendfile"(api, host)
  require "lio.net.broadcast"(api, host)
  make_methods(api)
  return api
end

-- The instance of this VM's host: `net.use(api)` sets it, else it is that of `lio.loop`.
-- `net.instance` is the API table itself, whose `clock` moves; the functions are copied.
function M.use(api)
  for name, f in pairs(api) do
    if type(f) == "function" then M[name] = f end
  end
  M.instance = api
  return M
end

-- `net.remote([io])` → these calls for a service without a loop, done by service `io`: see `lio.net.remote`.
function M.remote(io)
  return require "lio.net.remote"(io)
end

return setmetatable(M, {
  __index = function(_, name)
    M.use(require("lio.loop").net)
    return rawget(M, name)
  end,
})
