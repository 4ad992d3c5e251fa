-- The services that own handles of this service, and the handles, connects and waits that must end when such an owner
-- dies. Part of lio/net/requests.
--
-- To detect an owner's death, this service sends it a request that is never answered: the request fails when the owner
-- dies. Our service library provides such a request in every service; for another library, `lio.net.remote` adds one to
-- the services that use it. If an owner does not have such a request, the request is sent again every second while
-- something is registered for the owner. Invariant: nothing is registered for an owner that is known to be dead.

local INTERVAL <const> = 100 -- centiseconds

local M = {}

local Owners = {}
Owners.__index = Owners

-- The record of a service: `id`, `dead` (true once it has died), and `things` (thing: the function that ends it).
local Owner = {}
Owner.__index = Owner

-- `new(ltask)` returns an empty table of owners. `tasks` contains the coroutines that are running `run_internal` as
-- keys; `tasks.count` is the number of these coroutines.
function M.new(ltask)
  return setmetatable({ ltask = ltask, by_id = {}, tasks = { count = 0 } }, Owners)
end

-- `owners:of(id)` returns the record of a service.
function Owners:of(id)
  local owner = self.by_id[id]
  if not owner then
    owner = setmetatable({ owners = self, id = id, things = {} }, Owner)
    self.by_id[id] = owner
  end
  return owner
end

-- `owners:run_internal(f, finish, argument)`: runs `f(argument)` in the current task, and counts the task as internal
-- while `f` runs. Then calls `finish(argument)`, even if the task is killed.
function Owners:run_internal(f, finish, argument)
  local tasks, co = self.tasks, coroutine.running()
  tasks[co], tasks.count = true, tasks.count + 1
  local _ <close> = setmetatable({}, { __close = function()
    tasks[co], tasks.count = nil, tasks.count - 1
    finish(argument)
  end })
  f(argument)
end

-- Returns whether a request failed because the service no longer exists.
local function is_dead(id, ok, err)
  return not ok and tostring(err):find(("{service:%d} is dead"):format(id), 1, true) ~= nil
end

-- Returns true when the service has died, or false when the requests to it have ended for another reason.
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

-- Runs when a watch ends, even if its task is killed. If the owner is alive, its next request starts a new watch.
local function end_watch(owner)
  local by_id = owner.owners.by_id
  owner.watched = false
  if by_id[owner.id] == owner then by_id[owner.id] = nil end
end

-- `owner:add(thing, finish)`: makes `finish(thing)` run when the owner dies, unless `remove` is called first.
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
