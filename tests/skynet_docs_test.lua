-- docs/skynet.md against the code: its table names every function of `skynet` and nothing else, its events are those
-- that traces have, and its program runs.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
package.path = t.root .. "?.lua;" .. package.path
local kit = require "tests.ltaskkit"

require "lio"
local skynet = require "skynet"

local function read_file(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local manual = read_file(t.root .. "docs/skynet.md")

local function section(name)
  return assert(manual:match("\n## " .. name .. "\n(.-)\n## ") or manual:match("\n## " .. name .. "\n(.*)$"), name)
end

-- The names in the first column of a section's table.
local function first_column(name)
  local names = {}
  for cell in section(name):gmatch "\n| ([^|]+) |" do
    for word in cell:gmatch "`([%w_]+)[^`]*`" do names[#names + 1] = word end
  end
  table.sort(names)
  return names
end

t.test("the manual's table names every function and number of skynet, once, and nothing else", function()
  local real = {}
  for name in pairs(skynet) do real[#real + 1] = name end
  table.sort(real)
  t.eq(first_column "Every function", real)
end)

t.test("the words that the contract lists are all there", function()
  for name in ([[start dispatch register_protocol fork sleep yield wait wakeup timeout call send rawcall ret retpack
    response self newservice uniqueservice queryservice localname exit error now starttime time address genid
    trace]]):gmatch "%S+" do
    t.eq(type(skynet[name]), "function", name)
  end
end)

t.test("what the manual says is not there is not there", function()
  local list = assert(section "Every function":match "\nNot there: (.-)%(")
  for name in list:gmatch "`([%w_]+)`" do t.is_nil(skynet[name], name) end
  for _, name in ipairs { "filter", "harbor", "monitor", "launch", "socket" } do
    t.is_nil(skynet[name], name)
    t.ok(section "Every function":find("`" .. name .. "`", 1, true), name)
  end
end)

t.test("the events of traces are those of the code", function()
  local code = {}
  for _, file in ipairs { "trace", "task", "message", "protocol" } do
    local text = read_file(t.root .. "lualib/skynet/" .. file .. ".lua")
    for event in text:gmatch 'trace%.event "(%a+)"' do code[event] = true end
    for event in text:gmatch 'log%(tag, "(%a+)"' do code[event] = true end
  end
  code.trace = true
  local named = {}
  for _, event in ipairs(first_column "Traces") do named[event] = true end
  t.eq(named, code)
end)

t.test("the manual's program runs", function()
  local dir = t.tmp()
  for source in manual:gmatch "\n```lua\n(.-)```" do
    local name = source:match "^%-%- (%w+)%.lua\n"
    if name then t.write(dir .. "/" .. name .. ".lua", source) end
  end
  local source = read_file(dir .. "/run.lua")
  local r = kit.program(source:gsub("luaservice", "lua_path = package.path, lua_cpath = package.cpath, %0"), dir)
  t.eq({ r.err, r.code }, { "", 0 })
  t.ok(r.out:find "^%[.-%]%[INFO%]%(%d+ main%) first value\n$", r.out)
end)

t.finish()
