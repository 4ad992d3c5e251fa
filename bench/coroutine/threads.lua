-- Cases of light threads, called by child.lua. A case that waits runs in a hundred tasks at once, like the cases of
-- waits.lua.
--
-- Each case ends all threads that it starts, so it does not influence the next case.

local loop = require "lio.loop"
local thread = require "lio.thread"
local switches = require "switches"
local waits = require "waits"

local M = {}

local SECONDS <const> = 60 -- the time of a timeout, which never expires
local WIDTH <const> = 10 -- the number of threads in a scope, an `all` or a `race`

local function ended() end

-- Spawns a thread that ends at once, and waits for it.
function M.spawn(_, n)
  local spawn, wait = thread.spawn, thread.wait
  return switches.timed(n, function(times)
    for _ = 1, times do wait(spawn(ended)) end
  end)
end

-- Spawns a thread that waits, wakes it, and waits until it has ended.
function M.spawn_wait(_, n)
  local spawn, wait, wakeup = thread.spawn, thread.wait, loop.wakeup
  return waits.together(n, function(times)
    local token = {}
    for _ = 1, times do
      local one = spawn(loop.wait, token)
      wakeup(token)
      wait(one)
    end
  end)
end

local function new_tokens()
  local tokens = {}
  for i = 1, WIDTH do tokens[i] = {} end
  return tokens
end

local function woken(tokens)
  local scope <close> = thread.scope()
  for i = 1, WIDTH do scope:spawn(loop.wait, tokens[i]) end
  for i = 1, WIDTH do loop.wakeup(tokens[i]) end
  assert(scope:wait())
end

-- Opens a scope with ten threads that wait, and wakes them.
function M.scope(_, n)
  return waits.together(n, function(times)
    local tokens = new_tokens()
    for _ = 1, times do woken(tokens) end
  end)
end

local function left(tokens)
  local scope <close> = thread.scope()
  for i = 1, WIDTH do scope:spawn(loop.wait, tokens[i]) end
end

-- Leaves a scope while its ten threads wait.
function M.leave(_, n)
  return waits.together(n, function(times)
    local tokens = new_tokens()
    for _ = 1, times do left(tokens) end
  end)
end

function M.timeout(_, n)
  local timeout = thread.timeout
  return switches.timed(n, function(times)
    for _ = 1, times do assert(timeout(SECONDS, ended)) end
  end)
end

-- Calls `thread.timeout` with a function that waits once.
function M.timeout_wait(_, n)
  local timeout = thread.timeout
  return waits.together(n, function(times, turn)
    for _ = 1, times do assert(timeout(SECONDS, turn)) end
  end)
end

-- Returns a list for `all` or `race`. Each element except the last one waits on a token; the last one calls
-- `last(tokens)`.
local function elements(last)
  local tokens = new_tokens()
  local list = {}
  for i = 1, WIDTH - 1 do list[i] = { loop.wait, tokens[i] } end
  list[WIDTH] = { last, tokens }
  return list
end

local function wake_others(tokens)
  for i = 1, WIDTH - 1 do loop.wakeup(tokens[i]) end
end

-- Calls `thread.all` with nine threads that wait and one that wakes them.
function M.all(_, n)
  return waits.together(n, function(times)
    local list = elements(wake_others)
    for _ = 1, times do assert(thread.all(list)) end
  end)
end

-- Calls `thread.race` with nine threads that wait and one that ends at once.
function M.race(_, n)
  return waits.together(n, function(times)
    local list = elements(ended)
    for _ = 1, times do assert(thread.race(list)) end
  end)
end

return M
