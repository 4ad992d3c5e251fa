-- `lio test`: parses the command line, finds the files of tests, runs each in a separate process, and reports the
-- results. Called by lio/test.lua. The folder command/ contains the parts.

local files = require "lio.testing.command.files"
local process = require "lio.testing.command.process"

local options = require "lio.options"
local USAGE <const> = [[
usage: lio test [DIR|FILE ...] [options]
  DIR, FILE      a folder, whose files *_test.lua are run, or one file (default: the current folder)
  --filter WORD  run only the tests whose name contains WORD; case does not matter
  --jobs N       number of files that run at the same time, 1 to 64 (default 1)
  --seconds N    time limit of each test that sets none (default 10)
  --verbose      print a line for each test, and what the tests print
  --tap          print the results in the Test Anything Protocol
  --junit FILE   also write the results to FILE, as JUnit's XML
  --watch        run the tests again whenever a file that they have loaded changes
  -h, --help     show this help
]]

local WORDS <const> = { filter = true, jobs = true, seconds = true, junit = true, ["run-file"] = true }
local FLAGS <const> = { verbose = true, tap = true }

local function wrong(message)
  io.stderr:write("lio test: ", message, "\n'lio test --help' shows the options\n")
  os.exit(1, true)
end

-- All options, for suggestions.
local ALL <const> = { help = true }
for _, names in ipairs { FLAGS, WORDS } do
  for name in pairs(names) do ALL[name] = true end
end
ALL["run-file"] = nil -- only for the command's own processes

local function number(name, text, low, high, is_whole)
  local value = tonumber(text)
  if not value or value < low or value > high or is_whole and not math.tointeger(value) then
    wrong(("--%s: %s from %s to %s expected, got '%s'"):format(name, is_whole and "an integer" or "a number", low, high,
      text))
  end
  return value
end

-- Parses the arguments. Returns the options; the field `paths` is the list of folders and files.
local function parse(...)
  local words, opts = table.pack(...), { paths = {} }
  local index, only_names = 1, false
  while index <= words.n do
    local word = words[index]
    local name, value = word:match "^%-%-([%w-]+)=?(.*)$"
    if only_names or word:sub(1, 1) ~= "-" then
      opts.paths[#opts.paths + 1] = word
    elseif word == "--" then
      only_names = true
    elseif word == "-h" or word == "--help" then
      io.stdout:write(USAGE)
      os.exit(0, true)
    elseif FLAGS[name] and not word:find("=", 1, true) then
      opts[name] = true
    elseif WORDS[name] then
      if not word:find("=", 1, true) then
        index = index + 1
        value = words[index] or wrong("'" .. word .. "' needs a value")
      end
      opts[name] = value
    else
      local near = options.nearest(word:match "^%-*([^=]*)", ALL)
      wrong("unrecognized option '" .. word .. "'" .. (near and (" (did you mean '--%s'?)"):format(near) or ""))
    end
    index = index + 1
  end
  opts.jobs = math.tointeger(number("jobs", opts.jobs or "1", 1, 64, true))
  opts.seconds = opts.seconds and number("seconds", opts.seconds, 0.001, 86400)
  return opts
end

-- Runs the files, `opts.jobs` at a time, and reports the result of each as soon as it has ended.
-- Returns the counts of all files.
local function run_all(list, opts, reporters)
  local loop = require "lio.loop"
  local counts = { passed = 0, failed = 0, skipped = 0 }
  local next_index = 1
  local function worker()
    while list[next_index] do
      local path = list[next_index]
      next_index = next_index + 1
      local result = process.run(path, opts)
      for name, count in pairs(result.counts) do counts[name] = counts[name] + count end
      for _, reporter in ipairs(reporters) do reporter:file(result) end
    end
  end
  local problem
  loop.run(function()
    for _ = 1, opts.jobs do
      loop.fork(function()
        local ok, message = xpcall(worker, debug.traceback)
        if not ok then problem = message end
      end)
    end
  end)
  if problem then error(problem, 0) end
  if loop.was_signalled() then os.exit(130, true) end
  return counts
end

return function(...)
  local opts = parse(...)
  if opts["run-file"] then return require "lio.testing.command.child"(opts["run-file"], opts) end
  local list, message = files.find(opts.paths)
  if not list then wrong(message) end
  local reporters = { require(opts.tap and "lio.testing.command.tap" or "lio.testing.command.text").new(opts) }
  if opts.junit then
    local junit, problem = require("lio.testing.command.junit").new(opts.junit)
    if not junit then wrong(problem) end
    table.insert(reporters, 1, junit)
  end
  local counts = run_all(list, opts, reporters)
  -- The summary is the last line.
  for _, reporter in ipairs(reporters) do reporter:finish(counts) end
  if opts.filter and counts.passed + counts.failed + counts.skipped == 0 then
    io.stderr:write(("lio test: the name of no test contains '%s'\n"):format(opts.filter))
    os.exit(1, true)
  end
  os.exit(counts.failed == 0, true)
end
