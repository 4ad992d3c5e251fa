-- Parses the command line of run.lua: which suites and cases to run, and the options.

local M = {}

M.usage = "usage: lio bench/run.lua [list | suite | suite/case ...] [rounds=5] [seconds=4] [peers=no] [write=no]"

local FLAGS <const> = { yes = true, no = false }

local function set(options, name, value)
  local now = options[name]
  if type(now) == "number" then
    local number = math.tointeger(tonumber(value))
    if not number or number < 1 then error(name .. " must be a whole number of 1 or more, not " .. value, 0) end
    options[name] = number
  elseif type(now) == "boolean" then
    if FLAGS[value] == nil then error(name .. " must be yes or no, not " .. value, 0) end
    options[name] = FLAGS[value]
  else
    error("unknown option: " .. name, 0)
  end
end

-- Parses `words`. `names` is the list of the existing suites. If no word names a suite, all suites are chosen. Returns
-- a table with `list` (true: only list the suites and cases), `options` (rounds, seconds, peers, write), and `suites`,
-- in the order of the words: `{ name = …, cases = nil (all) or a list of names }`. Raises an error for an unknown word.
function M.parse(words, names)
  local known, chosen = {}, {}
  for _, name in ipairs(names) do known[name] = true end
  local wanted = { suites = {}, options = { rounds = 5, seconds = 4, peers = true, write = true } }
  for _, word in ipairs(words) do
    local option, value = word:match "^([^=/]+)=(.*)$"
    local name, case = word:match "^([^/]+)/?(.*)$"
    if option then
      set(wanted.options, option, value)
    elseif word == "list" then
      wanted.list = true
    elseif not known[name] then
      error("no such suite: " .. word .. " (suites: " .. table.concat(names, ", ") .. ")", 0)
    else
      local suite = chosen[name]
      if not suite then
        suite = { name = name, cases = {} }
        chosen[name] = suite
        table.insert(wanted.suites, suite)
      end
      if case == "" then suite.cases = nil elseif suite.cases then table.insert(suite.cases, case) end
    end
  end
  if #wanted.suites == 0 then
    for _, name in ipairs(names) do table.insert(wanted.suites, { name = name }) end
  end
  return wanted
end

return M
