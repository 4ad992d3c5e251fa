-- A table with a limited number of entries: if it is full, a new entry replaces the entry that has not been used for
-- the longest time. Keys come from clients, so the memory must be bounded. Used by middleware.
--
-- Invariant: the entries form a ring with `self.ring`, from the one that was used last to the one that was used first.

local Lru = {}
Lru.__index = Lru

local M = {}

-- `new(limit)` returns an empty table for at most `limit` entries.
function M.new(limit)
  local ring = {}
  ring.newer, ring.older = ring, ring
  return setmetatable({ limit = limit, count = 0, entries = {}, ring = ring }, Lru)
end

local function unlink(entry)
  entry.newer.older, entry.older.newer = entry.older, entry.newer
end

local function link_as_newest(self, entry)
  local ring = self.ring
  entry.newer, entry.older = ring, ring.older
  ring.older.newer, ring.older = entry, entry
end

local function remove(self, entry)
  unlink(entry)
  self.entries[entry.key] = nil
  self.count = self.count - 1
end

-- `lru:get(key)` returns the value of a key, or nil. Counts as a use.
function Lru:get(key)
  local entry = self.entries[key]
  if not entry then return nil end
  unlink(entry)
  link_as_newest(self, entry)
  return entry.value
end

-- `lru:set(key, value)`: sets the value of a key; nil removes the key. Counts as a use.
function Lru:set(key, value)
  local entry = self.entries[key]
  if entry then remove(self, entry) end
  if value == nil then return end
  if self.count == self.limit then remove(self, self.ring.newer) end
  entry = { key = key, value = value }
  self.entries[key] = entry
  link_as_newest(self, entry)
  self.count = self.count + 1
end

-- `lru:oldest()` returns the key that has not been used for the longest time, and its value; nothing if the table is
-- empty.
function Lru:oldest()
  local entry = self.ring.newer
  if entry ~= self.ring then return entry.key, entry.value end
end

return M
