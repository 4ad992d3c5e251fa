-- A finalizer that runs while a native call allocates may change each value of that call by the debug library:
-- arguments, results that were pushed, and what is only on its way. Such a call fails or goes on; nothing is taken for
-- what it is not, no type of Lua's gets a metatable, and nothing that was freed is used (`make sanitize ONLY=reentry`).

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local k = require "tests.reentrykit"
local kit = require "tests.ltaskkit"
local objects = require "tests.objectkit"
local boot = require "ltask.bootstrap"
local json = require "lio.json"
local lio = require "lio"

local types = { [0] = "number", [""] = "string", [print] = "function", [false] = "boolean" }

-- What the types of Lua's have for metatables, nil's among them.
local function metatables()
  local found = { none = debug.getmetatable(nil), thread = debug.getmetatable(coroutine.running()) }
  for value, name in pairs(types) do found[name] = debug.getmetatable(value) end
  return found
end

local before <const> = metatables()

-- Sets the values of the innermost running call of `f` for which `is_meant` holds to `value`. → how many
local function replace(f, is_meant, value)
  local level, count = 3, 0
  while true do
    local info = debug.getinfo(level, "f")
    if not info then return count end
    if info.func == f then break end
    level = level + 1
  end
  for number = 1, 100 do
    local name, found = debug.getlocal(level, number)
    if not name then break end
    if is_meant(found, number) then
      debug.setlocal(level, number, value)
      count = count + 1
    end
  end
  return count
end

-- Calls `f` while such a finalizer runs. → how many values it has changed; the results of pcall
local function with_changes(is_meant, value, f, ...)
  local count = 0
  local function change() count = count + replace(f, is_meant, value) end
  local armed = true
  local function arm()
    setmetatable({}, { __gc = function()
      if armed then
        change()
        arm()
      end
    end })
  end
  k.collect_always()
  arm()
  collectgarbage "restart"
  local results = table.pack(pcall(f, ...))
  armed = false
  k.collect_sometimes()
  return count, table.unpack(results, 1, results.n)
end

local function is_new_object(value) return type(value) == "userdata" and not debug.getmetatable(value) end
local function is_metatable(value) return type(value) == "table" and rawget(value, "__gc") ~= nil end
local function is_new_table(value) return type(value) == "table" and not next(value) end

-- Replaces the new object, or its metatable, with each of the values while a waker is made.
local function test_taken(name, is_meant, values)
  t.test(name .. " that is taken away while an object is made is an error", function()
    local sel <close> = lio.create()
    -- The type is made once.
    sel:waker()
    for _, value in ipairs(values) do
      local changed, done, message = with_changes(is_meant, value, sel.waker, sel)
      t.ok(changed > 0)
      t.ok(not done and message:find "a finalizer has taken an object away", message)
      t.eq(metatables(), before)
    end
  end, { leaks = true })
end

test_taken("an object", is_new_object, { false, 0, "text", print, coroutine.create(print), {} })
-- The object would have no `__gc`, or that of another type.
test_taken("a metatable", is_metatable, {
  false, 0, "text", {}, debug.getmetatable(io.stdout), debug.getmetatable(require("lio.timer").new()),
})

t.test("a table that is taken away while it is filled is an error", function()
  local pointer, size = boot.pack { 1, 2, 3 }
  for _, call in ipairs { { boot.unpack, pointer, size }, { json.decode, "[1,2,3]" } } do
    for _, value in ipairs { false, 0, "text", print, coroutine.create(print) } do
      local changed, done, message = with_changes(is_new_table, value, table.unpack(call))
      t.ok(changed > 0)
      t.ok(not done and message:find "table", message)
      t.eq(metatables(), before)
    end
  end
  boot.remove(pointer, size)
end)

-- What the services below have in common. `collect()` frees what nothing refers to, in a finalizer as well: memory is
-- short, so Lua collects all.
local collect <const> = [[
  local function collect()
    for _ = 1, 2 do
      ltask.mem_limit(1)
      pcall(string.rep, "x", 100000)
      ltask.mem_limit(0)
    end
  end
]]

-- It was told that its bytes were handed over.
kit.both("a connection that finalizers free while its bytes are handed over is not used again", {
  main = collect .. [[
    local k = require "tests.reentrykit"
    local held, state = {}, nil
    local function lose()
      if state ~= "armed" then return end
      local level = 2
      while debug.getinfo(level, "f").func ~= held.take do level = level + 1 end
      debug.setlocal(level, 1, nil)
      state, held.take, held.older = "lost", nil, nil
      local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z
      collect()
    end
    local function take()
      local s = held.connection
      held.connection = nil
      return s
    end
    -- It is finalized behind the connection, as it is older.
    held.older = setmetatable({}, { __gc = function()
      say(state, held.seen[1])
      collect()
      held.ballast = {}
      for i = 1, 50 do held.ballast[i] = ("z"):rep(i * 8) end
    end })
    local s, far = k.connection()
    far:send(("x"):rep(5000))
    held.connection, held.take, held.seen = s, s.take, setmetatable({ s }, { __mode = "v" })
    s = nil
    state = "armed"
    say(#k.with_finalizer(lose, function() return take():take() end))
    far:close()
  ]],
  out = { "lost\tnil", "5000" },
})

kit.both("a service that closes has no main function any more", {
  services = {
    closing = collect .. [[
      kept = setmetatable({}, { __gc = function()
        for key, value in pairs(debug.getregistry()) do
          if math.type(key) == "integer" and type(value) == "thread" then debug.getregistry()[key] = nil end
        end
        collect()
        say(ltask.backtrace())
      end })
      return { quit = ltask.quit }
    ]],
  },
  main = [[ltask.call(ltask.spawn "closing", "quit")]],
  out = { "nil" },
})

local changes = 0

objects.each(function(name, make, methods)
  t.test(name .. ": each value of each method's call is changed", function()
    local other, close_other = objects.makers["lio.timers"]()
    local values = { 0, "text", {}, coroutine.create(print), other }
    for method, f in pairs(methods) do
      for choice = 1, #objects.arguments(method) do
        for number = 1, 4 do
          for _, value in ipairs(values) do
            local object, close = make()
            local given = objects.arguments(method, object)[choice]
            local count, _, message = with_changes(function(_, at) return at == number end, value, f, object,
              table.unpack(given, 1, given.n))
            changes = changes + count
            if type(message) == "string" then t.ok(not message:find "internal error", method .. ": " .. message) end
            if close then pcall(close) end
          end
        end
      end
    end
    if close_other then close_other() end
    t.eq(metatables(), before)
  end, { leaks = true })
end)

t.test("many values were changed", function() t.ok(changes > 500, changes) end)

t.finish()
