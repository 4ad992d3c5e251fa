-- Waits where Lua cannot yield: below C functions that cannot be suspended, in finalizers, hooks and message handlers,
-- and outside tasks. The error names the function and the line of its caller, nothing hangs, and the task can continue.
-- The suite tests each place with a direct wait, and with coroutines between the place and the wait.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local loop = require "lio.loop"
local net = require "lio.net"
local task = require "lio.task"
local c = require "lio.coroutine"

local here <const> = debug.getinfo(1, "S").short_src

-- Calls `f` inside `depth` nested coroutines.
local function nested(depth, f)
  if depth == 0 then return f() end
  return c.wrap(nested)(depth - 1, f)
end

-- Checks that `problem` is the error for a wait inside `name`, called at `line` of this file. Wrap functions may have
-- added positions before the message.
local function check(problem, name, line)
  t.eq(type(problem), "string")
  t.ok(problem:find(("cannot wait here: inside '%s', which cannot yield, called at %s:%d"):format(name, here, line), 1,
    true), problem)
end

-- Functions that call their argument inside a C function that cannot be suspended. Each first sets `at` to the line
-- that calls the C function.
local at
local rigid <const> = {
  sort = function(f)
    at = kit.line() + 1
    table.sort({ 3, 1, 2 }, function(a, b) f() return a < b end)
  end,
  gsub = function(f)
    at = kit.line() + 1
    string.gsub("abc", ".", function() f() end)
  end,
  tostring = function(f)
    at = kit.line() + 1
    tostring(setmetatable({}, { __tostring = function() f() return "" end }))
  end,
  load = function(f)
    at = kit.line() + 1
    local _, problem = load(function() f() end)
    error(problem, 0)
  end,
  concat = function(f)
    local list = setmetatable({}, { __index = function() f() return "" end, __len = function() return 3 end })
    at = kit.line() + 1
    local _ = table.concat(list)
  end,
  unpack = function(f)
    at = kit.line() + 1
    local _ = table.unpack(setmetatable({}, { __index = function() f() end }), 1, 3)
  end,
  insert = function(f)
    at = kit.line() + 1
    table.insert(setmetatable({}, { __newindex = function() f() end }), "x")
  end,
}

local waits <const> = {
  ["a sleep"] = function() loop.sleep(0) end,
  ["a wait"] = function() loop.wait "refused" end,
  ["a name"] = function() net.resolve "a.name.that.is.not.known.invalid" end,
}

for name, call in pairs(rigid) do
  netkit.test("a wait inside " .. name .. " raises an error with the name and the line", function()
    for what, wait in pairs(waits) do
      for inside = 0, 2 do
        for outside = 0, 2 do
          local ok, problem = pcall(nested, outside, function()
            call(function() nested(inside, wait) end)
          end)
          t.eq(ok, false, what)
          check(problem, name, at)
        end
      end
    end
    t.eq(task.is_waiting "refused", false)
  end)
end

netkit.test("the error names table.sort if its comparator waits, and later calls of table.sort work", function()
  local function refused()
    local ok, problem = pcall(table.sort, { 3, 1, 2 }, function(a, b)
      loop.sleep(0)
      return a < b
    end)
    t.eq(ok, false)
    t.ok(problem:find "cannot wait here: inside '.-sort'", problem)
  end
  local turns = 0
  local ticker = loop.fork(function()
    while true do
      turns = turns + 1
      loop.sleep(0)
    end
  end)
  for i = 1, 1000 do
    if i % 100 == 1 then refused() end
    local list = {}
    for j = 1, 20 do list[j] = (j * 7919 + i * 104729) % 1009 end
    table.sort(list, c.wrap(function(a, b)
      while true do a, b = c.yield(a < b) end
    end))
    for j = 2, 20 do t.ok(list[j - 1] <= list[j]) end
    nested(3, function() loop.sleep(0) end)
  end
  t.ok(turns >= 500, turns .. " turns of another task")
  loop.kill(ticker)
end)

netkit.test("a connection whose read was refused inside gsub can be read afterwards", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  for depth = 0, 2 do
    local ok, problem = pcall(string.gsub, "x", "x", function() nested(depth, function() b:recv(1) end) end)
    t.eq(ok, false)
    t.ok(problem:find("cannot wait here", 1, true) and problem:find "gsub", problem)
    local got = netkit.promise(function() return b:recv(5) end)
    netkit.settle()
    a:send "hello"
    t.eq(got(), "hello")
  end
end)

netkit.test("a refused sleep leaves no timer that would wake the task", function()
  local co = loop.running()
  pcall(table.sort, { 2, 1 }, function() loop.sleep(0.001) end)
  loop.timeout(0.005, function() loop.wakeup(co, "the one that was meant") end)
  t.eq(loop.wait(), "the one that was meant")
end)

netkit.test("a wait is refused even if no Lua function calls it", function()
  local ok, problem = pcall(table.sort, { 2, 1 }, loop.wait)
  t.eq(ok, false)
  t.ok(problem:find("cannot wait here: inside '.-sort'"), problem)
  local refused = c.create(table.sort)
  ok, problem = c.resume(refused, { 2, 1 }, function() loop.sleep(0) end)
  t.eq(ok, false)
  t.ok(problem:find("cannot wait here: inside '.-sort'"), problem)
end)

