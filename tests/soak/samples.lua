-- The samples of a soak in a file: lines of fields that are separated by tabs. Written by soak.lua, read by plot.lua,
-- also in a stock Lua.

local M = {}

--- The columns, in their order. `phase` is "load", "idle", "burst" or "after"; `seconds` count from the begin of the
-- load; CPU time is that of the server in seconds.
M.columns = {
  "phase", "seconds", "rss_kib", "descriptors", "threads", "cpu_s", "operations_per_s", "in_flight", "p50_ms", "p99_ms",
  "max_ms",
}

--- Writes samples to a file. A sample is a table of values by column; a value that is absent becomes "-".
function M.write(path, list)
  local file <close> = assert(io.open(path, "w"))
  file:write(table.concat(M.columns, "\t"), "\n")
  for _, sample in ipairs(list) do
    local fields = {}
    for i, column in ipairs(M.columns) do
      local value = sample[column] or "-"
      fields[i] = math.type(value) == "float" and ("%.2f"):format(value) or tostring(value)
    end
    file:write(table.concat(fields, "\t"), "\n")
  end
end

--- Reads such a file.
function M.load(path)
  local list = {}
  for line in io.lines(path) do
    local sample, i = {}, 0
    for field in line:gmatch "[^\t]+" do
      i = i + 1
      sample[M.columns[i]] = tonumber(field) or field ~= "-" and field or nil
    end
    list[#list + 1] = sample
  end
  table.remove(list, 1)
  return list
end

--- Returns the median of a column, from the part `from` to the part `to` of the samples of a phase; nil without values.
function M.median(list, phase, column, from, to)
  local all, values = {}, {}
  for _, sample in ipairs(list) do
    if sample.phase == phase then all[#all + 1] = sample end
  end
  for i = math.floor(#all * from) + 1, math.floor(#all * to) do values[#values + 1] = all[i][column] end
  table.sort(values)
  return values[(#values + 1) // 2]
end

--- Returns the maximum of a column in a phase.
function M.most(list, phase, column)
  local most = 0
  for _, sample in ipairs(list) do
    if sample.phase == phase then most = math.max(most, sample[column] or 0) end
  end
  return most
end

return M
