-- Measures plain Lua in this process, and prints the rates of coroutine switches and function calls. child.lua runs
-- this file before the system starts. The speed of a machine changes over time; a result divided by these rates changes
-- less.

local SWITCHES <const> = 2000000
local CALLS <const> = 10000000

local function rate(n, f)
  local start = os.clock()
  f(n)
  return n / (os.clock() - start)
end

local function switch(n)
  local yield = coroutine.yield
  local resume, co = coroutine.resume, coroutine.create(function() while true do yield() end end)
  for _ = 1, n do resume(co) end
end

local function call(n)
  local function f(x) return x end
  for i = 1, n do f(i) end
end

return function()
  print(("switch\t%.0f"):format(rate(SWITCHES, switch)))
  print(("call\t%.0f"):format(rate(CALLS, call)))
end
