-- Chooses the next steps of the property test of lio.thread: random actions of the driver and commands for threads. The
-- choice is weighted, and limited to what the model allows. Called by tests/model/run.lua.
-- Invariant: every id is used once; the choice depends only on the seed and on the model.

local Chooser = {}
Chooser.__index = Chooser

local choose = {}

-- Below FEW threads, new threads are more likely; above CROWD, no thread is started, and commands are chosen from
-- IN_CROWD.
local FEW <const>, CROWD <const> = 12, 24
-- The id of an ended thread, scope or coroutine is still used until this many newer ids exist.
local KEPT <const> = { thread = 60, scope = 20, co = 20 }

-- Commands and their weights.
local COMMANDS <const> = {
  ret = 10, err = 5, spawn = 12, scope_spawn = 7, wait = 14, scope_wait = 4, kill = 6, status = 4,
  pcall = 6, scope = 5, create = 7, yield = 5, resume = 7, co_status = 3, close = 4, token = 4, sleep = 3,
  nap = 3, timeout = 5, all = 4, race = 4,
}
-- Commands that a new thread may execute before the driver sends it a command.
local IN_SCRIPT <const> = {
  ret = 8, err = 4, spawn = 4, wait = 3, kill = 1, status = 1, token = 2, sleep = 1, scope_spawn = 2,
}
-- Commands that start no threads; most of them end threads.
local IN_CROWD <const> = { ret = 10, err = 5, kill = 4, wait = 3, resume = 1, yield = 1, close = 1 }
local ACTIONS <const> = {
  command = 75, command_any = 3, interrupt = 3, wake = 8, interrupt_token = 2, wake_sleeper = 4, kill = 4, status = 2,
  root = 5, orphan = 2, reap = 4, collect = 0.05,
}

