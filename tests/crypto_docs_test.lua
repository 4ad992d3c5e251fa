-- The programs of docs/crypto.md run, and print what their comments say.

local t = require "tests.kit"
require "lio"

-- Returns the Lua blocks of a page, each with its text and the number of its first line.
local function blocks(page)
  local list, lines, first, number = {}, nil, nil, 0
  for line in io.lines(t.root .. page) do
    number = number + 1
    if line == "```lua" then
      lines, first = {}, number + 1
    elseif line == "```" then
      if lines then list[#list + 1] = { text = table.concat(lines, "\n"), line = first } end
      lines = nil
    elseif lines then
      lines[#lines + 1] = line
    end
  end
  return list
end

local list = blocks "docs/crypto.md"

for _, block in ipairs(list) do
  t.test("the program in line " .. block.line .. " of docs/crypto.md prints the values in its comments", function()
    local wanted, printed = {}, {}
    for value in block.text:gmatch "%-%-> ([^\n]*)" do wanted[#wanted + 1] = value end
    local env = setmetatable({ print = function(...)
      local values = table.pack(...)
      for index = 1, values.n do values[index] = tostring(values[index]) end
      printed[#printed + 1] = table.concat(values, "\t")
    end }, { __index = _G })
    assert(load(block.text, "=docs/crypto.md:" .. block.line, "t", env))()
    t.ok(#wanted > 0)
    t.eq(printed, wanted)
  end, { leaks = true })
end

t.test("the page has a program for each topic, and its table names existing functions", function()
  t.eq(#list, 7)
  local crypto = require "lio.crypto"
  local file <close> = assert(io.open(t.root .. "docs/crypto.md"))
  local count = 0
  for row in file:read "a":gmatch "\n| [^|]+ | ([^\n]*`[^\n]*) |" do
    for name in row:gmatch "`([%l%d_]+)%f[^%l%d_]" do
      t.ok(crypto[name] or name == "nil", name)
      count = count + 1
    end
  end
  t.ok(count > 12, count)
end)

t.finish()
