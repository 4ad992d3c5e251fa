-- Cases of light threads. Like the cases of waits.lua, they run in a hundred tasks at once if they wait. child.lua
-- calls them.
--
-- Each case ends all threads that it starts, so it does not influence the next one.

local loop = require "lio.loop"
local thread = require "lio.thread"
local switches = require "switches"
local waits = require "waits"

local M = {}

local SECONDS <const> = 60 -- of a timeout that never expires
local WIDTH <const> = 10 -- threads in a scope, an `all` or a `race`

local function ended() end

-- A thread that ends at once, and a wait for its end.
function M.spawn(_, n)
  local spawn, wait = thread.spawn, thread.wait
  return switches.timed(n, function(times)
    for _ = 1, times do wait(spawn(ended)) end
  end)
end

-- A thread that waits once and is woken, and a wait for its end.
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

-- A scope of threads that wait once and are woken.
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

-- A scope that is left while its threads wait.
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

-- A timeout around one wait.
function M.timeout_wait(_, n)
  local timeout = thread.timeout
  return waits.together(n, function(times, turn)
    for _ = 1, times do assert(timeout(SECONDS, turn)) end
  end)
end

-- Returns a list for `all` or `race`: each element except the last waits on its token; the last is `last(tokens)`.
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

-- `thread.all` of threads that wait, and one that wakes the others.
function M.all(_, n)
  return waits.together(n, function(times)
    local list = elements(wake_others)
    for _ = 1, times do assert(thread.all(list)) end
  end)
end

-- `thread.race` of threads that wait, and one that ends first.
function M.race(_, n)
  return waits.together(n, function(times)
    local list = elements(ended)
    for _ = 1, times do assert(thread.race(list)) end
  end)
end

return M
