-- The services that have handles of this one, and the things that must end when they die. Part of lio/net/requests.
--
-- A request to the owner that stays unanswered until it dies, and ends with an error then, detects the death. Our
-- service library has such a request for every service; in another library `lio.net.remote` adds it to the services
-- that use it. A service without it gets the request again every second while it has things here. Invariant: nothing is
-- registered for an owner that is known to be dead.

local INTERVAL <const> = 100 -- centiseconds

local M = {}

local Owners = {}
Owners.__index = Owners

-- A service: `id`, whether it is `dead`, and its `things`.
local Owner = {}
Owner.__index = Owner

-- `new(ltask)`: `tasks` of the result is the set of the coroutines that wait for deaths, with their number in `count`.
function M.new(ltask)
  return setmetatable({ ltask = ltask, by_id = {}, tasks = { count = 0 } }, Owners)
end

-- `owners:of(id)`: the record of a service.
function Owners:of(id)
  local owner = self.by_id[id]
  if not owner then
    owner = setmetatable({ owners = self, id = id, things = {} }, Owner)
    self.by_id[id] = owner
  end
  return owner
end

-- `owners:run_internal(f, finish, argument)`: runs `f(argument)` in the current task, which does not belong to the
-- program; `finish(argument)` follows, even if the task is killed.
function Owners:run_internal(f, finish, argument)
  local tasks, co = self.tasks, coroutine.running()
  tasks[co], tasks.count = true, tasks.count + 1
  local _ <close> = setmetatable({}, { __close = function()
    tasks[co], tasks.count = nil, tasks.count - 1
    finish(argument)
  end })
  f(argument)
end

-- Whether a request failed because the service does not exist any longer.
local function is_dead(id, ok, err)
  return not ok and tostring(err):find(("{service:%d} is dead"):format(id), 1, true) ~= nil
end

-- Returns when the owner has died (true), or when the requests cannot detect that (false).
local function wait_for_death(ltask, id)
  return is_dead(id, pcall(ltask.syscall, id, "watch"))
    or is_dead(id, pcall(ltask.call, id, "lio.net.watch"))
end

local function watch(owner)
  local ltask = owner.owners.ltask
  while not wait_for_death(ltask, owner.id) do
    if next(owner.things) == nil then return end
    ltask.sleep(INTERVAL)
  end
  owner.dead = true
  local things = owner.things
  owner.things = {}
  for thing, finish in pairs(things) do finish(thing) end
end

-- After every end of the watch, even by a kill, the next request of an owner that has not died begins another one.
local function end_watch(owner)
  local by_id = owner.owners.by_id
  owner.watched = false
  if by_id[owner.id] == owner then by_id[owner.id] = nil end
end

-- `owner:add(thing, finish)`: `finish(thing)` is called when the owner dies, unless `remove` was called before.
function Owner:add(thing, finish)
  local owners = self.owners
  local ltask = owners.ltask
  self.things[thing] = finish
  if self.watched or self.id == ltask.self() then return end
  self.watched = true
  owners.by_id[self.id] = owners.by_id[self.id] or self
  ltask.fork(owners.run_internal, owners, watch, end_watch, self)
end

function Owner:remove(thing)
  self.things[thing] = nil
end

return M
