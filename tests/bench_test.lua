-- The framework of the benchmarks: arguments, medians and ratios, tables and markers, results as JSON, and programs
-- that end with the benchmark. If wrk is installed, one case of the suite `http` runs for a second.

local t = require "tests.kit"
package.path = t.root .. "bench/?.lua;" .. package.path

local command = require "harness.command"
local json = require "lio.json"
local process = require "harness.process"
local results = require "harness.results"
local tables = require "harness.tables"
local runner = require "harness.runner"

local QUIET <const> = setmetatable({}, { __index = function() return function() end end })

-- -----------------------------------------------------------------------------------------------------------
-- Arguments

t.test("arguments choose suites, cases and options", function()
  local wanted = command.parse({ "net", "http/a", "http/b", "rounds=3", "peers=no" }, { "http", "net" })
  t.eq(wanted.suites, { { name = "net" }, { name = "http", cases = { "a", "b" } } })
  t.eq(wanted.options, { rounds = 3, seconds = 4, peers = false, write = true })
end)

t.test("without an argument all suites run; a suite named together with its cases runs completely", function()
  t.eq(command.parse({ "seconds=1" }, { "http", "net" }).suites, { { name = "http" }, { name = "net" } })
  t.eq(command.parse({ "http/a", "http" }, { "http" }).suites, { { name = "http" } })
  t.eq(command.parse({ "http", "http/a" }, { "http" }).suites, { { name = "http" } })
end)

t.test("unknown arguments are refused by name", function()
  local names = { "http" }
  t.raises("no such suite: htpp", command.parse, { "htpp" }, names)
  t.raises("unknown option: round", command.parse, { "round=3" }, names)
  t.raises("rounds must be a whole number of 1 or more, not ", command.parse, { "rounds=0" }, names)
  t.raises("rounds must be a whole number of 1 or more, not ", command.parse, { "rounds=1.5" }, names)
  t.raises("peers must be yes or no", command.parse, { "peers=maybe" }, names)
end)

t.test("the program refuses unknown arguments with exit code 1", function()
  local bench = t.bin() .. " " .. t.root .. "bench/run.lua "
  local one = t.run(bench .. "nothing")
  t.eq(one.code, 1)
  t.ok(one.err:find("no such suite: nothing", 1, true), one.err)
  t.ok(one.err:find("usage: ", 1, true))
  local other = t.run(bench .. "http/nothing")
  t.eq(other.code, 1)
  t.ok(other.err:find("no such case: http/nothing", 1, true), other.err)
end)

t.test("list names every case of every suite", function()
  local listed = t.run(t.bin() .. " " .. t.root .. "bench/run.lua list")
  t.eq(listed.code, 0)
  for _, name in ipairs { "http/hello64", "http/idle", "ltask/pingpong1", "coroutine/resume" } do
    t.ok(listed.out:find("  " .. name, 1, true), name)
  end
end)

-- -----------------------------------------------------------------------------------------------------------
-- Rounds

