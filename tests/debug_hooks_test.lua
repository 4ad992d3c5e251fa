-- `debug.sethook` and `debug.gethook`: in the executable and in services they are lio's own, which must behave like
-- Lua's, and which interrupts must not disturb. In a stock interpreter, the suite tests Lua's own functions.

local t = require "tests.kit"

-- Runs `program` in the interpreter `lio` (default: this host). Returns its output.
local function output(program, lio)
  local script = t.write(t.tmp() .. "/program.lua", program)
  local r = t.run("timeout -s KILL 60 " .. (lio or t.lio()) .. " " .. t.quote(script))
  t.eq(r.code, 0, r.err)
  return r.out
end

local SHOW <const> = [[
local function hook() end
local function show(...)
  local list = table.pack(...)
  for i = 1, list.n do
    list[i] = list[i] == hook and "hook" or tostring(list[i])
  end
  print(list.n, list.n > 0 and table.concat(list, ", ") or "-")
end
]]

t.test("a hook is set, returned and removed, in the running coroutine and in another one", function()
  t.eq(output(SHOW .. [[
    show(debug.gethook())
    show(debug.sethook(hook, "crl", 7))
    show(debug.gethook())
    local co = coroutine.create(function() coroutine.yield() end)
    coroutine.resume(co)
    show(debug.sethook(co, hook, "c"))
    show(debug.gethook(co))
    show(debug.sethook(co))
    show(debug.gethook(co, 1, 2))
    show(debug.gethook())
    debug.sethook(nil, "crl")
    show(debug.gethook())
    debug.sethook(hook, "xyz", "5")
    show(debug.gethook(12))
    debug.sethook(hook, 12, 0)
    show(debug.gethook())
    debug.sethook(hook, "l")
    show(coroutine.wrap(function() return debug.gethook() end)())
  ]]), [[
1	nil
0	-
3	hook, crl, 7
0	-
3	hook, c, 0
0	-
1	nil
3	hook, crl, 7
1	nil
3	hook, , 5
1	nil
3	nil, l, 0
]])
end)

t.test("a hook gets the events of the program, and no others", function()
  t.eq(output [[
local events = {}
debug.sethook(function(event, line)
  local info = debug.getinfo(2, "nS")
  events[#events + 1] = ("%s %s %s %s"):format(event, line, info.what, info.name)
end, "crl")
math.abs(1)
debug.gethook()
debug.sethook()
print(table.concat(events, "\n"))
]], [[
return nil C sethook
line 6 main nil
call nil C abs
return nil C abs
line 7 main nil
call nil C gethook
return nil C gethook
line 8 main nil
call nil C sethook
]])
end)

t.test("wrong arguments are named, at the line of the program", function()
  t.eq(output [[
local co, hook = coroutine.create(print), function() end
local function try(f) print(select(2, pcall(f))) end
try(function() debug.sethook(hook) end)
try(function() debug.sethook(1, "c") end)
try(function() debug.sethook(hook, "c", "x") end)
try(function() debug.sethook(hook, "c", 1.5) end)
try(function() debug.sethook(co, hook, {}) end)
try(function() debug.sethook(co, false, "c") end)
try(function() debug.sethook(co, hook, "c", {}) end)
print(debug.gethook(), debug.gethook(co))
]]:gsub("/[^\n]*/(program.lua:)", "%1"), [[
program.lua:3: bad argument #2 to 'sethook' (string expected, got no value)
program.lua:4: bad argument #1 to 'sethook' (function expected, got number)
program.lua:5: bad argument #3 to 'sethook' (number expected, got string)
program.lua:6: bad argument #3 to 'sethook' (number has no integer representation)
program.lua:7: bad argument #3 to 'sethook' (string expected, got table)
program.lua:8: bad argument #2 to 'sethook' (function expected, got boolean)
program.lua:9: bad argument #4 to 'sethook' (number expected, got table)
nil	nil
]])
end)

t.test("the error of a hook is raised in the hooked function", function()
  t.eq(output [[
local count = 0
debug.sethook(function()
  count = count + 1
  if count == 5 then error "enough" end
end, "l")
print((select(2, pcall(function()
  for _ = 1, 10 do
    count = count + 0
  end
end)):gsub("^.*/", "")))
]], "program.lua:4: enough\n")
end)

-- Regression: `gethook` returned a part of the hook that an interrupt sets: the count 1, or "external hook".
local READS <const> = SHOW .. [[
local function read(seconds)
  local till, seen = os.clock() + seconds, {}
  while os.clock() < till do
    for _ = 1, 50 do
      debug.sethook(hook, "", 100000)
      local own, mask, count = debug.gethook()
      if own ~= hook or mask ~= "" or count ~= 100000 then
        seen[("%s %s %s"):format(own == hook or own, mask, count)] = true
      end
    end
  end
  debug.sethook()
  return next(seen)
end
]]

t.test("a program finds its own hook while the running time is limited", function()
  t.eq(output(READS .. [[
    local loop = require "lio.loop"
    loop.max_run_time, loop.watchdog = 50, 0.02
    loop.run(function() show(read(1)) end)
  ]], t.bin()), "1\tnil\n")
end)

-- Regression: finalizers ran within `gethook`, where nothing could interrupt a coroutine that they resumed.
t.test("no finalizer runs while a hook is read", function()
  t.eq(output([[
    local loop = require "lio.loop"
    loop.watchdog, loop.max_run_time = 0, 0.2
    collectgarbage "generational"
    loop.run(function()
      debug.sethook(print, "", 1000000000)
      local seen
      setmetatable({}, { __gc = function()
        seen = true
        coroutine.wrap(function() while true do end end)()
      end })
      local ballast = {}
      for i = 1, 500000 do ballast[i] = i end
      repeat
        debug.gethook()
        -- Lua 5.5 collects garbage at the next allocation of the program.
        if _VERSION == "Lua 5.5" then local _ = {} end
      until seen and #ballast > 0
      print "continued"
    end)
  ]], t.bin()), "continued\n")
end)

t.test("a service finds its own hook while the running time is limited", function()
  local dir = t.tmp()
  t.write(dir .. "/reader.lua", READS .. [[
    local ltask = require "ltask"
    local wrong
    for _ = 1, 20 do
      wrong = read(0.06) or wrong
      ltask.sleep(0)
    end
    io.stdout:write(tostring(wrong), "\n")
    ltask.quit()
    return {}
  ]])
  t.eq(output(([[
    require("ltask").start {
      service_path = %q, bootstrap = { "reader" }, core = { worker = 1, max_run_time = 0.12, watchdog = 0 },
    }
  ]]):format(dir .. "/?.lua")), "nil\n")
end)

t.finish()
