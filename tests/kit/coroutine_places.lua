-- For the coroutine_*_test suites: the behaviour of the coroutine library in Lua's manual, tried in every place where a
-- program can use it. `kit.behaviour` runs one test per place.
-- A behaviour gets the coroutine table `c` and the description of the place. In the places "that wait" each coroutine
-- under test, and each that resumes it, waits at the scheduler before its first step, before each resume and after each
-- yield; the behaviour must not notice that.
-- Invariant: the stock library has the same behaviours, which proves that the list is right.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local transparent = require "lio.coroutine"

local kit = {}

-- How many waits have happened, and how many were refused where Lua cannot yield.
local waits, refused = 0, 0

-- A wait of no length. Below C functions that cannot yield it is refused, which does not concern the behaviour.
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

-- Bodies that begin with a wait. A value that is not a function is passed on, so that the library raises its own error.
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

-- Each level yields and waits before the behaviour runs in the innermost one.
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

--- The places: `c` the table, `run` runs a function there, `main` whether that is the main coroutine,
-- `waits` whether waits happen.
kit.places = {
  { name = "the global table", c = coroutine, run = function(f) f() end, main = true },
  { name = "lio.coroutine", c = transparent, run = function(f) f() end, main = true },
  { name = "in a task", c = transparent, run = in_task },
  { name = "in tasks that wait", c = waiting, run = in_waited_task, waits = true },
  { name = "in coroutines that wait", c = waiting, run = in_nested, waits = true },
}

--- Makes one test per place: `f(c, place)`. `opts.refuses`: the behaviour resumes or yields below C functions that
-- cannot be suspended, so waits are refused there.
function kit.behaviour(name, f, opts)
  for _, place in ipairs(kit.places) do
    t.test(name .. " [" .. place.name .. "]", function()
      local before = refused
      place.run(function() f(place.c, place) end)
      if not (opts and opts.refuses) then t.eq(refused - before, 0, "waits that were refused") end
    end)
  end
end

--- Ends the suite. Before that, tests that the places marked as waiting have waited.
function kit.finish()
  t.test("the places that wait have waited", function()
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

--- Whether this is Lua 5.5, whose `close` also takes the running coroutine.
kit.is_55 = _VERSION ~= "Lua 5.4"

--- The error value that a program catches for an error without a value.
kit.no_error = select(2, pcall(error))

return kit
