-- `all`, `race` and `timeout` of `lio.thread`: several threads at a time, in a scope of their own.

local task = require "lio.task"
local core = require "lio.thread.core"
local new_scope <const> = require("lio.thread.scope").scope

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
    error(("bad argument #1 to '%s' (table expected, got %s)"):format(call, type(list)), 3)
  end
  for at, one in ipairs(list) do
    if is_thread(one) then
      check_self(one, call)
    elseif type(one) ~= "function" and not (type(one) == "table" and type(one[1]) == "function") then
      error(("bad element #%d of the list of '%s' (function, { function, … } or thread expected, got %s)")
        :format(at, call, type(one)), 3)
    end
  end
end

-- The threads of a list of functions, `{ f, … }` and threads.
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

local Ticket = {}
Ticket.__index = Ticket

function Ticket:collect(t, result)
  self.results[t] = result
  self.left = self.left - 1
  if not result[1] then self.failed = self.failed or result end
  if self.failed or self.left == 0 then wakeup(self) end
end

function Ticket:__close()
  drop_tickets(self.threads, self)
end

-- `thread.all{ f1, … }` → true and the list of their packed results (`table.pack`), when all have ended;
-- false and the error of the first that failed: then the others are killed. Elements are functions,
-- `{ f, arguments… }` and threads.
function M.all(list)
  check_list(list, "all")
  local scope <close> = new_scope()
  local threads = start_all(scope, list)
  local ticket <close> = setmetatable({ results = {}, left = 0, threads = threads }, Ticket)
  for _, t in ipairs(threads) do
    if ticket.results[t] == nil then
      ticket.left = ticket.left + 1
      ticket.results[t] = false
      if not t.done then
        add_ticket(t, ticket)
      else
        ticket:collect(t, pack(reap_late(t)))
      end
    end
  end
  if ticket.left > 0 and not ticket.failed then wait(ticket) end
  if ticket.failed then
    kill_all(threads)
    return false, ticket.failed[2]
  end
  local results = {}
  for at, t in ipairs(threads) do
    local result = ticket.results[t]
    results[at] = table.move(result, 2, result.n, 1, { n = result.n - 1 })
  end
  return true, results
end

-- `thread.race{ f1, … }` → as `wait` for the first to end; the others are killed.
function M.race(list)
  check_list(list, "race")
  if #list == 0 then error("race: the list is empty", 2) end
  local scope <close> = new_scope()
  local threads = start_all(scope, list)
  local result = pack(core.wait(unpack(threads)))
  kill_all(threads)
  return unpack(result, 1, result.n)
end

-- Calls `f` after so many seconds, in the VM's loop or by the scheduler's clock. → what takes it back.
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


-- `thread.timeout(seconds, f, …)` → true and the results of `f(…)`, or false and its error; nil, "timeout"
-- when it has not ended after that time: then it is killed. A service's clock has centiseconds.
function M.timeout(seconds, f, ...)
  if type(seconds) ~= "number" or seconds ~= seconds then
    error(("bad argument #1 to 'timeout' (number expected, got %s)"):format(type(seconds)), 2)
  end
  check_function(f, 2, "timeout")
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