netkit.test("a __close that coroutine.close calls cannot wait", function()
  local problem
  local co = c.create(function()
    local _ <close> = kit.guard(function()
      problem = select(2, pcall(loop.sleep, 0))
      error(problem, 0)
    end)
    c.yield()
  end)
  c.resume(co)
  t.eq({ c.close(co) }, { false, problem })
  t.ok(problem:find "cannot wait here: .*__close", problem)
end)

netkit.test("a __close that runs because a task is killed or a waiting coroutine is closed cannot wait", function()
  local problems = {}
  local function body(n)
    local _ <close> = kit.guard(function() problems[#problems + 1] = select(2, pcall(loop.wait, "in close")) end)
    if n == 0 then loop.wait "never" else c.wrap(body)(n - 1) end
  end
  local own = loop.fork(body, 2)
  netkit.settle()
  t.eq(loop.kill(own), true)
  local co = c.create(body)
  local told = netkit.promise(c.resume, co, 1)
  netkit.settle()
  t.eq(c.close(co), true)
  told()
  t.eq(#problems, 5)
  for i = 1, 5 do t.ok(problems[i]:find "cannot wait here: .*__close", problems[i]) end
  t.eq(task.is_waiting "in close", false)
  t.eq(task.is_waiting "never", false)
end)

netkit.test("a finalizer cannot wait", function()
  local problems = {}
  nested(2, function()
    for _ = 1, 3 do
      setmetatable({}, { __gc = function() problems[#problems + 1] = select(2, pcall(loop.sleep, 0)) end })
    end
    collectgarbage()
    collectgarbage()
    loop.sleep(0)
  end)
  t.eq(#problems, 3)
  for i = 1, 3 do t.ok(problems[i]:find("cannot wait here: inside a finalizer", 1, true), problems[i]) end
end)

netkit.test("a debug hook cannot wait", function()
  local problem
  nested(1, function()
    debug.sethook(function()
      debug.sethook()
      problem = select(2, pcall(loop.sleep, 0))
    end, "", 1)
    local x = 0
    for i = 1, 10 do x = x + i end
    debug.sethook()
    loop.sleep(0)
  end)
  t.ok(problem:find("cannot wait here: inside a debug hook", 1, true), problem)
end)

netkit.test("a message handler cannot wait", function()
  local problem
  local ok = xpcall(error, function() problem = select(2, pcall(loop.sleep, 0)) end, "x")
  t.eq(ok, false)
  t.ok(problem:find("cannot wait here", 1, true), problem)
end)

netkit.test("a module cannot wait while `require` loads it, and can be loaded later", function()
  local dir = t.tmp()
  t.write(dir .. "/waits_in_require.lua", [[
    local loop = require "lio.loop"
    if not WAIT_NO_MORE then require("lio.coroutine").wrap(function() loop.sleep(0) end)() end
    return { "loaded" }
  ]])
  local path = package.path
  package.path = dir .. "/?.lua;" .. path
  local line = kit.line() + 1
  local ok, problem = pcall(function() require "waits_in_require" end)
  _G.WAIT_NO_MORE = true
  local loaded = require "waits_in_require"
  _G.WAIT_NO_MORE = nil
  package.path, package.loaded.waits_in_require = path, nil
  t.eq(ok, false)
  check(problem, "require", line)
  t.eq(loaded, { "loaded" })
end)

netkit.test("a file that dofile runs, a __pairs and its iterator can wait", function()
  local path = t.write(t.tmp() .. "/waits.lua", "return require('lio.loop').wait 'in a file'")
  local got = netkit.promise(nested, 2, function() return select(2, pcall(dofile, path)) end)
  netkit.settle()
  loop.wakeup("in a file", "from a file")
  t.eq(got(), "from a file")
  local object = setmetatable({}, { __pairs = function()
    loop.sleep(0)
    return function(_, key)
      loop.sleep(0)
      if not key then return "key", "value" end
    end
  end })
  for key, value in pairs(object) do t.eq({ key, value }, { "key", "value" }) end
end)

t.test("a wait outside a task raises, even inside coroutines", function()
  for depth = 0, 3 do
    for _, wait in pairs(waits) do
      local ok, problem = pcall(nested, depth, wait)
      t.eq(ok, false)
      t.ok(problem:find("cannot wait here: outside a task", 1, true), problem)
    end
  end
  t.eq(task.is_waiting "refused", false)
  t.eq(task.count(), 0)
end)

t.test("a wait outside a task raises at the program's line, in several files of the library", function()
  local line = debug.getinfo(1, "l").currentline
  local calls = {
    function() loop.sleep(1) end,
    function() return (net.connect("127.0.0.1", 1)) end,
    function() return (require "lio.http.client".get "http://127.0.0.1:1/") end,
  }
  for index, call in ipairs(calls) do
    t.eq(select(2, pcall(call)), ("%s:%d: wait: cannot wait here: outside a task; use lio.loop.run(function() … end), "
      .. "or a service"):format(here, line + 1 + index))
  end
end)

t.test("the error for a wait inside a C function and outside a task names the missing task", function()
  local ok, problem = pcall(table.sort, { 2, 1 }, function() loop.sleep(0) end)
  t.eq(ok, false)
  t.ok(problem:find("cannot wait here: outside a task", 1, true), problem)
end)

t.finish()
