-- Who waits for what of a socket, in turn. Part of `lio.net`.
--
-- There are three directions: reading, writing, and the peer's end. In each, one task at a time has the
-- turn of a socket `x`: from its first wait until its call ends, so that a message is not cut by another
-- sender's and the first receiver gets the first bytes. The others queue. Invariant: `turn[x]` is the
-- token on which the one that has the turn waits or has waited; nobody queues where nobody has the turn.
-- A wait that is killed or interrupted hands its turn on (`abandoned`), so no queue hangs behind the dead.
--
-- Where the tasks are those of `lio.task`, `recv` is native (src/stream/wait.rs): the turn to read that it takes
-- stands in the connection alone, and it is told of the turns that stand here. A connection that stands in any of
-- these books, or may, is `booked`: its end has to be told to `forget`.

local stream = require "lio.stream"

local limit <const> = stream.limit
local book <const> = stream.book
local set_turn <const>, has_turn <const>, queue_behind <const> = stream.set_turn, stream.has_turn, stream.queue_up
local setmetatable <const> = setmetatable
local getmetatable <const> = getmetatable

-- → the directions and what can be done with them, for the sockets of one instance. `native`: see above.
return function(sched, timers, native)
  local wakeup <const> = sched.wakeup

  -- By socket: who has the turn, who queues, seconds a wait may last, its timer, the token.
  local function direction()
    return { turn = {}, behind = {}, limits = {}, alarms = {}, tokens = {} }
  end

  local reads, writes, ends = direction(), direction(), direction()

  -- What a wait on `x` waits on: for reading `x` itself, else one of these. `expired` makes it a
  -- timer's value.
  local Token = {}
  Token.__index = Token

  function Token:expired()
    wakeup(self, "timeout")
  end

  local function new_token(dir, x)
    return setmetatable({ dir = dir, x = x }, Token)
  end

  local function set(dir, x, token)
    dir.turn[x] = token
    if native and dir ~= ends then set_turn(x, dir == writes, token ~= nil) elseif token then book(x) end
  end

  -- The token of who has the turn; nil when nobody has.
  local function holder(dir, x)
    return dir.turn[x] or native and dir == reads and has_turn(x) and x or nil
  end

  -- Ends the turn: the next that queues has it.
  local function pass_on(dir, x)
    local queue = dir.behind[x]
    if queue then
      while queue.first <= queue.last do
        local ticket = queue[queue.first]
        queue[queue.first] = nil
        queue.first = queue.first + 1
        if wakeup(ticket, true) then
          set(dir, x, ticket)
          return
        end
      end
      dir.behind[x] = nil
    end
    set(dir, x, nil)
  end

  -- Takes a ticket out of its queue.
  local function give_up(ticket)
    local queue = ticket.dir.behind[ticket.x]
    if not queue then return end
    local to = queue.first
    for at = queue.first, queue.last do
      local other = queue[at]
      queue[at] = nil
      if other ~= ticket then
        queue[to] = other
        to = to + 1
      end
    end
    queue.last = to - 1
  end

  -- The wait on `token` ended without its waker, or could not begin.
  local function abandoned(token)
    local dir, x = reads, token
    local is_token = getmetatable(token) == Token
    if is_token then
      dir, x = token.dir, token.x
      if token.timer then timers:cancel(token.timer) end
    end
    if holder(dir, x) == token then
      if dir.alarms[x] then timers:clear(dir.alarms[x]) end
      pass_on(dir, x)
    elseif is_token then
      give_up(token)
    end
  end

  local wait = sched.wait
  if sched.on_abandon then
    sched.on_abandon(abandoned)
  else
    -- A scheduler that cannot kill a task, but may make its wait raise.
    local function finish(token, ok, ...)
      if not ok then
        abandoned(token)
        error((...), 0)
      end
      return ...
    end
    function wait(token)
      return finish(token, pcall(sched.wait, token))
    end
  end

  -- Waits for the turn, which somebody has; `seconds` as for `await`. → nil with the turn taken, or
  -- "timeout", "closed".
  local function queue_up(dir, x, seconds)
    local queue = dir.behind[x]
    if not queue then
      queue = { first = 1, last = 0 }
      dir.behind[x] = queue
    end
    if native and dir == reads then queue_behind(x) end
    local ticket = new_token(dir, x)
    queue.last = queue.last + 1
    queue[queue.last] = ticket
    seconds = seconds or dir.limits[x]
    if seconds then ticket.timer = timers:add(seconds, ticket) end
    local reason = wait(ticket)
    if reason == "timeout" then
      give_up(ticket)
      return reason
    end
    if ticket.timer then timers:cancel(ticket.timer) end
    if reason == "closed" then return reason end
  end

  -- Waits until `x`, which is armed, is ready. Has the turn afterwards: `pass_on` ends it. `seconds`: in
  -- place of the time limit set for `x`. → true, or "timeout", "closed", or what another waker said.
  local function await(dir, x, seconds)
    local token = x
    if dir ~= reads then
      token = dir.tokens[x]
      if not token then
        token = new_token(dir, x)
        dir.tokens[x] = token
      end
    end
    set(dir, x, token)
    seconds = seconds or dir.limits[x]
    if not seconds then return wait(token) end
    local alarm = dir.alarms[x]
    if not alarm then
      alarm = timers:create(token)
      dir.alarms[x] = alarm
    end
    timers:set(alarm, seconds)
    local reason = wait(token)
    timers:clear(alarm)
    return reason
  end

  local function forget_in(dir, x)
    local token = holder(dir, x)
    if token then
      set(dir, x, nil)
      wakeup(token, "closed")
    end
    local queue = dir.behind[x]
    if queue then
      dir.behind[x] = nil
      for at = queue.first, queue.last do wakeup(queue[at], "closed") end
    end
    local alarm = dir.alarms[x]
    if alarm then
      dir.alarms[x] = nil
      timers:free(alarm)
      if native and dir == reads then limit(x, nil) end
    end
    dir.limits[x] = nil
    dir.tokens[x] = nil
  end

  -- What a token stands for, for `lio.tasks`.
  local function describe(token)
    local dir, x = reads, token
    if getmetatable(token) == Token then dir, x = token.dir, token.x end
    local turn = holder(dir, x)
    if turn == nil then return nil end
    local what = dir == reads and "reading" or dir == writes and "writing" or "the end"
    return ("%s of %s%s"):format(what, tostring(x), turn == token and "" or " (its turn)")
  end

  -- `x` is closed: everyone who waits on it is told.
  local function forget(x)
    forget_in(reads, x)
    forget_in(writes, x)
    forget_in(ends, x)
  end

  return {
    reads = reads,
    writes = writes,
    ends = ends,
    wait = wait,
    await = await,
    queue_up = queue_up,
    holder = holder,
    pass_on = pass_on,
    forget = forget,
    describe = describe,
  }
end
