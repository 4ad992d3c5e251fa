-- Calls of selectors, timers and sockets. A case prepares its objects, and returns a function that repeats the
-- operation `n` times; child.lua calls this function in a task of `lio.loop`.

local lio = require "lio"
local socket = require "lio.socket"
local timer = require "lio.timer"

local READ <const>, BOTH <const> = lio.SELECT_READ, lio.SELECT_READ | lio.SELECT_WRITE
local DATA <const> = ("x"):rep(64)

-- `held` is the set of sockets that must not be collected while a case runs.
local M = { held = {} }

local function pair()
  local near, far = assert(socket.pair())
  M.held[near], M.held[far] = true, true
  return near, far
end

-- Registers one end of a new socket pair in a selector. Returns the selector and both ends.
local function watched()
  local selector = assert(lio.create())
  local near, far = pair()
  assert(selector:event_add(near, READ))
  return selector, near, far
end

function M.wait_idle()
  local selector = watched()
  return function(n)
    local seen
    for _ = 1, n do
      for s in selector:wait(0) do seen = s end
    end
    assert(not seen)
  end
end

-- The byte stays unread, so every wait reports the socket.
function M.wait_ready()
  local selector, _, far = watched()
  far:send "x"
  return function(n)
    local seen = 0
    for _ = 1, n do
      for _ in selector:wait() do seen = seen + 1 end
    end
    assert(seen == n)
  end
end

function M.wait_ten()
  local selector, _, first = watched()
  first:send "x"
  for _ = 2, 10 do
    local near, far = pair()
    far:send "x"
    assert(selector:event_add(near, READ))
  end
  return function(n)
    local seen = 0
    for _ = 1, n do
      for _ in selector:wait() do seen = seen + 1 end
    end
    assert(seen == 10 * n)
  end
end

function M.mod()
  local selector, near = watched()
  return function(n)
    for i = 1, n do selector:event_mod(near, i % 2 == 0 and READ or BOTH) end
    selector:event_mod(near, READ)
  end
end

function M.add_del()
  local selector, near = watched()
  selector:event_del(near)
  return function(n)
    for _ = 1, n do
      selector:event_add(near, READ)
      selector:event_del(near)
    end
  end
end

function M.now()
  local now = lio.now
  return function(n)
    for _ = 1, n do now() end
  end
end

-- Returns a queue with a thousand timers, like a server's.
local function timers()
  local queue = timer.new()
  for i = 1, 1000 do queue:add(3600 + i, i) end
  return queue
end

function M.timer_add()
  local queue = timers()
  return function(n)
    for i = 1, n do queue:cancel(queue:add(10 + i % 100, DATA)) end
  end
end

-- Moves a timer to a later time, as every read of a connection with a timeout does.
function M.timer_set()
  local queue = timers()
  local id = queue:create(DATA)
  return function(n)
    for _ = 1, n do queue:set(id, 10) end
  end
end

function M.timer_fire()
  local queue = timers()
  return function(n)
    for _ = 1, n do
      queue:add(0, DATA)
      assert(queue:expire() == DATA)
    end
  end
end

function M.send_recv()
  local near, far = pair()
  return function(n)
    for _ = 1, n do
      near:send(DATA)
      far:recv(1024)
    end
  end
end

function M.recv_blocked()
  local near = pair()
  return function(n)
    for _ = 1, n do near:recv(1024) end
  end
end

return M