-- Returns the names with the bounds of their intervals. A number below `total` selects the name whose interval contains
-- the number.
local function weighted(weights, without)
  local names, total = {}, 0
  for name in pairs(weights) do names[#names + 1] = name end
  table.sort(names)
  local bounds = {}
  for i, name in ipairs(names) do
    total = total + (without[name] and 0 or weights[name])
    bounds[i] = total
  end
  return { names = names, bounds = bounds, total = total }
end

--- Returns a chooser for a seed. `opts.without` is a set of names that are never chosen.
function choose.new(seed, opts)
  local without = opts.without or {}
  local self = setmetatable({ ids = { thread = 0, scope = 0, co = 0, frame = 0, value = 0 } }, Chooser)
  self.state = seed * 2 + 1
  self.commands, self.in_script = weighted(COMMANDS, without), weighted(IN_SCRIPT, without)
  self.in_crowd, self.actions = weighted(IN_CROWD, without), weighted(ACTIONS, without)
  for _ = 1, 4 do self:random(2) end
  return self
end

--- Returns a number from 1 to `n`, from a xorshift generator, which is the same in every version of Lua.
function Chooser:random(n)
  local x = self.state
  x = x ~ (x << 13)
  x = x ~ (x >> 7)
  x = x ~ (x << 17)
  self.state = x
  return (x >> 11) % n + 1
end

-- Chooses a name by its weight.
function Chooser:pick(which)
  local at = (self:random(1 << 30) - 1) / (1 << 30) * which.total
  for i, bound in ipairs(which.bounds) do
    if at < bound then return which.names[i] end
  end
end

function Chooser:id(kind)
  self.ids[kind] = self.ids[kind] + 1
  return self.ids[kind]
end

--- Reports whether an id is so old that its thread, scope or coroutine is forgotten once it has ended.
function Chooser:is_old(kind, id)
  return id < self.ids[kind] - KEPT[kind]
end

-- Returns one of the ids that are not forgotten, usually that of a thread that has not ended.
function Chooser:some_thread(w)
  if self:random(4) > 1 and #self.living > 0 then return self.living[self:random(#self.living)].id end
  local id = self.ids.thread - self:random(KEPT.thread) + 1
  return w.threads[id] and id or math.max(self.ids.thread, 1)
end

-- Returns the id of a scope or a coroutine, usually of one that is not closed.
function Chooser:some(kind)
  local open = self.open[kind]
  if self:random(4) > 1 and #open > 0 then return open[self:random(#open)] end
  return math.max(1, self.ids[kind] - self:random(KEPT[kind] // 2) + 1)
end

function Chooser:value(letter)
  return letter .. self:id "value"
end

function Chooser:some_threads(w, most)
  local ids = {}
  for i = 1, self:random(most) do ids[i] = self:some_thread(w) end
  return ids
end

local args = {} -- by command, a function that chooses its arguments

function args.ret(self) return { value = self:value "v" } end

function args.err(self) return { value = self:value "e" } end

function args.spawn(self, w, depth) return { child = self:child(w, depth + 1) } end

function args.scope_spawn(self, w, depth) return { scope = self:some "scope", child = self:child(w, depth + 1) } end

function args.wait(self, w) return { ids = self:some_threads(w, 3) } end

function args.scope_wait(self) return { scope = self:some "scope" } end

function args.kill(self, w) return { id = self:some_thread(w) } end

args.status = args.kill

function args.pcall(self) return { frame = self:frame() } end

function args.scope(self) return { frame = self:frame(), scope = self:id "scope" } end

function args.create(self) return { frame = self:frame(), co = self:id "co" } end

function args.resume(self) return { co = self:some "co" } end

args.co_status, args.close = args.resume, args.resume

function args.timeout(self, w, depth) return { far = self:random(2) == 1, child = self:child(w, depth + 1) } end

function args.all(self, w, depth)
  local c = { ids = {}, children = {} }
  if self:random(3) == 1 then c.ids = self:some_threads(w, 2) end
  for i = 1, self:random(4) - 1 do c.children[i] = self:child(w, depth + 1) end
  return c
end

args.race = args.all

function Chooser:frame()
  return "f" .. self:id "frame"
end

function Chooser:command(w, which, depth)
  local op = self:pick(which)
  local c = args[op] and args[op](self, w, depth) or {}
  c.op = op
  return c
end

--- Returns a new thread: its id, its first frame, and the commands that it executes at once.
function Chooser:child(w, depth)
  local child = { script = {} }
  if depth < 4 and self:random(2) == 1 then
    for i = 1, self:random(3) do child.script[i] = self:command(w, self.in_script, depth) end
  end
  child.id, child.frame = self:id "thread", self:frame()
  return child
end

-- ---------------------------------------------------------------------------------------------
-- Actions

-- Returns one of the threads that are blocked in a wait of this kind, or nil if there is none.
function Chooser:blocked(kind)
  local list = {}
  for _, th in ipairs(self.living) do
    if th.blocked and th.blocked.kind == kind then list[#list + 1] = th end
  end
  return list[1] and list[self:random(#list)]
end

local ACT_ON <const> = {
  command = "idle", interrupt = "idle", wake = "token", interrupt_token = "token", wake_sleeper = "sleep",
}

local make = {}

function make.command(self, w, th)
  local which = #self.living > CROWD and self.in_crowd or self.commands
  return { act = "command", id = th.id, command = self:command(w, which, 1) }
end

function make.command_any(self, w)
  return { act = "command", id = self:some_thread(w), command = self:command(w, self.in_crowd, 1) }
end

function make.root(self, w) return { act = "root", child = self:child(w, 1) } end

function make.orphan(self, w) return { act = "orphan", child = self:child(w, 1) } end

function make.reap(self)
  local th = #self.zombies > 0 and self.zombies[self:random(#self.zombies)]
  return th and { act = "reap", id = th.id }
end

local function of_thread(act)
  return function(self, w) return { act = act, id = self:some_thread(w) } end
end

make.kill, make.status = of_thread "kill", of_thread "status"

local function of_blocked(act, letter)
  return function(self, _, th) return { act = act, id = th.id, value = self:value(letter) } end
end

make.interrupt, make.wake = of_blocked("interrupt", "i"), of_blocked("wake", "w")
make.interrupt_token, make.wake_sleeper = of_blocked("interrupt_token", "i"), of_blocked("wake_sleeper", "w")

function make.collect() return { act = "collect" } end

-- Returns an action that is possible now.
function Chooser:action(w)
  while true do
    local act = self:pick(self.actions)
    if #self.living < FEW and self:random(4) == 1 then act = "root" end
    if #self.zombies > CROWD then act = "reap" end
    local on = ACT_ON[act]
    local th = on and self:blocked(on)
    local crowded = #self.living > CROWD and (act == "root" or act == "orphan")
    local action = (th or not on) and not crowded and make[act](self, w, th)
    if action then return action end
    if act == "command" and self.living[1] then
      -- No thread is idle, so one is killed.
      return { act = "kill", id = self.living[self:random(#self.living)].id }
    end
  end
end

-- Reports whether the action sets a timer of 0 seconds. The order in which it fires among other events is not defined,
-- so such an action is the only one of its batch.
local function is_timed(action)
  local c = action.command
  return c and (c.op == "nap" or c.op == "timeout" and not c.far)
end

local function by_id(a, b) return a.id < b.id end

--- Returns up to three actions. The driver does all of them before any thread runs.
function Chooser:batch(w)
  self.living, self.zombies = {}, {}
  for _, th in pairs(w.threads) do
    if not th.ended then
      self.living[#self.living + 1] = th
    elseif th.known and not w:is_dead(th) then
      self.zombies[#self.zombies + 1] = th
    end
  end
  table.sort(self.living, by_id)
  table.sort(self.zombies, by_id)
  self.open = { scope = {}, co = {} }
  for id, scope in pairs(w.scopes) do
    if not scope.closed then table.insert(self.open.scope, id) end
  end
  for id, co in pairs(w.cos) do
    if co.status ~= "dead" then table.insert(self.open.co, id) end
  end
  table.sort(self.open.scope)
  table.sort(self.open.co)
  local batch = {}
  for i = 1, self:random(3) do
    local action = self:action(w)
    if is_timed(action) then
      if i == 1 then return { action } end
      return batch
    end
    batch[i] = action
  end
  return batch
end

return choose
