-- Formats a suite's result as Markdown, and puts the Markdown between the markers of a page: `<!-- bench:NAME -->` and
-- `<!-- /bench:NAME -->`. Also checks which targets are met.

local format = require "format"
local measure = require "measure"
local shown = format.number

local M = {}

-- Returns the contender `name` of a case's result, or nil.
local function find(result, name)
  for _, one in ipairs(result.contenders) do
    if one.name == name then return one end
  end
end

-- Returns the median of the ratios of the figure of contender `a` to that of contender `b` in the same round, or nil if
-- no round has both figures.
function M.ratio(a, b, figure)
  local ratios = {}
  for i, row in ipairs(a.rounds) do
    local other = b.rounds[i]
    local mine, theirs = row and row[figure], other and other[figure]
    if mine and theirs and theirs > 0 then ratios[#ratios + 1] = { ratio = mine / theirs } end
  end
  return #ratios > 0 and measure.median(ratios, "ratio") or nil
end

-- Returns the value that a target limits: the median of a figure, or its ratio to the figure of another contender.
-- Returns nil if the value was not measured.
local function value_of(target, result)
  local mine = find(result, target.of)
  if not mine or not target.to then return mine and mine.median[target.figure] end
  local other = find(result, target.to)
  return other and M.ratio(mine, other, target.figure)
end

-- Returns a list of the targets of a case, with the measured values: `{ what, value, least or most, unit, met }`.
function M.verdicts(case, result)
  local list = {}
  for i, target in ipairs(case.targets or {}) do
    local value = value_of(target, result)
    local met
    if value then
      if target.least then met = value >= target.least else met = value <= target.most end
    end
    list[i] = {
      what = target.what, value = value, least = target.least, most = target.most, unit = target.unit or "", met = met,
    }
  end
  return list
end

local function with_unit(text, unit)
  return unit ~= "" and text .. " " .. unit or text
end

local function verdict(target)
  if target.met == nil then return "not measured" end
  return target.met and "met" or "**not met**"
end

-- Returns the table of a suite's targets, or nil if the suite has none. A suite's function `tables` may call this
-- function.
function M.targets(result)
  local lines = {}
  for _, case in ipairs(result.cases) do
    for _, target in ipairs(case.targets or {}) do
      lines[#lines + 1] = ("| %s | %s | %s | %s |"):format(target.what,
        target.value and with_unit(shown(target.value), target.unit) or "",
        with_unit(format.target(target), target.unit), verdict(target))
    end
  end
  if #lines == 0 then return nil end
  return "| target | measured | to reach | result |\n|---|---|---|---|\n" .. table.concat(lines, "\n") .. "\n"
end

local function row(suite, what, one)
  local cells = { what, one.name }
  for _, column in ipairs(suite.columns) do
    local value = one.median[column[1]]
    cells[#cells + 1] = value and shown(value) or one.failed and "failed" or ""
  end
  return "| " .. table.concat(cells, " | ") .. " |"
end

-- Returns a table of all cases. The table has a row for each contender for which `wanted(contender)` returns true.
-- Returns nil if there is no such contender.
local function listing(suite, result, wanted)
  local head, rule, notes = { "case", "contender" }, { "---", "---" }, {}
  for _, column in ipairs(suite.columns) do
    head[#head + 1], rule[#rule + 1] = column[2], "---"
  end
  local lines = { "| " .. table.concat(head, " | ") .. " |", "|" .. table.concat(rule, "|") .. "|" }
  for _, case in ipairs(result.cases) do
    local has_rows = false
    for _, one in ipairs(case.contenders) do
      if wanted(one) then
        lines[#lines + 1] = row(suite, has_rows and "" or case.what, one)
        has_rows = true
      end
    end
    if has_rows and case.note then notes[#notes + 1] = ("\n%s: %s.\n"):format(case.what, case.note) end
  end
  if #lines == 2 then return nil end
  return table.concat(lines, "\n") .. "\n" .. table.concat(notes)
end

local function cell(matrix, case, name, base)
  local one = find(case, name)
  local value = one and one.median[matrix.figure]
  if not value then return one and one.failed and "failed" or "" end
  local ratio = matrix.to and base and name ~= matrix.to and M.ratio(one, base, matrix.figure)
  return ratio and ("%s (%.2f)"):format(shown(value), ratio) or shown(value)
end

-- Returns the names of the contenders that have the figure of `matrix`: first those of the case with the most
-- contenders, in their order, then the others.
local function columns_of(matrix, result)
  local names, seen, fullest = {}, {}, result.cases[1]
  local function add(case)
    for _, one in ipairs(case.contenders) do
      if one.median[matrix.figure] and not one.series and not seen[one.name] then
        seen[one.name] = true
        names[#names + 1] = one.name
      end
    end
  end
  for _, case in ipairs(result.cases) do
    if #case.contenders > #fullest.contenders then fullest = case end
  end
  add(fullest)
  for _, case in ipairs(result.cases) do add(case) end
  return names
end

-- Returns a table of one figure, with a row for each case that has the figure and a column for each contender, or nil
-- if no case has it. `matrix` has `title` and `figure`; if it has `to`, ratios to the contender of this name are added
-- in brackets.
local function matrix_table(matrix, result)
  local names, lines = columns_of(matrix, result), {}
  for _, case in ipairs(result.cases) do
    local cells, any = { case.what }, false
    local base = matrix.to and find(case, matrix.to)
    for i, name in ipairs(names) do
      cells[i + 1] = cell(matrix, case, name, base)
      any = any or cells[i + 1] ~= ""
    end
    if any then lines[#lines + 1] = "| " .. table.concat(cells, " | ") .. " |" end
  end
  if #lines == 0 then return nil end
  return ("%s\n\n| case | %s |\n|---%s|\n%s\n"):format(matrix.title, table.concat(names, " | "),
    ("|---"):rep(#names), table.concat(lines, "\n"))
end

-- Returns a Markdown list of the contenders that could not be measured, with the reasons, or nil if there are none.
local function problems(result)
  local lines, seen = {}, {}
  for _, case in ipairs(result.cases) do
    for _, one in ipairs(case.contenders) do
      local why = one.problem and one.problem:match "[^\n]*"
      local line = why and one.name .. ": " .. why
      if line and one.failed then line = case.name .. ", " .. line end
      if line and not seen[line] then
        seen[line] = true
        lines[#lines + 1] = "- " .. line
      end
    end
  end
  if #lines == 0 then return nil end
  return "Not measured:\n\n" .. table.concat(lines, "\n") .. "\n"
end

-- Returns the Markdown of a suite's result: the targets, the figures, and the contenders that could not be measured.
function M.suite(suite, result)
  local where = ""
  if result.machine then
    where = (", on %s, %d cores, %s"):format(result.machine.processor, result.machine.cores, result.machine.system)
  end
  local parts = { ("Command: `%s` (%s%s).\n"):format(result.command, result.date, where) }
  local function add(text) parts[#parts + 1] = text end
  if suite.tables then add(suite.tables(result)) else add(M.targets(result)) end
  for _, matrix in ipairs(suite.matrices or {}) do add(matrix_table(matrix, result)) end
  if not suite.tables then
    add(listing(suite, result, function(one) return not suite.matrices or one.series ~= nil end))
  end
  add(problems(result))
  return table.concat(parts, "\n")
end

-- Returns the page with `body` between the markers of `name`. If the page has no such markers, appends a heading, the
-- markers and `body`.
function M.replace(page, name, title, body)
  local open, close = ("<!-- bench:%s -->"):format(name), ("<!-- /bench:%s -->"):format(name)
  local from = page:find(open, 1, true)
  local to, after = page:find(close, from or 1, true)
  local block = open .. "\n" .. body .. close
  if from and to then return page:sub(1, from - 1) .. block .. page:sub(after + 1) end
  if from or to then error(("the markers of %s are incomplete or in the wrong order"):format(name), 0) end
  return ("%s\n## %s\n\n%s\n"):format(page, title, block)
end

return M
