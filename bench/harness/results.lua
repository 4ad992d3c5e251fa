-- Writes the results. bench/results.json gets every value of the last whole run of each suite; bench/RESULTS.md gets
-- the tables and plots, between markers. Called by suites.lua after a whole suite.

local json = require "lio.json"
local machine = require "harness.machine"
local plots = require "harness.plots"
local process = require "harness.process"
local tables = require "harness.tables"

local M = {}

M.path = process.here .. "results.json"
M.page = process.here .. "RESULTS.md"

local function is_flat(value)
  for _, one in pairs(value) do
    if type(one) == "table" then return false end
  end
  return true
end

-- Returns a value that is not a table as JSON. Rounds a float to six significant digits, which are enough.
local function scalar(value)
  if math.type(value) == "float" then
    value = tonumber(("%.6g"):format(value))
    if value == math.floor(value) then value = math.tointeger(value) or value end
  end
  return json.encode(value)
end

-- Returns a value as JSON with sorted keys. A table without inner tables is on one line.
function M.encode(value, indent)
  if type(value) ~= "table" then return scalar(value) end
  indent = indent or ""
  local items, inner = {}, indent .. "  "
  local is_list = #value > 0 or getmetatable(value) == json.array_mt
  if is_list then
    for i, one in ipairs(value) do items[i] = M.encode(one, inner) end
  else
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys)
    for i, key in ipairs(keys) do items[i] = json.encode(key) .. ": " .. M.encode(value[key], inner) end
  end
  local open, close = "{", "}"
  if is_list then open, close = "[", "]" end
  if #items == 0 or is_flat(value) then return open .. table.concat(items, ", ") .. close end
  return ("%s\n%s%s\n%s%s"):format(open, inner, table.concat(items, ",\n" .. inner), indent, close)
end

-- Returns the content of the file: `{ suites = { name = result } }`.
function M.read(path)
  local text = process.text(path or M.path)
  return text ~= "" and json.decode(text) or { suites = {} }
end

local function save(path, text)
  local file = assert(io.open(path .. ".new", "wb"))
  assert(file:write(text))
  assert(file:close())
  assert(os.rename(path .. ".new", path))
end

-- Returns Markdown that shows the existing plots of a result.
local function pictures(result)
  local lines = {}
  for _, plot in ipairs(result.plots or {}) do
    if process.text(process.here .. "plots/" .. plot.file) ~= "" then
      lines[#lines + 1] = ("\n![%s](plots/%s)\n"):format(plot.title, plot.file)
    end
  end
  return table.concat(lines)
end

-- Replaces the result of a suite in results.json, then the suite's plots, then its part of RESULTS.md.
function M.write(name, result)
  local suite = require("suites." .. name)
  result.machine, result.versions = machine.describe(), machine.versions(suite.versions and suite.versions())
  local all = M.read()
  all.suites[name] = result
  save(M.path, M.encode(all) .. "\n")
  if result.plots then plots.draw(name) end
  local body = tables.suite(suite, result) .. pictures(result)
  save(M.page, tables.replace(process.text(M.page), name, result.title, body))
  io.stderr:write(("bench: %s and %s have the results of %s\n"):format(M.path, M.page, name))
end

return M
