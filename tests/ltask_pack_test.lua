-- ltask.pack and its counterparts, outside a service: values that can be packed, refused values, `__pairs`, the calls
-- that free a block, and corrupt bytes. PACK_SEED=N repeats a random run.

local t = require "tests.kit"
local ltask = require "ltask"

-- Returns the bytes of a block as a string.
local function core_bytes(pointer, size)
  return (require "skynet.packed_message").tostring(pointer, size)
end

local pack, unpack, unpack_remove, remove = ltask.pack, ltask.unpack, ltask.unpack_remove, ltask.remove

-- Packs the values, unpacks the block, and returns the unpacked values.
local function travel(...) return unpack_remove(pack(...)) end

-- Asserts that two numbers have the same type and the same bits.
local function same_number(got, wanted)
  t.eq(math.type(got), math.type(wanted))
  local format = math.type(wanted) == "integer" and "j" or "n"
  t.eq(string.pack(format, got), string.pack(format, wanted))
end

-- ---------------------------------------------------------------------------------------------
-- Plain values

t.test("pack without values returns a null pointer and size 0", function()
  local pointer, size = pack()
  t.eq(type(pointer), "userdata")
  t.eq(size, 0)
  t.eq(select("#", unpack(pointer, size)), 0)
  t.eq(select("#", unpack_remove(pointer, size)), 0)
  remove(pointer, size)
  t.eq(select("#", unpack()), 0)
  t.eq(select("#", unpack(nil)), 0)
  t.eq(select("#", unpack ""), 0)
end)

t.test("nil and booleans keep their positions", function()
  t.eq({ n = select("#", travel(nil, true, false, nil)), travel(nil, true, false, nil) },
    { n = 4, nil, true, false, nil })
end)

t.test("integers of every packed size are exact", function()
  for shift = 0, 63 do
    for offset = -20, 130 do
      same_number(travel((1 << shift) + offset), (1 << shift) + offset)
      same_number(travel(-(1 << shift) + offset), -(1 << shift) + offset)
    end
  end
  same_number(travel(math.maxinteger), math.maxinteger)
  same_number(travel(math.mininteger), math.mininteger)
end)

t.test("floats keep every bit and their type", function()
  for _, value in ipairs { 0.0, -0.0, 1.0, -1.0, 2.5, 1 / 3, 2.0 ^ 53, 2.0 ^ 63, 1e308, 5e-324, 1 / 0, -1 / 0 } do
    same_number(travel(value), value)
  end
  local nan = travel(0 / 0)
  t.eq(nan ~= nan, true)
  local odd = string.unpack("n", "\1\2\3\4\5\6\xf8\x7f")
  same_number(travel(odd), odd)
end)

