-- Which services have handles of this one, and what of theirs ends when they die. Called by
-- `lio.net.requests`.
--
-- A death is noticed by a request to the owner that stays unanswered until then, and ends with an error.
-- Our service library has such a request for every service; in another one `lio.net.remote` adds it to the
-- services that use it. Services without it are asked again every second, as long as they have anything
-- here. Invariant: once an owner is dead nothing is registered for it any more.

local AGAIN <const> = 100 -- centiseconds

-- → `owner_of(id)`; and the tasks that watch, a set by coroutine with their number in `count`.
return function(ltask)
  local owners = {}
  local watchers = { count = 0 }

  local Owner = {}
  Owner.__index = Owner

  -- Whether a request of ours failed because there is no such service any more.
  local function is_dead(id, ok, err)
    return not ok and tostring(err):find(("{service:%d} is dead"):format(id), 1, true) ~= nil
  end

  -- Returns when the owner has died (true), or when it cannot tell (false).
  local function wait_for_death(id)
    return is_dead(id, pcall(ltask.syscall, id, "watch"))
      or is_dead(id, pcall(ltask.call, id, "lio.net.watch"))
  end

  local function forget(owner)
    owner.watched = false
    if owners[owner.id] == owner then owners[owner.id] = nil end
  end

  local function watch(owner)
    while not wait_for_death(owner.id) do
      if next(owner.things) == nil then return end
      ltask.sleep(AGAIN)
    end
    owner.dead = true
    local things = owner.things
    owner.things = {}
    for thing, finish in pairs(things) do finish(thing) end
  end

  -- However the watch ends, by kill too, the next request of a living owner begins another.
  local Watch = {}
  function Watch.__close(w)
    watchers[w.co], watchers.count = nil, watchers.count - 1
    forget(w.owner)
  end

  local function run_watcher(owner)
    local w <close> = setmetatable({ owner = owner, co = coroutine.running() }, Watch)
    watchers[w.co], watchers.count = true, watchers.count + 1
    watch(owner)
  end

  -- `owner:keep(thing, finish)`: `finish(thing)` is called when the owner dies, unless `drop` came before.
  function Owner:keep(thing, finish)
    self.things[thing] = finish
    if self.watched or self.id == ltask.self() then return end
    self.watched = true
    owners[self.id] = owners[self.id] or self
    ltask.fork(run_watcher, self)
  end

  function Owner:drop(thing)
    self.things[thing] = nil
  end

  -- `owner_of(id)` → its record: `keep`, `drop`, and `dead`.
  local function owner_of(id)
    local owner = owners[id]
    if not owner then
      owner = setmetatable({ id = id, things = {} }, Owner)
      owners[id] = owner
    end
    return owner
  end

  return owner_of, watchers
end
