-- The service of tests/chaos/server.lua that counts. It writes each id to a journal before it answers, and reads the
-- journal when it starts, so an acknowledged count survives kill -9. An id is counted once for each request.

local path = ...

local counts, total = {}, 0 -- counts: id: how often the id was counted
local notes, workers = 0, {}

local function count(id)
  counts[id] = (counts[id] or 0) + 1
  total = total + 1
end

for id in io.lines(path) do
  if id:find "^[%w-]+$" then count(id) end
end
local journal = assert(io.open(path, "ab"))
journal:setvbuf "no"

local S = {}

-- A failed write may have left a part of a line, so each id has a newline on both sides.
function S.count(id)
  local ok, message = journal:write("\n" .. id .. "\n")
  if not ok then return nil, message end
  count(id)
  return total
end

function S.note() notes = notes + 1 end
function S.times(id) return counts[id] or 0 end
function S.counts() return counts end

-- The addresses of the workers, for probe.lua.
function S.enroll(worker)
  for _, known in ipairs(workers) do
    if known == worker then return end
  end
  workers[#workers + 1] = worker
end
function S.workers() return workers end

return S
