-- For the coroutine_*_test suites: the behaviours of the coroutine library according to Lua's manual, tested in every
-- place where a program can use the library. `kit.behaviour` runs one test per place.
-- A behaviour is a function that gets the coroutine table `c` and the description of the place. In the places "that
-- wait", each coroutine waits for the scheduler before its first step, before each resume and after each yield. These
-- waits must not change the behaviour.
-- Invariant: with the stock library every test passes too, which proves that the list is correct.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local transparent = require "lio.coroutine"

local kit = {}

-- The number of waits that have succeeded, and the number of waits that were refused because Lua could not yield.
local waits, refused = 0, 0

-- Waits for 0 seconds. Below C functions that cannot yield, the wait is refused, and the behaviour continues without
-- it.
local function pause()
  local ok, problem = pcall(loop.sleep, 0)
  if ok then
    waits = waits + 1
  elseif type(problem) == "string" and problem:find("cannot wait here", 1, true) then
    refused = refused + 1
  else
    error(problem, 0)
  end
end

local function after_pause(...)
  pause()
  return ...
end

-- Returns a function that waits and then calls `f`. A value that is not a function is returned unchanged, so that the
-- library raises its error.
local function waits_first(f)
  if type(f) ~= "function" then return f end
  return function(...)
    pause()
    return f(...)
  end
end

local waiting = {
  create = function(...)
    if select("#", ...) == 0 then return transparent.create() end
    local co = transparent.create(waits_first((...)))
    return co
  end,
  wrap = function(...)
    if select("#", ...) == 0 then return transparent.wrap() end
    local f = transparent.wrap(waits_first((...)))
    return f
  end,
  resume = function(...)
    pause()
    return transparent.resume(...)
  end,
  yield = function(...) return after_pause(transparent.yield(...)) end,
  status = transparent.status,
  close = transparent.close,
  isyieldable = transparent.isyieldable,
  running = transparent.running,
}

local function in_task(f) netkit.run(f, 60) end

local function in_waited_task(f)
  netkit.run(function()
    pause()
    f()
  end, 60)
end

-- Runs the behaviour in the innermost of four nested coroutines. Each of them has waited and yielded before.
local function in_nested(f)
  local problem
  local function level(n)
    pause()
    transparent.yield(n)
    pause()
    if n == 0 then
      xpcall(f, function(e) problem = debug.traceback(e, 2) end)
    else
      local inner = transparent.wrap(level)
      assert(inner(n - 1) == n - 1)
      inner()
    end
    return "end"
  end
  netkit.run(function()
    local outer = transparent.wrap(level)
    assert(outer(3) == 3)
    assert(outer() == "end")
    if problem then error(problem, 0) end
  end, 60)
end

--- The places. `c` is the coroutine table, and `run` runs a function at the place. `main` is true if `run` calls the
-- function in the main coroutine; `waits` is true if the coroutines wait.
kit.places = {
  { name = "the global table", c = coroutine, run = function(f) f() end, main = true },
  { name = "lio.coroutine", c = transparent, run = function(f) f() end, main = true },
  { name = "in a task", c = transparent, run = in_task },
  { name = "in tasks that wait", c = waiting, run = in_waited_task, waits = true },
  { name = "in coroutines that wait", c = waiting, run = in_nested, waits = true },
}

--- Runs one test per place, which calls `f(c, place)`. Set `opts.refuses` if the behaviour resumes or yields below C
-- functions that cannot be suspended: waits are refused there.
function kit.behaviour(name, f, opts)
  for _, place in ipairs(kit.places) do
    t.test(name .. " [" .. place.name .. "]", function()
      local before = refused
      place.run(function() f(place.c, place) end)
      if not (opts and opts.refuses) then t.eq(refused - before, 0, "waits that were refused") end
    end)
  end
end

--- Adds a test that checks that the places with `waits` have waited, and ends the suite.
function kit.finish()
  t.test("waits have succeeded in the places that wait", function()
    t.ok(waits > 200, waits .. " waits")
  end)
  t.finish()
end

--- Returns a value that calls `f(value, err)` when it is closed as a `<close>` variable.
function kit.guard(f)
  return setmetatable({}, { __close = f })
end

--- Returns the line of its caller.
function kit.line()
  return debug.getinfo(2, "l").currentline
end

--- Returns 1, 2, … n.
function kit.many(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return table.unpack(list, 1, n)
end

--- True in Lua 5.5, where `close` also accepts the running coroutine.
kit.is_55 = _VERSION ~= "Lua 5.4"

--- The error value that `pcall` returns after `error()`.
kit.no_error = select(2, pcall(error))

return kit