t.test("strings may have any bytes and any length", function()
  local all = {}
  for byte = 0, 255 do all[#all + 1] = string.char(byte) end
  all = table.concat(all)
  t.eq(travel(all), all)
  for _, length in ipairs { 0, 1, 3, 4, 7, 8, 15, 16, 17, 63, 64, 254, 255, 256, 257, 65535, 65536, 3000000 } do
    local text = all:rep(length // 256 + 1):sub(1, length)
    t.eq(travel(text) == text, true, length)
  end
end)

t.test("light userdata and C functions are unchanged", function()
  local pointer, size = pack "x"
  t.eq(travel(pointer), pointer)
  remove(pointer, size)
  t.eq(travel(print), print)
  t.eq(travel { [math.sin] = ltask.pack }, { [math.sin] = ltask.pack })
end)

t.test("many values can be packed at once", function()
  local values = {}
  for i = 1, 5000 do values[i] = i end
  t.eq({ travel(table.unpack(values)) }, values)
end)

t.test("a small request takes at most 40 bytes", function()
  local pointer, size = pack { 1, 2, 3, "abc", { x = 1, y = 2.5, z = "hello" } }
  remove(pointer, size)
  t.eq(size <= 40, true, size)
end)

-- ---------------------------------------------------------------------------------------------
-- Tables

t.test("tables of every shape are unchanged", function()
  for _, value in ipairs {
    {}, { 1 }, { 1, 2, 3 }, { x = 1 }, { 1, 2, x = 3 }, { [0] = 1 }, { [-1] = 1, [1.5] = 2, [true] = 3 },
    { { { {} } } }, { a = { b = { c = {} } } }, { [2 ^ 53] = 1 }, { [math.mininteger] = 1, [math.maxinteger] = 2 },
    { "a", "b", [10] = "c", [100] = "d" }, { ["1"] = 1, 2, ["2"] = 3, 4 },
  } do
    t.eq(travel(value), value)
  end
end)

t.test("a table may be a key", function()
  local key = { 1 }
  local got = travel { [key] = "value", key }
  t.eq(got[1], { 1 })
  t.eq(got[got[1]], "value")
end)

t.test("arrays may have any length, and other keys", function()
  for _, length in ipairs { 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 254, 255, 256, 257, 1000, 70000 } do
    local array = {}
    for i = 1, length do array[i] = i * 3 end
    t.eq(travel(array), array)
    array.name = "x"
    array[length + 1] = "one more, which may lie beside the array"
    local got = travel(array)
    t.eq(got, array)
    t.eq(#got, length + 1)
    array = {}
    for i = length, 1, -1 do array[i] = i end
    got = travel(array)
    t.eq(got, array)
    t.eq(#got, length)
  end
end)

t.test("tables may have any number of keys", function()
  for count = 0, 300 do
    local map = {}
    for i = 1, count do map["k" .. i] = i end
    t.eq(travel(map), map)
  end
end)

-- In Lua 5.4 the length of a table with holes depends only on its entries. Lua 5.5 also stores the last border that it
-- has found.
local BORDERS <const> = _VERSION == "Lua 5.4"

t.test("the holes and the length of an array are kept", function()
  for _, value in ipairs { { 1, nil, 3 }, { nil, nil, nil, 4, nil, 6 } } do
    local got = travel(value)
    t.eq(got, value)
    if BORDERS then t.eq(#got, #value) end
  end
  local got = travel(table.pack(nil, nil, "x", nil))
  t.eq(got, { [3] = "x", n = 4 })
end)

t.test("a packed table with few entries is small even if the table's length is large", function()
  local sparse = {}
  for shift = 0, 61 do sparse[1 << shift] = shift end
  local pointer, size = pack(sparse)
  t.eq(size < 2000, true, size)
  t.eq(unpack_remove(pointer, size), sparse)
  -- The length operator of Lua finds the last entry here.
  sparse = { 1, 2, 3, 4, nil, nil, nil, 8 }
  sparse[9] = 9
  for shift = 4, 61 do sparse[1 << shift] = shift end
  t.ok(#sparse > 1000 or not BORDERS)
  pointer, size = pack(sparse)
  t.eq(size < 2000, true, size)
  t.eq(unpack_remove(pointer, size), sparse)
end)

t.test("metatables are not packed", function()
  local got = travel(setmetatable({ 1, x = 2 }, { __index = { y = 3 }, __name = "thing" }))
  t.eq(getmetatable(got), nil)
  t.eq(got, { 1, x = 2 })
  t.eq(got.y, nil)
end)

t.test("a table that occurs twice is unpacked as one table, in one value and across values", function()
  local shared = { "s" }
  local got = travel { shared, { shared }, x = shared }
  t.eq(got[1] == got[2][1] and got[1] == got.x, true)
  local a, b, c = travel(shared, { shared }, shared)
  t.eq(a == c and a == b[1], true)
  t.eq(a, { "s" })
end)

t.test("two equal tables stay two tables", function()
  local got = travel { {}, {} }
  t.eq(got[1] ~= got[2], true)
end)

t.test("cycles are kept", function()
  local ring = { name = "ring" }
  ring.self, ring[1], ring[ring] = ring, { ring }, ring
  local got = travel(ring)
  t.eq(got.self == got and got[1][1] == got and got[got] == got, true)
  t.eq(got.name, "ring")
end)

t.test("references between many tables are kept", function()
  local nodes = {}
  for i = 1, 2000 do nodes[i] = { id = i } end
  for i = 1, 2000 do
    nodes[i].next = nodes[i % 2000 + 1]
    nodes[i].far = nodes[(i * 7919) % 2000 + 1]
  end
  local got = travel(nodes)
  for i = 1, 2000 do
    assert(got[i].id == i and got[i].next == got[i % 2000 + 1] and got[i].far == got[(i * 7919) % 2000 + 1], i)
  end
end)

-- Returns a chain of `depth` tables, in which each table is the value at `key` in the previous table.
local function chain(depth, key)
  local inner = { last = true }
  for _ = 2, depth do inner = { [key] = inner } end
  return inner
end

local function depth_of(value, key)
  local depth = 1
  while value[key] do
    value = value[key]
    depth = depth + 1
  end
  return depth, value.last
end

t.test("tables may be nested to any depth", function()
  for _, key in ipairs { 1, "k" } do
    for depth = 44, 104 do
      t.eq({ depth_of(travel(chain(depth, key)), key) }, { depth, true })
    end
    t.eq({ depth_of(travel(chain(1000000, key)), key) }, { 1000000, true })
  end
end)

t.test("tables that are keys may be nested", function()
  local value = { last = true }
  for _ = 1, 500 do value = { [value] = 1 } end
  local got = travel(value)
  for _ = 1, 500 do got = next(got) end
  t.eq(got, { last = true })
end)

t.test("references are kept across the depth from which nested tables are written separately", function()
  local top = chain(100, "k")
  local middle = top
  for depth = 1, 99 do
    middle.top, middle.depth = top, depth
    middle.again = { middle.k, middle }
    middle = middle.k
  end
  middle.top = top
  local got = travel(top)
  local inner = got
  for depth = 1, 99 do
    assert(inner.top == got and inner.depth == depth, depth)
    assert(inner.again[1] == inner.k and inner.again[2] == inner, depth)
    inner = inner.k
  end
  t.eq(inner.top == got and inner.last, true)
end)

t.test("tables at every depth may have several entries", function()
  local value = "leaf"
  for depth = 1, 60 do value = { value, { depth }, { { depth } }, n = depth } end
  t.eq(travel(value), value)
end)

-- ---------------------------------------------------------------------------------------------
-- Refused

t.test("the error for a value that cannot be packed names its type", function()
  local function lua() end
  for name, value in pairs { ["function"] = lua, thread = coroutine.create(lua), userdata = io.stdout } do
    local wanted = "Unsupport type " .. name .. " to serialize"
    for _, call in ipairs {
      function() pack(value) end,
      function() pack(1, "x", value) end,
      function() pack { { { value } } } end,
      function() pack { [value] = 1 } end,
      function() pack { x = value } end,
      function() pack(chain(200, "k"), { value }) end,
    } do
      local done, message = pcall(call)
      t.eq(done, false)
      t.eq(message:sub(-#wanted), wanted)
    end
  end
  t.raises("Unsupport type function to serialize", function() pack(string.gmatch("", "")) end)
  t.eq(travel { 1, { 2 } }, { 1, { 2 } })
end)

t.test("errors name invalid arguments", function()
  t.raises("bad argument #1", function() unpack(1, 2) end)
  t.raises("bad argument #1", function() unpack({}) end)
  t.raises("bad argument #1", function() unpack_remove "abc" end)
  t.raises("bad argument #1", function() remove(1) end)
  local pointer, size = pack(1)
  t.raises("bad argument #2", function() unpack(pointer) end)
  t.raises("bad argument #2", function() unpack(pointer, -1) end)
  remove(pointer, size)
  remove()
  remove(nil)
  remove(nil, 0)
end)

-- ---------------------------------------------------------------------------------------------
-- __pairs

local function with_pairs(iterate, value)
  return setmetatable(value or {}, { __pairs = iterate })
end

t.test("__pairs determines which entries are packed", function()
  local value = with_pairs(function() return next, { a = 1, 2 } end, { "hidden" })
  t.eq(travel(value), { 2, a = 1 })
  t.eq(travel { x = { value } }, { x = { { 2, a = 1 } } })
  t.eq(travel(with_pairs(function() return function() end end)), {})
  t.eq(travel(with_pairs(function(self) return next, self end, { 1, 2, x = 3 })), { 1, 2, x = 3 })
end)

t.test("a __pairs that a metatable inherits is ignored", function()
  local value = setmetatable({ 1 }, setmetatable({}, { __index = { __pairs = error } }))
  t.eq(travel(value), { 1 })
end)

t.test("different tables that an iterator creates stay different", function()
  local value = with_pairs(function()
    local i = 0
    return function()
      i = i + 1
      collectgarbage()
      if i <= 50 then return i, { i, { i } } end
    end
  end)
  local got = travel(value, {})
  for i = 1, 50 do t.eq(got[i], { i, { i } }) end
  t.eq(#got, 50)
end)

t.test("__pairs may pack values", function()
  local value = with_pairs(function()
    local inner = { travel({ deep = { 1, 2 } }, "x") }
    return next, inner
  end)
  for _ = 1, 3 do
    t.eq(travel("before", value, { value }, "after"), "before")
    t.eq(select(2, travel("before", value)), { { deep = { 1, 2 } }, "x" })
  end
end)

t.test("an error in __pairs is raised, and packing still works", function()
  local token = {}
  local bad = with_pairs(function() error(token) end)
  local late = with_pairs(function()
    return function(_, key)
      if key == 3 then error "late" end
      return (key or 0) + 1, true
    end
  end)
  for _ = 1, 100 do
    local done, message = pcall(pack, 1, { "x", bad })
    t.eq(done, false)
    t.eq(message == token, true)
    t.raises("late", function() pack { late } end)
    local made = with_pairs(function()
      return function() return print, coroutine.create(print) end
    end)
    t.raises("Unsupport type thread to serialize", pack, made)
  end
  t.raises("attempt to call a number value", function() pack(setmetatable({}, { __pairs = 1 })) end)
  t.raises("NaN", pack, with_pairs(function()
    return function() return 0 / 0, 1 end
  end))
  t.eq(travel { 1, { 2 } }, { 1, { 2 } })
end)

t.test("a __pairs cannot yield", function()
  local co = coroutine.wrap(function()
    return pcall(pack, with_pairs(function() coroutine.yield() end))
  end)
  local done, message = co()
  t.eq(done, false)
  t.eq(message:find("yield", 1, true) ~= nil, true, message)
end)

t.test("a finalizer that runs during pack or unpack may pack values", function()
  local value = { with_pairs(function() return next, { 1, { 2 } } end), { x = { "y" } }, chain(120, 1) }
  local wanted = { { 1, { 2 } }, { x = { "y" } }, chain(120, 1) }
  local runs = 0
  local function litter()
    setmetatable({}, { __gc = function()
      runs = runs + 1
      assert(travel { "finalizer", { runs } }[2][1] == runs)
      if runs < 100 then litter() end
    end })
  end
  -- Collects the garbage of earlier tests, which would delay the next collection.
  collectgarbage()
  collectgarbage("incremental", 100, 1000)
  litter()
  local rounds = 0
  repeat
    local got = travel(value)
    assert(got[1][2][1] == 2 and got[2].x[1] == "y")
    rounds = rounds + 1
  until runs >= 100 or rounds == 50000
  collectgarbage("incremental", 200, 100)
  t.eq(travel(value), wanted)
  t.ok(runs >= 100, runs)
end)

-- ---------------------------------------------------------------------------------------------
-- Bytes


t.test("unpack does not free the block, and unpack_remove frees it", function()
  local pointer, size = pack("x", { 1 })
  for _ = 1, 3 do t.eq({ unpack(pointer, size) }, { "x", { 1 } }) end
  t.eq({ unpack_remove(pointer, size) }, { "x", { 1 } })
end)

t.test("unpack accepts a string, and raises an error if the string is truncated", function()
  t.eq(unpack "\x83abc", "abc")
  t.eq({ unpack "\x11\x12\x83abc" }, { 1, 2, "abc" })
  t.raises("cannot unpack: the data is truncated", function() unpack "\x84abc" end)
  t.raises("cannot unpack: unknown tag", function() unpack "\xff" end)
end)

t.test("unpack of random bytes returns values or raises an error", function()
  local seed = tonumber(os.getenv "PACK_SEED") or os.time()
  math.randomseed(seed)
  local good = 0
  for _ = 1, 50000 do
    local bytes = {}
    for i = 1, math.random(1, 24) do
      -- Half of the bytes are tags.
      bytes[i] = string.char(math.random(2) == 1 and math.random(0xc0, 0xd3) or math.random(0, 255))
    end
    local text = table.concat(bytes)
    local done, message = pcall(unpack, text)
    if done then
      good = good + 1
    elseif not message:find "cannot unpack: " then
      error(("PACK_SEED=%d: %q: %s"):format(seed, text, message))
    end
  end
  t.eq(good > 0, true, "PACK_SEED=" .. seed)
end)

-- Regression: the author of a packed string could choose the address of a function, and calling the function crashed
-- the process.
t.test("unpack of a string refuses pointers and functions at every position", function()
  local pointer, size = pack(1, 2)
  for _, case in ipairs {
    { "light userdata", function() return pack(pointer) end },
    { "C function", function() return pack(print) end },
    { "light userdata", function() return pack("x", { 1, { k = pointer } }) end },
    { "light userdata", function() return pack { [pointer] = 1 } end },
    { "C function", function() return pack { [print] = print } end },
  } do
    local block, length = case[2]()
    local text = core_bytes(block, length)
    t.raises("cannot unpack: a string cannot contain a " .. case[1] .. "; pass the message by pointer and size",
      function() unpack(text) end)
    t.eq(select("#", unpack(block, length)) > 0, true)
    remove(block, length)
  end
  local block, length = pack(pointer, print, { pointer })
  t.eq({ unpack_remove(block, length) }, { pointer, print, { pointer } })
  remove(pointer, size)
  t.raises("light userdata", function() unpack("\xcb" .. ("\x41"):rep(8)) end)
  t.raises("C function", function() unpack("\xcc" .. ("\x41"):rep(8)) end)
end)

-- Returns the number of KiB that the call `f(...)` allocates in total.
local function allocated(f, ...)
  collectgarbage()
  collectgarbage "stop"
  local before = collectgarbage "count"
  f(...)
  local more = collectgarbage "count" - before
  collectgarbage "restart"
  return more
end

-- Regression: unpacking a million bytes with 200 tables, each of which claimed to have 2^25 keys, took 4.9 GB.
t.test("tables are allocated for at most as many entries in total as the string has bytes", function()
  local rest = "\xc9" .. string.pack("=I4", 1000000) .. ("x"):rep(1000000)
  local none, small, large = "\xcd\x00", "\xcd\x14\xc0", "\xcd\x1a\xc0"
  local function growth(tables)
    local text = tables .. rest
    t.eq(select("#", unpack(text)), 201)
    return allocated(unpack, text)
  end
  local plain = growth(none:rep(200))
  t.near(growth(large:rep(200)), plain, 1)
  -- For a million bytes, one table of 2^19 entries is allocated, but not two.
  t.near(growth(small:rep(200)), growth(small .. none:rep(199)), 1)
  t.eq(growth(small .. none:rep(199)) > plain + 8000, true)
end)

t.test("nested arrays are allocated for at most as many entries in total as the string has bytes", function()
  local function claim(count) return "\xcd\x80" .. string.pack("=I4", count) end
  local function growth(text)
    t.raises("cannot unpack: the data is truncated", unpack, text)
    return allocated(pcall, unpack, text)
  end
  local tail = ("\xc0"):rep(499999) .. "\xcd"
  local one = growth(claim(500000) .. tail)
  -- Each of the 39 empty tables takes 56 bytes, and an entry in the table that contains it.
  t.near(growth(claim(500000):rep(40) .. tail), one, 8)
  t.near(one, 500000 * string.packsize "n" * (_VERSION == "Lua 5.4" and 2 or 1.125) / 1024, 8)
end)

t.test("unpacked tables have all entries, regardless of their number", function()
  for _, count in ipairs { 1, 2, 3, 5, 9, 100, 1025 } do
    local keys, list = {}, {}
    for i = 1, count do keys["k" .. i], list[i] = i, { [("x"):rep(i % 7 + 1)] = i } end
    local nested = { keys, list, { keys, list } }
    t.eq((travel(nested)), nested)
  end
end)

t.finish()
