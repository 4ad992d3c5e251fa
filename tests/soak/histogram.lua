-- Counts durations in buckets whose bounds grow by a sixteenth of a power of two, so a percentile is at most 4.5 % too
-- high. Clients count; soak.lua adds the histograms of all clients. A histogram survives JSON.

local M = {}

local PARTS <const> = 16 -- buckets for each power of two
local UNIT <const> = 1e-5 -- seconds: shorter durations belong to bucket 0

--- Creates a histogram.
function M.new() return { buckets = {}, count = 0, max = 0 } end

--- Adds a duration in seconds.
function M.add(histogram, seconds)
  local bucket = math.max(0, math.ceil(math.log(math.max(seconds, UNIT) / UNIT, 2) * PARTS))
  local key = tostring(bucket)
  histogram.buckets[key] = (histogram.buckets[key] or 0) + 1
  histogram.count = histogram.count + 1
  histogram.max = math.max(histogram.max, seconds)
end

--- Adds the counts of another histogram.
function M.merge(histogram, other)
  for key, count in pairs(other.buckets) do histogram.buckets[key] = (histogram.buckets[key] or 0) + count end
  histogram.count = histogram.count + other.count
  histogram.max = math.max(histogram.max, other.max)
end

--- Returns the duration in seconds that the part `share` of the durations does not exceed; 0 for an empty histogram.
function M.percentile(histogram, share)
  local buckets = {}
  for key in pairs(histogram.buckets) do buckets[#buckets + 1] = math.tointeger(key) end
  table.sort(buckets)
  local left = math.ceil(histogram.count * share)
  for _, bucket in ipairs(buckets) do
    left = left - histogram.buckets[tostring(bucket)]
    if left <= 0 then return math.min(UNIT * 2 ^ (bucket / PARTS), histogram.max) end
  end
  return 0
end

return M
