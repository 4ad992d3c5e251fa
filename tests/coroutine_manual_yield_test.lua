-- Lua's manual, 2.6, as a list of behaviours: where a coroutine can yield (pcall, metamethods, iterators, `<close>`)
-- and where it cannot, generators, the collector, and the limits of depth. Each behaviour is tested in all places of
-- tests/kit/coroutine_places.lua.

local t = require "tests.kit"
local kit = require "tests.kit.coroutine_places"

local behaviour <const>, guard <const> = kit.behaviour, kit.guard
local pack <const> = table.pack

-- Runs `f(...)` as a coroutine until it returns, and resumes it with 1, 2, … Returns a list of the first value of each
-- yield, followed by the values that `f` returns. If `f` fails, raises its error.
local function run_through(c, f, ...)
  local yielded, co = {}, c.create(f)
  local got = pack(c.resume(co, ...))
  local n = 0
  while c.status(co) == "suspended" do
    yielded[#yielded + 1] = got[2] or "nothing"
    n = n + 1
    got = pack(c.resume(co, n))
  end
  if not got[1] then error(got[2], 0) end
  return yielded, table.unpack(got, 2, got.n)
end

behaviour("after a yield inside pcall, the call continues and still catches errors", function(c)
  local yielded, a, b, e, f = run_through(c, function()
    local ok, x = pcall(function() return c.yield "in pcall" + 10 end)
    local ok2, err = pcall(function()
      c.yield "before the error"
      error("caught", 0)
    end)
    return ok, x, ok2, err
  end)
  t.eq(yielded, { "in pcall", "before the error" })
  t.eq({ a, b, e, f }, { true, 11, false, "caught" })
end)

behaviour("after a yield inside many pcalls, the innermost one catches an error", function(c)
  local function nest(n)
    if n == 0 then
      c.yield "bottom"
      error("0", 0)
    end
    local ok, err = pcall(nest, n - 1)
    t.eq(ok, false)
    c.yield(err)
    error(err .. n, 0)
  end
  local yielded, ok, err = run_through(c, function() return pcall(nest, 5) end)
  t.eq(yielded, { "bottom", "0", "01", "012", "0123", "01234" })
  t.eq({ ok, err }, { false, "012345" })
end)

behaviour("after a yield inside xpcall, the handler still gets the stack of the error", function(c)
  local function culprit()
    c.yield()
    error "x"
  end
  local _, ok, trace = run_through(c, function()
    return xpcall(function() culprit() return 1 end, debug.traceback)
  end)
  t.eq(ok, false)
  t.ok(trace:find("culprit", 1, true), trace)
end)

behaviour("pcall and xpcall may call yield directly", function(c)
  local yielded, a, b, d, e = run_through(c, function()
    local ok, x = pcall(c.yield, "a")
    return ok, x, xpcall(c.yield, debug.traceback, "b")
  end)
  t.eq(yielded, { "a", "b" })
  t.eq({ a, b, d, e }, { true, 1, true, 2 })
end)

behaviour("a message handler cannot yield", function(c)
  local _, ok = run_through(c, function()
    return (xpcall(error, function() c.yield "never" end))
  end)
  t.eq(ok, false)
end, { refuses = true })

behaviour("every metamethod of an operator may yield", function(c)
  local mt = {}
  for _, name in ipairs { "add", "sub", "mul", "div", "mod", "pow", "unm", "idiv", "band", "bor", "bxor", "shl",
    "shr", "bnot", "concat", "len", "eq", "lt", "le", "call", "index" } do
    mt["__" .. name] = function() return c.yield(name) end
  end
  local set
  mt.__newindex = function(_, k, v) set = { k, v, c.yield "newindex" } end
  local function new() return setmetatable({}, mt) end
  local yielded, results = run_through(c, function()
    local a, b = new(), new()
    local r = {
      a + b, a - 1, 1 * a, a / b, a % b, a ^ b, -a, a // b, a & b, a | b, a ~ b, a << b, a >> b, ~a, a .. "x", #a,
      a == b, a < b, a <= b, a(1), a.x,
    }
    a.field = "value"
    return r
  end)
  t.eq(yielded, { "add", "sub", "mul", "div", "mod", "pow", "unm", "idiv", "band", "bor", "bxor", "shl", "shr",
    "bnot", "concat", "len", "eq", "lt", "le", "call", "index", "newindex" })
  local want = {}
  for i = 1, 21 do want[i] = i end
  want[17], want[18], want[19] = true, true, true
  t.eq(results, want)
  t.eq(set, { "field", "value", 22 })
end)

behaviour("a comparison that is negated or decides a branch may yield", function(c)
  local mt = { __eq = function() return c.yield "eq" == 1 end, __lt = function() return c.yield "lt" ~= 2 end }
  local yielded, a, b, d = run_through(c, function()
    local x, y = setmetatable({}, mt), setmetatable({}, mt)
    local r = x == y
    r = not r
    local s = "else"
    if x < y then s = "then" end
    return r, s, x ~= y
  end)
  t.eq(yielded, { "eq", "lt", "eq" })
  t.eq({ a, b, d }, { false, "else", true })
end)

behaviour("a metamethod in a long concatenation may yield", function(c)
  local mt = { __concat = function(a, b)
    local function text(v) return type(v) == "table" and "o" or v end
    c.yield "concat"
    return text(a) .. text(b)
  end }
  local yielded, s = run_through(c, function()
    local o = setmetatable({}, mt)
    return "a" .. "b" .. o .. "c" .. o .. "d" .. "e"
  end)
  t.eq(#yielded > 0, true)
  t.eq(s, "abocode")
end)

behaviour("yield itself may be a metamethod", function(c)
  local object = setmetatable({}, { __index = c.yield })
  local co = c.create(function() return object.name end)
  local got = pack(c.resume(co))
  t.eq({ got.n, got[1], got[3] }, { 3, true, "name" })
  t.ok(rawequal(got[2], object))
  t.eq(pack(c.resume(co, "value", "dropped")), { true, "value", n = 2 })
end)

behaviour("the iterator of a for loop may yield", function(c)
  local yielded, sum = run_through(c, function()
    local sum = 0
    for i, v in function(limit, i)
      if i < limit then return i + 1, c.yield(i) end
    end, 5, 0 do
      sum = sum + i * 100 + v
    end
    return sum
  end)
  t.eq(yielded, { 0, 1, 2, 3, 4 })
  t.eq(sum, 1515)
end)

behaviour("__pairs and its iterator may yield", function(c)
  local object = setmetatable({}, { __pairs = function(self)
    c.yield "pairs"
    return function(_, k) if k ~= "last" then return c.yield(k or "first") == 3 and "last" or "more" end end, self
  end })
  local yielded, keys = run_through(c, function()
    local keys = {}
    for k in pairs(object) do keys[#keys + 1] = k end
    return keys
  end)
  t.eq(yielded, { "pairs", "first", "more" })
  t.eq(keys, { "more", "last" })
end)

behaviour("a __close that a block's end, a break, a return or an error calls may yield", function(c)
  local function scope(name) return guard(function(_, err) c.yield(err and name .. " " .. err or name) end) end
  local yielded, a, b, d = run_through(c, function()
    do local _ <close> = scope "block" end
    for _ = 1, 2 do
      local _ <close> = scope "break"
      break
    end
    local function returns()
      local _ <close> = scope "outer"
      local _ <close> = scope "inner"
      return "kept", nil, "values"
    end
    local x, _, y = returns()
    local ok, err = pcall(function()
      local _ <close> = scope "error"
      error("e", 0)
    end)
    t.eq(ok, false)
    return x, y, err
  end)
  t.eq(yielded, { "block", "break", "inner", "outer", "error e" })
  t.eq({ a, b, d }, { "kept", "values", "e" })
end)

behaviour("a file that dofile runs may yield", function(c)
  local path = t.write(t.tmp() .. "/chunk.lua", "local yield = ... or YIELD return 'result', yield 'in a file'")
  YIELD = c.yield -- luacheck: ignore 111
  local yielded, a, b = run_through(c, function() return dofile(path) end)
  YIELD = nil -- luacheck: ignore 111
  t.eq(yielded, { "in a file" })
  t.eq({ a, b }, { "result", 1 })
end)

behaviour("a yield below a C function that cannot be suspended fails; the coroutine can yield afterwards", function(c)
  local path = t.tmp()
  t.write(path .. "/yields_while_loading.lua", "YIELD()")
  local callers = {
    function(f) table.sort({ 3, 1, 2 }, f) end,
    function(f) string.gsub("abc", ".", f) end,
    function(f) tostring(setmetatable({}, { __tostring = f })) end,
    function(f) load(f) error(select(2, load(f)), 0) end,
    function(f)
      YIELD = f -- luacheck: ignore 111
      package.loaded.yields_while_loading = nil
      local old = package.path
      package.path = path .. "/?.lua"
      local ok, err = pcall(require, "yields_while_loading")
      package.path, YIELD = old, nil -- luacheck: ignore 111
      if not ok then error(err, 0) end
    end,
  }
  for i, caller in ipairs(callers) do
    -- In a service, `require` can wait and yield, so the result of the last caller is not checked.
    local yielded, ok, err = run_through(c, function()
      local ok, err = pcall(caller, function() c.yield "refused" end)
      return ok, err, c.yield "afterwards"
    end)
    if i < 5 then
      t.eq(yielded, { "afterwards" }, "caller " .. i)
      t.eq(ok, false, "caller " .. i)
      t.ok(tostring(err):find "attempt to yield", err)
    end
  end
end, { refuses = true })

behaviour("below a C function that cannot be suspended, a coroutine may yield to a resumer there", function(c)
  local list = { 5, 2, 8, 1, 9, 3 }
  local compare = c.wrap(function(a, b)
    while true do a, b = c.yield(a < b) end
  end)
  table.sort(list, compare)
  t.eq(list, { 1, 2, 3, 5, 8, 9 })
  local next_letter = c.wrap(function() for i = 97, 122 do c.yield(string.char(i)) end end)
  t.eq((("..."):gsub("%.", function() return next_letter() end)), "abc")
end, { refuses = true })

behaviour("a for loop over a generator ends when the generator returns", function(c)
  local function count(n) return c.wrap(function() for i = 1, n do c.yield(i, i * i) end end) end
  local sum = 0
  for i, square in count(50) do sum = sum + square - i end
  t.eq(sum, 50 * 51 * 101 // 6 - 1275)
  for _ in count(0) do error "the body of an empty loop runs" end
  local pairs_of = {}
  for i in count(3) do
    for j in count(i) do pairs_of[#pairs_of + 1] = i .. j end
  end
  t.eq(pairs_of, { "11", "21", "22", "31", "32", "33" })
end)

behaviour("generators may be nested, and each yields the values of the next inner generator", function(c)
  local function numbers(n) return c.wrap(function() for i = 2, n do c.yield(i) end end) end
  local function without_multiples(of, source)
    return c.wrap(function()
      for n in source do
        if n % of ~= 0 then c.yield(n) end
      end
    end)
  end
  local source, primes = numbers(60), {}
  while true do
    local prime = source()
    if not prime then break end
    primes[#primes + 1] = prime
    source = without_multiples(prime, source)
  end
  t.eq(primes, { 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59 })
end)

behaviour("a recursive generator walks a tree", function(c)
  local function tree(from, to)
    if from > to then return nil end
    local middle = (from + to) // 2
    return { tree(from, middle - 1) or false, middle, tree(middle + 1, to) or false }
  end
  local function walk(node)
    return c.wrap(function()
      if not node then return end
      for v in walk(node[1]) do c.yield(v) end
      c.yield(node[2])
      for v in walk(node[3]) do c.yield(v) end
    end)
  end
  local seen = {}
  for v in walk(tree(1, 63)) do seen[#seen + 1] = v end
  t.eq(#seen, 63)
  for i = 1, 63 do t.eq(seen[i], i) end
end)

behaviour("a thousand coroutines may be resumed in turn", function(c)
  local cos, sum = {}, 0
  for i = 1, 1000 do
    cos[i] = c.create(function(a)
      for _ = 1, 3 do a = c.yield(a + i) end
      return a
    end)
  end
  for round = 1, 4 do
    for i = 1, 1000 do
      local _, v = c.resume(cos[i], round)
      sum = sum + v
    end
  end
  t.eq(sum, 3 * 500500 + (1 + 2 + 3 + 4) * 1000)
end)

behaviour("a suspended coroutine without references is collected, and its variables are not closed", function(c)
  local weak, closed = setmetatable({}, { __mode = "v" }), false
  local function make(i)
    local held = { ("x"):rep(100) }
    local co
    co = c.create(function(token)
      local _ <close> = guard(function() closed = true end)
      local mine = { co, held, token }
      c.yield(mine)
    end)
    c.resume(co, {})
    weak["co" .. i], weak["held" .. i] = co, held
    local f = c.wrap(function() local inside = {} weak["inside" .. i] = inside c.yield(inside) end)
    f()
  end
  for i = 1, 10 do make(i) end
  collectgarbage()
  collectgarbage()
  -- A register of a running function may still refer to the values of the last call.
  for i = 1, 9 do t.eq({ weak["co" .. i], weak["held" .. i], weak["inside" .. i] }, {}) end
  t.eq(closed, false)
end)

behaviour("the collector keeps the values of a suspended coroutine", function(c)
  local co = c.create(function(...)
    local kept = { ... }
    local got = pack(c.yield({ "yielded" }))
    return kept, got
  end)
  local _, yielded = c.resume(co, { "a" }, ("b"):rep(50))
  for _ = 1, 3 do
    collectgarbage()
    for i = 1, 100 do local _ = { i } end
  end
  t.eq(yielded, { "yielded" })
  t.eq(pack(c.resume(co, { "c" })), { true, { { "a" }, ("b"):rep(50) }, { { "c" }, n = 1 }, n = 3 })
end)

-- Reports whether excessive nesting caused `err`. The limit that is reached first depends on the place.
local function is_too_deep(err)
  return tostring(err):find "stack overflow" or tostring(err):find "coroutines are resuming each other"
end

behaviour("endless nesting of coroutines raises an error and does not crash", function(c)
  local deepest = 0
  local function nest(n)
    deepest = math.max(deepest, n)
    local ok, err = c.resume(c.create(nest), n + 1)
    if not ok then error(err, 0) end
  end
  for _ = 1, 3 do
    local ok, err = c.resume(c.create(nest), 1)
    t.eq(ok, false)
    t.ok(is_too_deep(err), err)
  end
  t.ok(deepest >= 100, "only " .. deepest .. " deep")
  local function wraps() c.wrap(wraps)() end
  local ok, err = pcall(wraps)
  t.eq(ok, false)
  t.ok(is_too_deep(err), err)
  t.eq(pack(c.resume(c.create(math.max), 1, 2)), { true, 2, n = 2 }, "a coroutine after the errors")
end, { refuses = true })

behaviour("endless recursion inside a coroutine raises an error in this coroutine", function(c)
  local function forever() return 1 + forever() end
  local co = c.create(function() c.yield() forever() end)
  c.resume(co)
  local ok, err = c.resume(co)
  t.eq(ok, false)
  t.ok(is_too_deep(err), err)
  local function through_c() string.gsub("x", "x", through_c) end
  ok, err = c.resume(c.create(through_c))
  t.eq(ok, false)
  t.ok(is_too_deep(err), err)
end)

kit.finish()
