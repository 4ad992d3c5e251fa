-- Calls every method of every kind of object while a finalizer, which runs at each allocation, calls all methods of the
-- same object. No call may corrupt memory (`make sanitize ONLY=reentry` checks this) or raise an internal error. The
-- suite takes the methods from metatables, the arguments from a list, and the kinds of objects from the sources.

local t = require "tests.kit"
local reentry = require "tests.kit.reentry"
local objects = require "tests.kit.objects"

local arguments <const> = objects.arguments

-- Calls `f` while `final` runs as a finalizer at each allocation. Returns how often `final` ran, and the first two
-- results of pcall.
local function under_pressure(final, f, ...)
  local runs, armed = 0, true
  local function arm()
    setmetatable({}, { __gc = function()
      if not armed or runs > 20 then return end
      runs = runs + 1
      final()
      arm()
    end })
  end
  reentry.collect_always()
  arm()
  collectgarbage "restart"
  local done, message = pcall(f, ...)
  armed = false
  reentry.collect_sometimes()
  return runs, done, message
end

t.test("for each kind of object in the sources, the kit has a maker or lists it as internal", function()
  local known = {}
  for _, name in ipairs(objects.kinds()) do
    known[name] = true
    t.ok(objects.makers[name] or objects.internal[name], "tests/kit/objects.lua has no maker for " .. name)
  end
  t.ok(#objects.kinds() > 20)
  for name in pairs(objects.makers) do t.ok(known[name], "there is no " .. name) end
  for name in pairs(objects.internal) do t.ok(known[name], "there is no " .. name) end
end)

local allocating, calls = 0, 0

objects.each(function(name, make, methods)
  local sorted = {}
  for method in pairs(methods) do sorted[#sorted + 1] = method end
  table.sort(sorted)
  t.test(name .. ": " .. #sorted .. " methods, each interrupted by calls of all methods", function()
    for _, method in ipairs(sorted) do
      local allocates = false
      for number = 1, #arguments(method) do
        -- In the first round the finalizer does not call the methods that drop the object; in the second round it does.
        for _, drops in ipairs { false, true } do
          local object, close = make()
          local given = arguments(method, object)[number]
          local turn = 0
          local function inner()
            turn = turn + 1
            for _, other in ipairs(sorted) do
              if drops or not other:find "^__" and other ~= "close" and other ~= "release" then
                local list = arguments(other, object)
                if #list > 0 then
                  local one = list[turn % #list + 1]
                  local _, message = pcall(methods[other], object, table.unpack(one, 1, one.n))
                  if type(message) == "string" then t.ok(not message:find "internal error", message) end
                  calls = calls + 1
                end
              end
            end
          end
          local runs, _, message = under_pressure(inner, methods[method], object, table.unpack(given, 1, given.n))
          if type(message) == "string" then t.ok(not message:find "internal error", method .. ": " .. message) end
          allocates = allocates or runs > 0
          if close then pcall(close) end
        end
      end
      if allocates then allocating = allocating + 1 end
    end
    collectgarbage()
  end, { leaks = true })
end)

t.test("many methods allocate and were interrupted by calls", function()
  t.ok(allocating > 50, allocating)
  t.ok(calls > 10000, calls)
end)

t.finish()
