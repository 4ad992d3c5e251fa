-- `all`, `race` and `timeout` of `lio.thread`. Each call creates a scope for its threads.

local task = require "lio.task"
local core = require "lio.thread.core"
local misuse = require "lio.misuse"
local scopes = require "lio.thread.scope"

local new_scope <const>, collect <const> = scopes.scope, scopes.collect

local wait <const>, wakeup <const> = task.wait, task.wakeup
local pack <const>, unpack <const> = table.pack, table.unpack
local internal <const> = core.internal
local is_thread <const> = internal.is_thread
local check_function <const>, check_self <const> = internal.check_function, internal.check_self
local reap <const>, reap_late <const> = internal.reap, internal.reap_late
local add_ticket <const>, drop_tickets <const> = internal.add_ticket, internal.drop_tickets
local kill <const>, kill_soon <const> = core.kill, internal.kill_soon

local M = {}

local function check_list(list, call)
  if type(list) ~= "table" then
    misuse.argument("thread." .. call, 1, "table", list)
  end
  for at, one in ipairs(list) do
    if is_thread(one) then
      check_self(one, call)
    elseif type(one) ~= "function" and not (type(one) == "table" and type(one[1]) == "function") then
      misuse.raise(("bad element #%d of the list of 'thread.%s' (function, { function, … } or thread expected, got %s)")
        :format(at, call, type(one)))
    end
  end
end

-- Starts the functions in a list of functions, `{ f, … }` tables and threads. Returns a list of all threads, in the
-- same order.
local function start_all(scope, list)
  local threads = {}
  for at, one in ipairs(list) do
    if is_thread(one) then
      threads[at] = one
    elseif type(one) == "table" then
      threads[at] = scope:spawn(unpack(one, 1, one.n or #one))
    else
      threads[at] = scope:spawn(one)
    end
  end
  return threads
end

local function kill_all(threads)
  for _, t in ipairs(threads) do kill_soon(t) end
end

-- The token on which `all` waits. `left` is the number of threads that have not ended, `results` contains the packed
-- results of the other threads by their places in the list, and `failed` is the place of the first thread that failed.
local All = {}
All.__index = All

-- Collects the results of the thread at `place`. `pack`, which can raise, comes first. If it raises, the caller calls
-- this function again with an error, which needs no memory.
function All:collect(place, ok, ...)
  if ok then
    self.results[place] = pack(...)
  elseif not self.failed or self.starts and place < self.failed then
    self.failed, self.problem = place, (...)
  end
  self.left = self.left - 1
  if self.failed or self.left == 0 then wakeup(self) end
end

-- The ticket for a thread that the program has put into the list. The elements of the ticket are the thread's places in
-- the list.
local Given = {}
Given.__index = Given

function Given:collect(_, result)
  if result[1] then
    for at = 2, #self do self.all.results[self[at]] = pack(unpack(result, 2, result.n)) end
  end
  self.all:collect(self[1], unpack(result, 1, result.n))
end

local function add_given(all, t, place)
  all.given = all.given or {}
  local given = all.given[t]
  if given then
    given[#given + 1] = place
    return
  end
  all.given[t] = setmetatable({ place, all = all }, Given)
  all.left = all.left + 1
end

-- Adds a ticket to each thread that the program has put into the list. The results of threads that have already ended
-- are collected now, in order.
local function wait_for_given(all, threads)
  for _, t in ipairs(threads) do
    local given = all.given[t]
    if given and not given.waits then
      given.waits = true
      if t.done then given:collect(t, pack(reap_late(t))) else add_ticket(t, given) end
    end
  end
end

function All:__close()
  self.ended = true
  for t, given in pairs(self.given or {}) do drop_tickets({ t }, given) end
end

-- Starts the functions in the list, with `all` as their collector. Returns a list of all threads, in the same order.
local function start_collected(scope, all, list)
  local threads = {}
  for at, one in ipairs(list) do
    if is_thread(one) then
      threads[at] = one
      add_given(all, one, at)
    else
      all.left = all.left + 1
      if type(one) == "table" then
        threads[at] = collect(scope, all, at, unpack(one, 1, one.n or #one))
      else
        threads[at] = collect(scope, all, at, one)
      end
    end
  end
  if all.given then wait_for_given(all, threads) end
  all.starts = false
  return threads
end

-- `thread.all{ f1, … }` runs several threads. When all threads have ended, returns true and the list of their packed
-- results (`table.pack`). If a thread fails, kills the other threads and returns false and the error. Elements are
-- functions, `{ f, arguments… }` and threads.
function M.all(list)
  check_list(list, "all")
  local scope <close> = new_scope()
  local all <close> = setmetatable({
    results = {}, left = 0, starts = true, failed = false, problem = false, given = false, ended = false,
  }, All)
  local threads = start_collected(scope, all, list)
  if all.left > 0 and not all.failed then wait(all) end
  if all.failed then
    kill_all(threads)
    return false, all.problem
  end
  return true, all.results
end

-- `thread.race{ f1, … }` returns the results of `wait` for the first thread that ends; the other threads are killed.
function M.race(list)
  check_list(list, "race")
  if #list == 0 then misuse.raise "thread.race: the list is empty" end
  local scope <close> = new_scope()
  local threads = start_all(scope, list)
  local result = pack(core.wait(unpack(threads)))
  kill_all(threads)
  return unpack(result, 1, result.n)
end

-- Calls `f` after `seconds`, with a timer of the VM's loop or of the scheduler. Returns a function that cancels the
-- call.
local function after(seconds, f)
  local loop = package.loaded["lio.loop"]
  local ltask = package.loaded.ltask
  if (not loop or not loop.drives()) and ltask and ltask.sleep then
    local co = task.spawn(function()
      ltask.sleep(math.ceil(seconds * 100))
      f()
    end)
    return function() task.kill(co) end
  end
  loop = loop or require "lio.loop"
  local id = loop.timeout(seconds, f)
  return function() loop.cancel(id) end
end

local LATE <const> = {}

-- `thread.timeout(seconds, f, …)` returns true and the results of `f(…)`, or false and its error. If `f` has not ended
-- after `seconds`, kills its thread and returns nil, "timeout". In a service without a loop, the time is rounded up to
-- centiseconds.
function M.timeout(seconds, f, ...)
  misuse.check_seconds("thread.timeout", 1, seconds)
  check_function(f, 2, "thread.timeout")
  local scope <close> = new_scope()
  local t = scope:spawn(f, ...)
  if t.done then return reap(t) end
  local ticket = {}
  local cancel = after(seconds, function() wakeup(ticket, LATE) end)
  local guard <close> = setmetatable(ticket, { __close = cancel })
  add_ticket(t, guard)
  if wait(guard) ~= LATE or t.done then return reap(t) end
  kill(t)
  return nil, "timeout"
end

return M
