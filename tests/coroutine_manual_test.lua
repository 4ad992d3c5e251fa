-- Lua's manual, 2.6 and 6.2, as a list of behaviours: create, resume, yield, wrap, status, running, isyieldable.
-- coroutine_manual_close_test tests close and errors; coroutine_manual_yield_test tests where a coroutine can yield.
-- Each behaviour is tested in all places of tests/kit/coroutine_places.lua, which include the stock library.

local t = require "tests.kit"
local kit = require "tests.kit.coroutine_places"

local behaviour <const> = kit.behaviour
local pack <const> = table.pack

behaviour("create starts nothing; the first resume passes the body's arguments", function(c)
  local got
  local co = c.create(function(...) got = pack(...) end)
  t.eq(type(co), "thread")
  t.is_nil(got)
  t.eq(pack(c.resume(co, 1, nil, "x", nil)), { true, n = 1 })
  t.eq(got, { 1, nil, "x", nil, n = 4 })
end)

behaviour("resume and yield exchange values in both directions until the body returns", function(c)
  local seen = {}
  local function inner(x)
    seen[#seen + 1] = "inner " .. x
    return c.yield(x .. "!")
  end
  local co = c.create(function(a, b)
    seen[#seen + 1] = a .. b
    local r = inner(a)
    seen[#seen + 1] = r
    local p, q = c.yield(b, r)
    seen[#seen + 1] = p .. q
    return "end", b
  end)
  t.eq(pack(c.resume(co, "a", "b")), { true, "a!", n = 2 })
  t.eq(pack(c.resume(co, "r")), { true, "b", "r", n = 3 })
  t.eq(pack(c.resume(co, "p", "q")), { true, "end", "b", n = 3 })
  t.eq(seen, { "ab", "inner a", "r", "pq" })
  t.eq(pack(c.resume(co)), { false, "cannot resume dead coroutine", n = 2 })
end)

local lists <const> = {
  { n = 0 }, { n = 1 }, { false, n = 1 }, { nil, nil, nil, n = 3 }, { nil, 2, nil, n = 3 },
  { 1, "x", 2.5, true, n = 4 }, pack(kit.many(200)), pack(kit.many(5000)),
}

behaviour("resume, yield and return pass any number of values, including nils", function(c)
  local co = c.create(function(...)
    local values = pack(...)
    for _ = 1, #lists do values = pack(c.yield(table.unpack(values, 1, values.n))) end
    return table.unpack(values, 1, values.n)
  end)
  local rounds = { table.unpack(lists) }
  rounds[#rounds + 1] = { "last", nil, n = 2 }
  for i, list in ipairs(rounds) do
    local got = pack(c.resume(co, table.unpack(list, 1, list.n)))
    local want = pack(true, table.unpack(list, 1, list.n))
    t.eq(got.n, want.n, "round " .. i)
    t.eq(got, want, "round " .. i)
  end
  t.eq(c.status(co), "dead")
end)

behaviour("a wrap function passes any number of values, including nils", function(c)
  local f = c.wrap(function(...)
    local values = pack(...)
    while true do values = pack(c.yield(table.unpack(values, 1, values.n))) end
  end)
  t.eq(type(f), "function")
  for i, list in ipairs(lists) do
    t.eq(pack(f(table.unpack(list, 1, list.n))), list, "round " .. i)
  end
end)

behaviour("objects that are passed keep their identity", function(c)
  local co = c.create(function(x)
    while true do x = c.yield(x) end
  end)
  for _, value in ipairs { {}, print, function() end, io.stdout, co, ("long"):rep(100) } do
    local _, back = c.resume(co, value)
    t.ok(rawequal(back, value))
  end
end)

behaviour("status is suspended, running, normal or dead", function(c)
  local outer, inner, seen
  inner = c.create(function()
    seen = { c.status(outer), c.status(inner) }
    c.yield()
  end)
  outer = c.create(function()
    t.eq(c.status(outer), "running")
    t.eq(c.status(inner), "suspended")
    c.resume(inner)
    t.eq(seen, { "normal", "running" })
    t.eq(c.status(inner), "suspended")
    c.yield()
    c.resume(inner)
    t.eq(c.status(inner), "dead")
  end)
  t.eq(c.status(outer), "suspended", "not started")
  t.eq(pack(c.resume(outer)), { true, n = 1 })
  t.eq(c.status(outer), "suspended", "yielded")
  t.eq(pack(c.resume(outer)), { true, n = 1 })
  t.eq(c.status(outer), "dead")
end)

behaviour("a coroutine that failed is dead", function(c)
  local co = c.create(function() error "ends it" end)
  t.eq((c.resume(co)), false)
  t.eq(c.status(co), "dead")
  t.eq(pack(c.resume(co)), { false, "cannot resume dead coroutine", n = 2 })
end)

behaviour("every coroutine between the running one and the first is normal", function(c)
  local chain, seen = {}, {}
  local function body(n)
    chain[n] = c.running()
    if n < 20 then
      local ok, problem = c.resume(c.create(body), n + 1)
      if not ok then error(problem, 0) end
    else
      for i = 1, n do seen[i] = c.status(chain[i]) end
    end
  end
  t.eq(pack(c.resume(c.create(body), 1)), { true, n = 1 })
  for i = 1, 19 do t.eq(seen[i], "normal", "level " .. i) end
  t.eq(seen[20], "running")
  for i = 1, 20 do t.eq(c.status(chain[i]), "dead") end
end)

behaviour("running returns the running coroutine, and true if it is the main coroutine", function(c, place)
  local me, main = c.running()
  t.eq(type(me), "thread")
  t.eq(main, place.main or false)
  local co
  co = c.create(function(...)
    t.eq(pack(c.running()), { co, false, n = 2 })
    t.eq(c.status(me), "normal")
    c.yield()
    t.eq(pack(c.running()), { co, false, n = 2 })
    return "reached"
  end)
  t.eq(pack(c.resume(co)), { true, n = 1 })
  t.eq(pack(c.running()), { me, place.main or false, n = 2 })
  t.eq(pack(c.resume(co)), { true, "reached", n = 2 })
  local body = c.create(c.running)
  t.eq(pack(c.resume(body)), { true, body, false, n = 3 })
end)

behaviour("isyieldable is false in the main coroutine, and true in other coroutines", function(c, place)
  t.eq(c.isyieldable(), not place.main)
  local co = c.create(function()
    t.eq(c.isyieldable(), true)
    t.eq({ pcall(c.isyieldable) }, { true, true })
    c.yield()
    return c.isyieldable()
  end)
  t.eq(pack(c.resume(co)), { true, n = 1 })
  t.eq(pack(c.resume(co)), { true, true, n = 2 })
end)

behaviour("isyieldable is false below C functions that cannot be suspended", function(c)
  local seen = {}
  local co = c.create(function()
    string.gsub("x", "x", function() seen.gsub = c.isyieldable() end)
    table.sort({ 2, 1 }, function(a, b) seen.sort = c.isyieldable() return a < b end)
    tostring(setmetatable({}, { __tostring = function() seen.tostring = c.isyieldable() return "" end }))
    seen.index = setmetatable({}, { __index = function() return c.isyieldable() end }).x
    seen.after = c.isyieldable()
  end)
  t.eq(pack(c.resume(co)), { true, n = 1 })
  t.eq(seen, { gsub = false, sort = false, tostring = false, index = true, after = true })
end)

behaviour("isyieldable accepts another coroutine as its argument", function(c, place)
  local me = c.running()
  local outer
  outer = c.create(function()
    t.eq(c.isyieldable(me), not place.main)
    local inner = c.create(function() return c.isyieldable(outer), c.isyieldable() end)
    t.eq(c.isyieldable(inner), true)
    t.eq(pack(c.resume(inner)), { true, true, true, n = 3 })
    local within
    string.gsub("x", "x", function()
      within = pack(c.resume(c.create(function() return c.isyieldable(outer), c.isyieldable() end)))
    end)
    t.eq(within, { true, false, true, n = 3 })
    c.yield()
    return "reached"
  end)
  t.eq(c.isyieldable(outer), true, "not started")
  t.eq(pack(c.resume(outer)), { true, n = 1 })
  t.eq(c.isyieldable(outer), true, "suspended")
  t.eq(pack(c.resume(outer)), { true, "reached", n = 2 })
end, { refuses = true })

behaviour("yield outside a coroutine raises", function(c, place)
  if not place.main then return end
  t.raises("attempt to yield from outside a coroutine", c.yield)
  t.raises("attempt to yield from outside a coroutine", c.yield, 1, 2)
end)

behaviour("a coroutine cannot resume itself", function(c)
  local co
  co = c.create(function()
    t.eq(pack(c.resume(co)), { false, "cannot resume non-suspended coroutine", n = 2 })
    t.eq(pack(c.resume(co, 1, 2)), { false, "cannot resume non-suspended coroutine", n = 2 })
    c.yield "goes on"
    t.eq(pack(c.resume(c.running())), { false, "cannot resume non-suspended coroutine", n = 2 })
    return "end"
  end)
  t.eq(pack(c.resume(co)), { true, "goes on", n = 2 })
  t.eq(pack(c.resume(co)), { true, "end", n = 2 })
  local f
  f = c.wrap(function()
    t.raises("cannot resume non%-suspended coroutine", f)
    return "end"
  end)
  t.eq(f(), "end")
end)

behaviour("a coroutine cannot resume the coroutine that resumed it", function(c)
  local first = c.running()
  local outer
  outer = c.create(function()
    local inner = c.create(function()
      t.eq(pack(c.resume(outer)), { false, "cannot resume non-suspended coroutine", n = 2 })
      t.eq(pack(c.resume(first, 1)), { false, "cannot resume non-suspended coroutine", n = 2 })
      c.yield()
      t.eq(pack(c.resume(outer, 1)), { false, "cannot resume non-suspended coroutine", n = 2 })
      return "end"
    end)
    t.eq(pack(c.resume(inner)), { true, n = 1 })
    return c.resume(inner)
  end)
  t.eq(pack(c.resume(outer)), { true, true, "end", n = 3 })
end)

behaviour("every attempt to resume a dead coroutine fails", function(c)
  local co = c.create(function() return 1 end)
  t.eq(pack(c.resume(co)), { true, 1, n = 2 })
  for _ = 1, 3 do
    t.eq(pack(c.resume(co, kit.many(50))), { false, "cannot resume dead coroutine", n = 2 })
    t.eq(c.status(co), "dead")
  end
  local f = c.wrap(function() end)
  t.eq(pack(f()), { n = 0 })
  for _ = 1, 3 do t.raises("cannot resume dead coroutine$", f) end
end)

behaviour("a coroutine may be resumed by a coroutine that did not create it", function(c)
  local co = c.create(function()
    for i = 1, 10 do c.yield(i) end
  end)
  local got = {}
  for i = 1, 10 do
    local other = c.wrap(function() return select(2, c.resume(co)) end)
    got[i] = other()
  end
  t.eq(got, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 })
  t.eq(c.status(co), "suspended")
end)

behaviour("invalid arguments raise errors that name the argument", function(c)
  for _, name in ipairs { "create", "wrap" } do
    for _, bad in ipairs { 5, "x", true, {}, c.running(), setmetatable({}, { __call = print }) } do
      t.raises("bad argument #1 to '.-" .. name .. "' %(function expected", c[name], bad)
    end
    t.raises("bad argument #1 to '.-" .. name .. "' %(function expected", c[name], nil)
    t.raises("bad argument #1 to '.-" .. name .. "' %(function expected", c[name])
  end
  for _, name in ipairs { "resume", "status", "isyieldable", "close" } do
    for _, bad in ipairs { 5, "x", true, {}, print } do
      t.raises("bad argument #1 to .-%(%a+ expected", c[name], bad)
    end
  end
  for _, name in ipairs { "resume", "status" } do
    t.raises("bad argument #1 to .-%(%a+ expected", c[name], nil)
    t.raises("bad argument #1 to .-%(%a+ expected", c[name])
  end
  t.raises("bad argument #1 to .-%(%a+ expected", c.isyieldable, nil)
end)

behaviour("the body of a coroutine may be a C function", function(c)
  t.eq(pack(c.resume(c.create(math.max), 1, 5, 3)), { true, 5, n = 2 })
  t.eq(pack(c.resume(c.create(select), "#", 1, 2)), { true, 2, n = 2 })
  local co = c.create(c.yield)
  t.eq(pack(c.resume(co, 1, nil)), { true, 1, nil, n = 3 })
  t.eq(pack(c.resume(co, 2, nil)), { true, 2, nil, n = 3 })
  t.eq(c.status(co), "dead")
  t.eq(pack(c.resume(c.create(error), "x", 0)), { false, "x", n = 2 })
  t.eq(pack(c.resume(c.create(pcall), error, "x", 0)), { true, false, "x", n = 3 })
end)

behaviour("the body of a coroutine may be resume or a wrap function", function(c)
  local inner = c.create(function(a) return "end " .. c.yield(a + 1) end)
  t.eq(pack(c.resume(c.create(c.resume), inner, 1)), { true, true, 2, n = 3 })
  t.eq(pack(c.resume(c.create(c.resume), inner, "x")), { true, true, "end x", n = 3 })
  t.eq(pack(c.resume(c.create(c.resume), inner)), { true, false, "cannot resume dead coroutine", n = 3 })
  local f = c.wrap(function(a) return "end " .. c.yield(a + 1) end)
  t.eq(pack(c.resume(c.create(f), 1)), { true, 2, n = 2 })
  t.eq(c.wrap(f)("x"), "end x")
  t.eq(c.wrap(c.wrap(c.wrap(math.max)))(1, 2), 2)
end)

behaviour("coroutines with the same body share only its upvalues", function(c)
  local total = 0
  local function count(from, step)
    local n = from
    while true do
      total = total + 1
      c.yield(n)
      n = n + step
    end
  end
  local cos = {}
  for i = 1, 20 do cos[i] = c.create(count) end
  for round = 0, 9 do
    for i = 1, 20 do t.eq(pack(c.resume(cos[i], i, round == 0 and i * 10)), { true, i + round * i * 10, n = 2 }) end
  end
  t.eq(total, 200)
end)

behaviour("a coroutine may be a table key", function(c)
  local co = c.create(print)
  local set = { [co] = "here" }
  t.eq(set[co], "here")
  t.ok(co == co and co ~= c.create(print))
  t.ok(tostring(co):find "^thread: ")
end)

behaviour("resume refuses more arguments than fit on the stack, and the coroutine is not changed", function(c)
  local deepest = 0
  local function deep(n, least)
    deepest = math.max(deepest, n)
    if n == least then return c.yield "down there" end
    local result = deep(n + 1, least)
    return result
  end
  pcall(deep, 0, -1)
  local depth = deepest * 9 // 10
  local co = c.create(function() return deep(0, depth) end)
  t.eq(pack(c.resume(co)), { true, "down there", n = 2 })
  local list = {}
  for i = 1, 150000 do list[i] = i end
  t.eq(pack(c.resume(co, table.unpack(list))), { false, "too many arguments to resume", n = 2 })
  t.eq(c.status(co), "suspended")
  t.eq(pack(c.resume(co, "few")), { true, "few", n = 2 })
end)

behaviour("resume fails if the results do not fit on the resumer's stack", function(c)
  local list = {}
  for i = 1, 150000 do list[i] = i end
  local deepest = 0
  local function deep(n, least, co)
    deepest = math.max(deepest, n)
    if n == least then return pack(c.resume(co)) end
    local result = deep(n + 1, least, co)
    return result
  end
  local probe = c.create(function() return pcall(deep, 0, -1) end)
  t.eq(select(2, c.resume(probe)), false)
  local depth = deepest * 9 // 10
  local co = c.create(function() c.yield(table.unpack(list)) return "end" end)
  local got = c.wrap(deep)(0, depth, co)
  t.eq({ got.n, got[1], got[2] }, { 2, false, "too many results to resume" })
end)

kit.finish()
