-- Suite `selector`: rounds of a selector (bench/selector/round.lua), compared with the same system calls on raw epoll.
-- One or ten of 10 to 20,000 descriptors are ready. Each combination of a program and a number of descriptors is one
-- contender.

local format = require "format"
local process = require "harness.process"
local tables = require "harness.tables"
local shown = format.number

local M = { title = "Selector", columns = { { "rate", "rounds/s" }, { "each", "CPU µs" } } }

local quote = process.quote

local COUNTS <const> = { 10, 100, 1000, 8000, 20000 }
local OTHERS <const> = 50 -- the number of other descriptors that a program may have open
-- A program must start and register its descriptors within this time, which is added to the length of the turn.
local START_SECONDS <const> = 30

local script = ("%s %s"):format(quote(process.lio), quote(process.here .. "selector/round.lua"))
local PROGRAMS <const> = {
  { name = "baseline", command = quote(process.examples .. "/selector_baseline"), last = "" },
  { name = "lio", command = script, last = "" },
  { name = "lio, bare descriptors", command = script, last = " foreign" },
}

-- Makes a shell raise its limit of descriptors to the needed number, or to the hard limit if the hard limit is lower.
local LIMIT <const> = ("ulimit -n %d 2>/dev/null || ulimit -n $(ulimit -Hn); "):format(
  COUNTS[#COUNTS] + OTHERS)

-- Returns the numbers of descriptors to measure. Numbers over the limit are replaced with the largest possible number.
local function counts()
  local most = tonumber((process.run(LIMIT .. "ulimit -n"))) or math.huge
  local list = {}
  for _, count in ipairs(COUNTS) do
    count = math.min(count, (most - OTHERS) // 2 * 2)
    if count ~= list[#list] then list[#list + 1] = count end
  end
  return list
end

local function named(name, count) return ("%s, %s"):format(name, shown(count)) end

local function contender(program, count, active)
  return {
    name = named(program.name, count),
    series = program.name,
    x = count,
    turn = function(_, seconds)
      local command = ("exec %s%s %d %d %d%s"):format(
        process.pinning(), program.command, count, active, seconds, program.last)
      return process.figures("sh -c " .. quote(LIMIT .. command), seconds + START_SECONDS)
    end,
  }
end

local list = counts()
local few, many = list[1], list[#list]

local function case(name, what, active, targets)
  local contenders = {}
  for _, count in ipairs(list) do
    for _, program in ipairs(PROGRAMS) do contenders[#contenders + 1] = contender(program, count, active) end
  end
  return {
    name = name, what = what, contenders = contenders, targets = targets, share = 0.25, beyond = 0.5,
  }
end

-- The targets: 210,000 rounds per second on a machine where the baseline makes 250,000, and the same cost with any
-- number of descriptors. The targets are given as ratios of CPU time, because the programs never sleep.
local OVER_BASELINE <const>, OVER_FEWEST <const> = 1.19, 1.1

local function flat(active)
  return {
    what = ("%d ready of %s: CPU of a round over that with %s"):format(active, shown(many), shown(few)),
    of = named("lio", many), to = named("lio", few), figure = "each", most = OVER_FEWEST,
  }
end

local one = {}
for i, count in ipairs(list) do
  one[i] = {
    what = ("1 ready of %s: CPU of a round over the baseline's"):format(shown(count)),
    of = named("lio", count), to = named("baseline", count), figure = "each", most = OVER_BASELINE,
  }
end
table.insert(one, flat(1))

M.cases = {
  case("one", "one ready descriptor", 1, one),
  case("ten", "ten ready descriptors", 10, { flat(10) }),
}

-- Returns a table of one figure, with a row for each number of descriptors and a column for each program.
local function matrix_table(case_result, figure, title)
  local names = {}
  for i, program in ipairs(PROGRAMS) do names[i] = program.name end
  local lines = {
    ("%s, %s:\n"):format(case_result.what, title),
    "| registered | " .. table.concat(names, " | ") .. " |",
    "|---" .. ("|---"):rep(#names) .. "|",
  }
  for _, count in ipairs(list) do
    local cells = {}
    for i, name in ipairs(names) do
      cells[i] = ""
      for _, contender_result in ipairs(case_result.contenders) do
        local value = contender_result.median[figure]
        if contender_result.name == named(name, count) and value then cells[i] = shown(value) end
      end
    end
    lines[#lines + 1] = ("| %s | %s |"):format(shown(count), table.concat(cells, " | "))
  end
  return table.concat(lines, "\n") .. "\n"
end

M.plots = {}
for i, words in ipairs { { "one", "One ready descriptor" }, { "ten", "Ten ready descriptors" } } do
  M.plots[i] = {
    file = ("selector_%s.svg"):format(words[1]), kind = "series", figure = "rate", title = words[2], case = words[1],
    x = "registered descriptors", y = "rounds per second", logarithmic = true,
  }
end

function M.tables(result)
  local parts = { tables.targets(result) }
  for _, case_result in ipairs(result.cases) do
    parts[#parts + 1] = matrix_table(case_result, "rate", "rounds a second")
    parts[#parts + 1] = matrix_table(case_result, "each", "µs of CPU for a round")
  end
  return table.concat(parts, "\n")
end

return M
