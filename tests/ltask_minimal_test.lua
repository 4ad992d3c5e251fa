-- The smallest programs with ltask.bootstrap: one root service and no library. The first program is the example with
-- which the project began, and must print the output of that example.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local service <const> = [[
local i = 0
while true do
  print("service" .. i)
  i = i + 1
  coroutine.yield()
  if i > 5 then
    return
  end
end
]]

local post <const> = [[
local init_msg, sz = ltask.pack("init", {
  name = "root",
})
boot.post_message({
  from = SERVICE_ROOT,
  to = SERVICE_ROOT,
  session = 0, -- 0 for root init
  type = MESSSAGE_SYSTEM,
  message = init_msg,
  size = sz,
})
]]

-- Returns the main.lua of the example with its five steps. Tests vary `config` and `post_message`.
local function main(config, post_message)
  return [[
local ltask = require("ltask")
local boot = require("ltask.bootstrap")

local service_path = "./?.lua"
boot.init(]] .. config .. [[)

local SERVICE_ROOT  = 1
local MESSSAGE_SYSTEM  = 0

boot.new_service("root", "@" .. package.searchpath("service", service_path), SERVICE_ROOT)

]] .. post_message .. [[
print("ltask Start")
boot.run()
]]
end

local function folder(program)
  local dir = t.tmp()
  t.write(dir .. "/main.lua", program)
  t.write(dir .. "/service.lua", service)
  return dir
end

-- Runs a program in a folder with its files. The program is ended after `limit` seconds (default: 60).
local function run(program, limit)
  return t.run(string.format("cd %s && timeout -k 1 %g %s main.lua",
    t.quote(folder(program)), limit or 60, kit.host()))
end

local shown <const> = "ltask Start\nservice0\nservice1\nservice2\nservice3\nservice4\nservice5\n"

for _, config in ipairs { "{}", "{ worker = 1 }", "{ worker = 2 }" } do
  t.test("the first example with " .. config .. " prints its output, and ends", function()
    local r = run(main(config, post))
    t.eq(r.err, "")
    t.eq(r.out, shown)
    t.eq(r.code, 0)
  end)

  t.test("a service that gets no message never runs, with " .. config, function()
    local r = run("io.stdout:setvbuf 'no'\n" .. main(config, ""), 1)
    t.eq(r.err, "")
    t.eq(r.out, "ltask Start\n")
    t.eq(r.code, 124, "the program waits until timeout(1) ends it")
  end)
end

t.test("a waiting system uses no CPU", function()
  local dir = folder(main("{ worker = 2 }", ""))
  local r = t.run(string.format("cd %s && TIMEFORMAT='cpu %%U %%S' bash -c %s",
    t.quote(dir), t.quote("time timeout 1 " .. kit.host() .. " main.lua")))
  local user, system = r.err:match "cpu ([%d.]+) ([%d.]+)"
  t.ok(user and user + system < 0.3, "a second of waiting used CPU time: " .. r.err)
end)

-- ---------------------------------------------------------------------------------------------
-- Failures

local function boot(code)
  return kit.program("local boot = require 'ltask.bootstrap'\nboot.init { worker = 1 }\n" .. code)
end

t.test("new_service with three arguments raises an error if the source is missing or invalid", function()
  local r = boot [[
    print(pcall(boot.new_service, "root", "@./there-is-no-such-file.lua", 1))
    print(pcall(boot.new_service, "root", "this is not Lua", 1))
    print(pcall(boot.new_service))
    print(boot.new_service("root", "return", 1))
    boot.deinit()
  ]]
  local lines = kit.lines(r.out)
  t.eq(#lines, 4, r.err)
  t.ok(lines[1]:find "^false\t.*there%-is%-no%-such%-file", lines[1])
  t.ok(lines[2]:find "^false\t.*syntax error", lines[2])
  t.ok(lines[3]:find "^false\t.*bad argument #1", lines[3])
  t.eq(lines[4], "1", "the id can be used after a failure")
  t.eq(r.code, 0)
end)

t.test("new_service with a chunk name returns false and an error if the source is invalid", function()
  local r = boot [[
    print(boot.new_service("root", "this is not Lua", "@some-name.lua", 1))
    print(boot.new_service("root", "return", "@some-name.lua", 1))
    boot.deinit()
  ]]
  local lines = kit.lines(r.out)
  t.eq(#lines, 2, r.err)
  t.ok(lines[1]:find "^false\t.*some%-name%.lua:1:.*syntax error", lines[1])
  t.eq(lines[2], "1")
  t.eq(r.code, 0)
end)

t.test("new_service refuses an id that is in use", function()
  local r = boot [[
    boot.new_service("root", "return", 1)
    print(pcall(boot.new_service, "again", "return", 1))
    print(boot.new_service("again", "return", "@again", 1))
    boot.deinit()
  ]]
  local lines = kit.lines(r.out)
  t.ok(#lines == 2 and lines[1]:find "^false\t" and lines[2]:find "^false\t", r.out .. r.err)
  t.eq(r.code, 0)
end)

t.test("post_message raises an error for an id without a service", function()
  local r = boot [[
    boot.new_service("root", "return", 1)
    for _, to in ipairs { 0, 7, 0xffffffff } do
      local p, n = boot.pack "x"
      print(pcall(boot.post_message, { from = 1, to = to, session = 0, type = 0, message = p, size = n }))
    end
    print(pcall(boot.post_message, { from = 1, to = 1, session = 0, type = 0, message = "text", size = 4 }))
    print(pcall(boot.post_message, { from = 1, session = 0, type = 0 }))
    print(pcall(boot.post_message, "x"))
    boot.deinit()
  ]]
  local lines = kit.lines(r.out)
  t.eq(#lines, 6, r.err)
  for i = 1, 3 do t.ok(lines[i]:find "^false\t.*push message failed", lines[i]) end
  t.ok(lines[4]:find "^false\t.*message", lines[4])
  t.ok(lines[5]:find "^false\t.*to", lines[5])
  t.ok(lines[6]:find "^false\t.*table expected", lines[6])
  t.eq(r.code, 0)
end)

t.test("an error in root is logged with its traceback, and run returns", function()
  for _, worker in ipairs(kit.workers) do
    local r = kit.program(string.format([[
      local boot = require "ltask.bootstrap"
      boot.init { worker = %d }
      boot.new_service("root", "local function deep() error 'root is broken' end deep()", 1)
      boot.post_message { from = 1, to = 1, session = 0, type = 0 }
      boot.run()
      print "after run"
    ]], worker))
    t.eq(r.out, "after run\n")
    t.ok(r.err:find "root is broken" and r.err:find "stack traceback" and r.err:find "deep", r.err)
    t.eq(r.code, 0)
  end
end)

t.finish()
