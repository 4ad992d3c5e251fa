-- docs/skynet.md matches the code: its table has every function of `skynet` and nothing else, it lists the events of
-- traces, and its program runs.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

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

-- Returns the names in the first column of the table in section `name`, sorted.
local function first_column(name)
  local names = {}
  for cell in section(name):gmatch "\n| ([^|]+) |" do
    for word in cell:gmatch "`([%w_]+)[^`]*`" do names[#names + 1] = word end
  end
  table.sort(names)
  return names
end

t.test("the manual's table names every function and constant of skynet once, and nothing else", function()
  local real = {}
  for name in pairs(skynet) do real[#real + 1] = name end
  table.sort(real)
  t.eq(first_column "Every function", real)
end)

t.test("the functions that most programs use exist", function()
  for name in ([[start dispatch register_protocol fork sleep yield wait wakeup timeout call send rawcall ret retpack
    response self newservice uniqueservice queryservice localname exit error now starttime time address genid
    trace]]):gmatch "%S+" do
    t.eq(type(skynet[name]), "function", name)
  end
end)

t.test("names that the manual lists as missing do not exist", function()
  local count = 0
  for name in section "What is not there":match "\n?Functions of `skynet`: (.-)\n\n":gmatch "`([%w_]+)`" do
    t.is_nil(skynet[name], name)
    count = count + 1
  end
  t.eq(count, 6)
  for cell in section "What is not there":gmatch "\n| ([^|]+) |" do
    for name in cell:gmatch "`([%w_.]+)`" do
      local path = t.root .. "lualib/" .. name:gsub("%.", "/") .. ".lua"
      t.is_nil(io.open(path), name)
      count = count + 1
    end
  end
  t.ok(count > 40, count)
end)

t.test("require of a missing module says what to use instead, unless the program has the module", function()
  local modules = {}
  for cell in section "What is not there":gmatch "\n| ([^|]+) |" do
    for name in cell:gmatch "`([%w_.]+)`" do modules[#modules + 1] = name end
  end
  local dir = t.tmp()
  t.write(dir .. "/lpeg.lua", "return 'the program’s'")
  t.write(dir .. "/main.lua", ([[
    local skynet = require "skynet"
    skynet.start(function()
      for name in ("%s"):gmatch "%%S+" do io.write((select(2, pcall(require, name))), "\n") end
      io.write(select(2, pcall(function() require "skynet.nonsense" end)), "\n")
      io.write(tostring(skynet.forward_type), "\n")
      skynet.exit()
    end)
  ]]):format(table.concat(modules, " ")))
  local r = kit.program("os.exit(require 'skynet.start' 'main', true)", dir)
  t.eq({ r.err, r.code }, { "", 0 })
  local lines = kit.lines(r.out)
  t.ok(#modules > 40, #modules)
  for i, name in ipairs(modules) do
    local problem = ("module '%s' is a part of skynet that lio does not have: "):format(name)
    if name == "lpeg" then
      t.eq(lines[i], "the program’s")
    else
      t.ok(lines[i]:find(problem, 1, true) and lines[i]:find "%(docs/skynet%.md, What is not there%)$", lines[i])
    end
  end
  t.ok(lines[#modules + 1]:find "main%.lua:4: module 'skynet%.nonsense' not found:$", lines[#modules + 1])
  t.eq(lines[#lines - 1], "\tno module of lio's skynet API (docs/skynet.md, Modules)")
  t.eq(lines[#lines], "nil")
end)

t.test("the manual names every module of skynet's library that programs use", function()
  local named = {}
  for name in (section "Modules" .. section "What is not there"):gmatch "`([%w_.]+)`" do named[name] = true end
  for name in manual:gmatch 'require "([%w_.]+)"' do named[name] = true end
  for name in ([[skynet.cluster skynet.codecache skynet.coroutine skynet.crypt skynet.datacenter skynet.datasheet
    skynet.datasheet.builder skynet.db.mongo skynet.db.mysql skynet.db.redis skynet.debug skynet.dns skynet.harbor
    skynet.inject skynet.manager skynet.mqueue skynet.multicast skynet.netpack skynet.profile skynet.queue
    skynet.reload skynet.remotedebug skynet.require skynet.service skynet.sharedata skynet.sharemap skynet.sharetable
    skynet.snax skynet.socket skynet.socketchannel snax.gateserver snax.loginserver snax.msgserver http.httpc
    http.httpd http.sockethelper http.websocket sproto sprotoloader]]):gmatch "%S+" do
    t.ok(named[name], name)
  end
end)

t.test("the manual lists the debug commands that the code has", function()
  local code = {}
  for name in read_file(t.root .. "lualib/skynet/debug.lua"):gmatch "CMD%.(%u+)" do code[name] = true end
  local named = {}
  for _, name in ipairs(first_column "Debug commands") do named[name] = true end
  t.eq(named, code)
end)

t.test("the manual lists the trace events that the code logs", function()
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
