-- A finalizer that runs while a native call allocates may change each value of the call through the debug library:
-- arguments, pushed results and temporary values. The call then fails or continues: it does not use a value as another
-- type, set a metatable for a Lua type, or use freed memory (`make sanitize ONLY=reentry`).

local t = require "tests.kit"
local reentry = require "tests.kit.reentry"
local kit = require "tests.kit.ltask_system"
local objects = require "tests.kit.objects"
local boot = require "ltask.bootstrap"
local http = require "lio.http"
local json = require "lio.json"
local lio = require "lio"

local types = { [0] = "number", [""] = "string", [print] = "function", [false] = "boolean" }

-- Returns a table that maps each type of Lua to the metatable that its values share; the key for nil is `none`.
local function metatables()
  local found = { none = debug.getmetatable(nil), thread = debug.getmetatable(coroutine.running()) }
  for value, name in pairs(types) do found[name] = debug.getmetatable(value) end
  return found
end

local before <const> = metatables()

-- In the innermost running call of `f`, replaces each value for which `is_meant` returns true with `value`. Returns the
-- number of replaced values.
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

-- Calls `f` while a finalizer replaces its values at each allocation. Returns the number of replaced values, and the
-- results of pcall.
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
  reentry.collect_always()
  arm()
  collectgarbage "restart"
  local results = table.pack(pcall(f, ...))
  armed = false
  reentry.collect_sometimes()
  return count, table.unpack(results, 1, results.n)
end

local function is_new_object(value) return type(value) == "userdata" and not debug.getmetatable(value) end
local function is_metatable(value) return type(value) == "table" and rawget(value, "__gc") ~= nil end
local function is_new_table(value) return type(value) == "table" and not next(value) end

-- Tests that creating a waker fails if a finalizer replaces the new object, or its metatable, with any of `values`.
local function test_removed(name, is_meant, values)
  t.test(name .. " that a finalizer removes while an object is created causes an error", function()
    local sel <close> = lio.create()
    -- The first waker creates the metatable of the type.
    sel:waker()
    for _, value in ipairs(values) do
      local changed, done, message = with_changes(is_meant, value, sel.waker, sel)
      t.ok(changed > 0)
      t.ok(not done and message:find "a finalizer has removed an object", message)
      t.eq(metatables(), before)
    end
  end, { leaks = true })
end

test_removed("an object", is_new_object, { false, 0, "text", print, coroutine.create(print), {} })
-- With a replaced metatable, the object would have no `__gc`, or the `__gc` of another type.
test_removed("a metatable", is_metatable, {
  false, 0, "text", {}, debug.getmetatable(io.stdout), debug.getmetatable(require("lio.timer").new()),
})

t.test("a table that a finalizer removes while the table is filled causes an error", function()
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

-- Calls `f(dispatcher, server)` for a new server that has received `requests` and has callbacks.
local function with_dispatcher(requests, f)
  local server, close = reentry.server(http.routes(), requests)
  reentry.set_callbacks(server, function(req, res) return tostring(req), tostring(res) end)
  local dispatcher = server:dispatcher()
  f(dispatcher, server)
  t.eq(metatables(), before)
  dispatcher:abandon()
  close()
end

local REQUEST <const> = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

-- `http.serve` keeps the dispatcher, the server with its callbacks, the keys of responses, the request and the response
-- at fixed indexes of its stack.
t.test("http.serve does not use a replaced value on its stack as another type", function()
  for _, value in ipairs { false, 0 / 0, "text", tostring, {}, io.stdout } do
    for index = 1, 16 do
      with_dispatcher(REQUEST:rep(5), function(dispatcher)
        local changed = with_changes(function(_, number) return number == index end, value, http.serve, dispatcher)
        t.ok(changed > 0, index)
      end)
    end
  end
end, { leaks = true })

t.test("http.serve does not use a replaced user value of a server or a dispatcher as another type", function()
  for _, value in ipairs { false, 0 / 0, "text", tostring, {}, io.stdout } do
    for index = 1, 12 do
      with_dispatcher(REQUEST, function(dispatcher, server)
        debug.setuservalue(index == 1 and dispatcher or server, value, index)
        pcall(http.serve, dispatcher)
      end)
    end
  end
end, { leaks = true })

-- The common code of the services below. `collect()` frees all unreferenced objects, even inside a finalizer: under a
-- memory limit of one byte, Lua runs a full collection before an allocation fails.
local collect <const> = [[
  local function collect()
    for _ = 1, 2 do
      ltask.mem_limit(1)
      pcall(string.rep, "x", 100000)
      ltask.mem_limit(0)
    end
  end
]]

-- Regression: the freed connection was used after its bytes had become a string.
kit.test("a connection that a finalizer frees while its bytes become a string is not used again", {
  main = collect .. [[
    local reentry = require "tests.kit.reentry"
    local held, state = {}, nil
    local function lose()
      if state ~= "armed" then return end
      local level = 2
      while debug.getinfo(level, "f").func ~= held.try_recv do level = level + 1 end
      debug.setlocal(level, 1, nil)
      state, held.try_recv, held.older = "lost", nil, nil
      local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z -- luacheck: ignore 211
      collect()
    end
    local function take()
      local s = held.connection
      held.connection = nil
      return s
    end
    -- This object is finalized after the connection, because it is older.
    held.older = setmetatable({}, { __gc = function()
      say(state, held.seen[1])
      collect()
      held.ballast = {}
      for i = 1, 50 do held.ballast[i] = ("z"):rep(i * 8) end
    end })
    local far
    do
      local s
      s, far = reentry.connection()
      far:send(("x"):rep(5000))
      held.connection, held.try_recv, held.seen = s, s.try_recv, setmetatable({ s }, { __mode = "v" })
    end
    state = "armed"
    say(#reentry.with_finalizer(lose, function() return take():try_recv() end))
    far:close()
  ]],
  out = { "lost\tnil", "5000" },
})

kit.test("ltask.backtrace finds no main function in a service that is closing", {
  services = {
    closing = collect .. [[
      KEPT = setmetatable({}, { __gc = function()
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
  t.test(name .. ": no call of a method with replaced values raises an internal error", function()
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