t.test("contenders take turns, and the results are the medians of their rounds", function()
  local order, values = {}, { a = { 3, 1, 2 }, b = { 10, 30, 20 } }
  local function contender(name)
    local count = 0
    return { name = name, turn = function(_, seconds)
      count = count + 1
      order[#order + 1] = name .. count
      return { figure = values[name][count], seconds = seconds }
    end }
  end
  local case = { name = "c", what = "c", share = 0.5, contenders = { contender "a", contender "b" } }
  local result = runner.run(case, { rounds = 3, seconds = 4, peers = true }, QUIET)
  t.eq(order, { "a1", "b1", "a2", "b2", "a3", "b3" })
  t.eq(result.contenders[1].median, { figure = 2, seconds = 2 })
  t.eq(result.contenders[2].median.figure, 20)
  t.eq(tables.ratio(result.contenders[2], result.contenders[1], "figure"), 10)
end)

t.test("if a contender fails, the failure is recorded and the others continue", function()
  local closed, tries = 0, 0
  local case = { name = "c", what = "c", contenders = {
    { name = "absent", open = function() return nil, "is not installed" end, turn = error },
    { name = "broken", open = function() error("no start", 0) end, turn = error },
    {
      name = "dies",
      open = function() return { close = function() closed = closed + 1 end } end,
      turn = function()
        tries = tries + 1
        error("died", 0)
      end,
    },
    { name = "peer", peer = true, turn = error },
    { name = "good", turn = function() return { figure = 1 } end },
  } }
  local result = runner.run(case, { rounds = 4, seconds = 1, peers = false }, QUIET)
  local absent, broken, dies, good = table.unpack(result.contenders)
  t.eq({ absent.problem, absent.failed }, { "is not installed" })
  t.eq({ broken.problem, broken.failed }, { "no start", true })
  t.eq({ dies.problem, dies.failed, tries, closed }, { "died", true, 2, 1 })
  t.eq({ good.name, good.median.figure, #result.contenders }, { "good", 1, 4 })
end)

t.test("medians exclude failed rounds", function()
  t.eq(runner.medians { { a = 5 }, false, { a = 1, b = 7 }, { a = 3 } }, { a = 3, b = 7 })
  t.eq(runner.medians { false }, {})
  local one, other = { rounds = { { f = 2 }, false, { f = 9 } } }, { rounds = { { f = 1 }, { f = 1 }, false } }
  t.eq(tables.ratio(one, other, "f"), 2)
  t.is_nil(tables.ratio(one, { rounds = {} }, "f"))
end)

-- -----------------------------------------------------------------------------------------------------------
-- Results

local function contender(name, ...)
  local rounds = {}
  for i, value in ipairs { ... } do rounds[i] = { cpu = value } end
  return { name = name, rounds = rounds, median = runner.medians(rounds) }
end

t.test("a target shows the measured value and whether it is met", function()
  local case = { targets = {
    { what = "ratio", of = "lio", to = "floor", figure = "cpu", most = 1.15 },
    { what = "figure", of = "lio", figure = "cpu", most = 9, unit = "µs" },
    { what = "rate", of = "lio", figure = "cpu", least = 9 },
    { what = "absent", of = "nobody", figure = "cpu", most = 1 },
  } }
  local result = { contenders = { contender("floor", 10, 10), contender("lio", 11, 11) } }
  local verdicts = tables.verdicts(case, result)
  t.eq({ verdicts[1].value, verdicts[1].met }, { 1.1, true })
  t.eq({ verdicts[2].value, verdicts[2].met }, { 11, false })
  t.eq(verdicts[3].met, true)
  t.is_nil(verdicts[4].met)
  result.name, result.what, result.targets = "c", "c", verdicts
  local text = tables.suite({ columns = { { "cpu", "CPU" } } },
    { command = "x", date = "today", cases = { result } })
  t.ok(text:find("| ratio | 1.1 | ≤ 1.15 | met |", 1, true), text)
  t.ok(text:find("| figure | 11 µs | ≤ 9 µs | **not met** |", 1, true), text)
  t.ok(text:find("| absent |  | ≤ 1 | not measured |", 1, true), text)
  t.ok(text:find("| c | floor | 10 |", 1, true), text)
end)

t.test("a matrix has a row for each case, and ratios in brackets", function()
  local case = { name = "c", what = "a case", contenders = { contender("floor", 10), contender("lio", 12) } }
  local text = tables.suite({ columns = {}, matrices = { { title = "CPU", figure = "cpu", to = "floor" } } },
    { command = "x", date = "today", cases = { case } })
  t.ok(text:find("| case | floor | lio |", 1, true), text)
  t.ok(text:find("| a case | 10 | 12 (1.20) |", 1, true), text)
end)

t.test("tables are written between the markers, and the text around them stays", function()
  local page = "before\n<!-- bench:a -->\nold\n<!-- /bench:a -->\nafter\n"
  t.eq(tables.replace(page, "a", "A", "new\n"), "before\n<!-- bench:a -->\nnew\n<!-- /bench:a -->\nafter\n")
  t.eq(tables.replace("text\n", "a", "A", "new\n"),
    "text\n\n## A\n\n<!-- bench:a -->\nnew\n<!-- /bench:a -->\n")
  t.raises("the markers of a are incomplete", tables.replace, "<!-- bench:a -->\n", "a", "A", "new\n")
end)

t.test("results are JSON with sorted keys and short numbers", function()
  local value = { b = { 1, 2.0, 0.12345678 }, a = { z = false, y = "x\n" }, c = json.array(), d = { { k = 1 } } }
  local text = results.encode(value)
  t.eq(json.decode(text), { a = { y = "x\n", z = false }, b = { 1, 2, 0.123457 }, c = {}, d = { { k = 1 } } })
  t.ok(text:find('"b": [1, 2, 0.123457]', 1, true), text)
  t.ok(text:find '"a".*"b".*"c".*"d"', text)
end)

-- -----------------------------------------------------------------------------------------------------------
-- Programs

t.test("a program is measured, and closing it ends all processes that it started", function()
  local program <close> = process.start {
    command = "sh -c 'sleep 60 & echo up; while :; do :; done'",
    ready = function(self) return process.text(self.log):find "up" end,
  }
  t.eq(#program:processes(), 2)
  t.ok(program:resident() > 0)
  -- The clock has a resolution of 0.01 s, and on a busy machine the program may not run at all in one period.
  local user, system
  for _ = 1, 50 do
    user, system = process.during(program, function() process.sleep(0.2) end)
    if user + system > 0 then break end
  end
  t.ok(user + system > 0, "CPU")
  program:close()
  t.eq(#program:processes(), 0)
  t.raises("ended by itself", program.cpu, program)
  process.finish()
end, { leaks = true })

t.test("if a program does not start, the error contains its output", function()
  t.raises("did not start: sh .*no luck", process.start, {
    command = "sh -c 'echo no luck; exit 1'", ready = function() return false end,
  })
  process.finish()
end)

t.test("started processes end when the benchmark is killed", function()
  local file = t.write(t.tmp() .. "/killed.lua", ([[
    package.path = %q
    local process = require "harness.process"
    print(process.start({ command = "sleep 60" }).pid, process.folder())
    io.stdout:flush()
    process.sleep(60)
  ]]):format(t.root .. "bench/?.lua;" .. package.path))
  local child <close> = t.spawn(t.lio() .. " " .. file)
  local pid, folder = child:line():match "(%d+)%s+(%S+)"
  child:stop "KILL"
  for _ = 1, 1000 do
    if process.text("/proc/" .. pid .. "/stat") == "" and not process.succeeds("test -e " .. folder) then return end
    process.sleep(0.02)
  end
  error "the process or its folder was not removed"
end)

t.test("process.port returns a valid port number", function()
  local port = process.port()
  t.ok(port > 0 and port < 65536)
end)

-- -----------------------------------------------------------------------------------------------------------

t.test("a case of the http suite runs from start to end", function()
  if not process.succeeds "command -v wrk" then return print "skipped: wrk is not installed" end
  local run = t.run(("env LIO=%s %s %sbench/run.lua http/hello64 rounds=1 seconds=1 peers=no"):format(
    t.bin(), t.bin(), t.root))
  t.ok(run.out:find "hello, keep%-alive, 64 connections |", run.out .. run.err)
  t.ok(run.out:find "| hello, 64 connections: user | [%d.]+ µs |", run.out .. run.err)
end)

t.finish()
