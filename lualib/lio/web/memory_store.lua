-- `web.memory_store`: a store of `web.sessions` in the memory of this VM. With several workers, each worker has its own
-- store, so the sessions of one worker are unknown to the others.

local lio = require "lio"
local lru = require "lio.web.lru"
local misuse = require "lio.misuse"
local options = require "lio.options"

local Store = {}
Store.__index = Store
Store.__name = "lio.memory_store"

local OPTIONS <const> = { sessions = options.whole(1) }

local function check(store, call, id)
  if getmetatable(store) ~= Store then misuse.no_colon("store", call) end
  misuse.check(call, 1, id, "string")
end

local function remove_expired(self)
  while true do
    local id, entry = self.entries:oldest()
    if not id or entry.expiry > self.clock() then return end
    self.entries:set(id, nil)
  end
end

-- `store:load(id)` returns the data of a session, or nil.
function Store:load(id)
  check(self, "load", id)
  local entry = self.entries:get(id)
  if not entry then return nil end
  if entry.expiry > self.clock() then return entry.data end
  self.entries:set(id, nil)
  return nil
end

-- `store:save(id, data, ttl)`: keeps the data, a string, for `ttl` seconds. Returns true.
function Store:save(id, data, ttl)
  check(self, "save", id)
  misuse.check("save", 2, data, "string")
  misuse.check_seconds("save", 3, ttl)
  remove_expired(self)
  self.entries:set(id, { data = data, expiry = self.clock() + ttl })
  return true
end

-- `store:update(id, data, ttl)`: like `save`, but only if the session exists. Returns whether it exists.
function Store:update(id, data, ttl)
  check(self, "update", id)
  if not self:load(id) then return false end
  return self:save(id, data, ttl)
end

-- `store:destroy(id)`: forgets a session. Returns true.
function Store:destroy(id)
  check(self, "destroy", id)
  self.entries:set(id, nil)
  return true
end

-- `web.memory_store([options])` returns a store. `sessions`: how many sessions it keeps (100000). If it is full, it
-- forgets the session that was not used for the longest time.
return function(opts)
  opts = options.check("web.memory_store", 1, opts, OPTIONS)
  local limit = math.tointeger(opts.sessions or 100000)
  return setmetatable({ entries = lru.new(limit), clock = lio.now }, Store)
end
