-- lio.json: the values that encode writes and refuses, the texts that decode reads and refuses (RFC 8259), and both
-- functions with random input. JSON_SEED=N repeats a random run.

local t = require "tests.kit"
local json = require "lio.json"

-- The maximum depth of nested tables that encode and decode accept.
local DEPTH <const> = 127

local function nested(depth)
  local value = json.array()
  for _ = 2, depth do value = { value } end
  return value
end

-- ---------------------------------------------------------------------------------------------
-- encode

t.test("encode writes booleans, nil, json.null and strings", function()
  t.eq(json.encode(true), "true")
  t.eq(json.encode(false), "false")
  t.eq(json.encode(nil), "null")
  t.eq(json.encode(json.null), "null")
  t.eq(json.encode "x", '"x"')
  t.eq(json.encode "", '""')
end)

t.test("integers are written exactly, floats as the shortest text that is still a float", function()
  t.eq(json.encode(0), "0")
  t.eq(json.encode(math.maxinteger), "9223372036854775807")
  t.eq(json.encode(math.mininteger), "-9223372036854775808")
  t.eq(json.encode(1.0), "1.0")
  t.eq(json.encode(-0.0), "-0.0")
  t.eq(json.encode(0.1), "0.1")
  t.eq(json.encode(1 / 3), "0.3333333333333333")
  t.eq(json.encode(1e300), "1e300")
  t.eq(json.encode(5e-324), "5e-324")
end)

t.test("only those characters of a string that must be escaped are escaped", function()
  t.eq(json.encode 'a"b\\c/d', [["a\"b\\c/d"]])
  t.eq(json.encode "\b\t\n\f\r", [["\b\t\n\f\r"]])
  t.eq(json.encode "\0\1\31 \127", '"\\u0000\\u0001\\u001f \127"')
  t.eq(json.encode "é€😀\u{2028}", '"é€😀\u{2028}"')
  t.eq(json.encode 'é"\n€', [["é\"\n€"]])
end)

t.test("a table with the keys 1 to n is an array, regardless of how it was filled", function()
  t.eq(json.encode { 1, "two", { 3 } }, '[1,"two",[3]]')
  t.eq(json.encode { [2] = "b", [1] = "a" }, '["a","b"]')
  local backwards, grown, shrunk = {}, { 1 }, { 1, 2, 3, 4 }
  for i = 20, 1, -1 do backwards[i] = i end
  for i = 2, 20 do grown[i] = i end
  t.eq(json.encode(backwards), json.encode(grown))
  shrunk[4], shrunk[3] = nil, nil
  t.eq(json.encode(shrunk), "[1,2]")
end)

t.test("a table with string keys is an object", function()
  t.eq(json.encode { a = 1 }, '{"a":1}')
  t.eq(json.encode { ['q"'] = { b = json.null } }, '{"q\\"":{"b":null}}')
  t.eq(json.encode { ["1"] = "x" }, '{"1":"x"}')
end)

t.test("an empty table is an object unless it is marked as an array", function()
  t.eq(json.encode {}, "{}")
  t.eq(json.encode(json.array {}), "[]")
  t.eq(json.encode(json.array()), "[]")
  t.eq(json.encode(setmetatable({}, json.array_mt)), "[]")
  t.eq(json.encode { list = json.array { 1 } }, '{"list":[1]}')
end)

t.test("array returns its argument, accepts a marked table, and refuses a table with another metatable", function()
  local list = { 1 }
  t.ok(rawequal(json.array(list), list))
  t.ok(rawequal(json.array(list), list))
  t.eq(getmetatable(list), json.array_mt)
  local own = setmetatable({}, {})
  t.raises("bad argument #1 to '[%w.]*array' %(the table has a metatable of its own%)",
    json.array, own)
  t.raises("table expected, got string", json.array, "x")
  t.raises("table expected, got nil", json.array, nil)
end)

t.test("sort writes the keys of every object in the order of their bytes", function()
  local value = { b = 1, a = { z = 1, y = json.array(), [""] = 2 }, aa = {}, B = { { d = 1, c = 2 } } }
  t.eq(json.encode(value, { sort = true }),
    '{"B":[{"c":2,"d":1}],"a":{"":2,"y":[],"z":1},"aa":{},"b":1}')
  t.eq(json.encode({}, { sort = true }), "{}")
  t.eq(json.encode({ a = 1 }, { sort = false }), '{"a":1}')
end)

t.test("encode ignores metamethods", function()
  local trap = function() error "called" end
  local value = setmetatable({ 1 }, { __index = trap, __len = trap, __pairs = trap })
  t.eq(json.encode(value), "[1]")
end)

t.test("an error for a value that JSON cannot represent names its type and its place", function()
  local cases = {
    { print, "json: cannot encode a function$" },
    { { users = { {}, {}, { name = print } } }, "cannot encode a function at %.users%[3%]%.name$" },
    { { coroutine.create(print) }, "cannot encode a thread at %[1%]$" },
    { { f = io.stdout }, "cannot encode a userdata at %.f$" },
    { { x = 0 / 0 }, "cannot encode NaN at %.x$" },
    { { { 1, 1 / 0 } }, "cannot encode infinity at %[1%]%[2%]$" },
    { { x = -1 / 0 }, "cannot encode infinity at %.x$" },
    { { ["a b"] = print }, 'function at %["a b"%]$' },
    { { ["1a"] = print }, 'function at %["1a"%]$' },
    { { [""] = print }, 'function at %[""%]$' },
    { { ["\255"] = 1 }, 'not UTF%-8 %(byte 1%) at %["\\xff"%]$' },
    { { s = "aé\237\160\128" }, "a string that is not UTF%-8 %(byte 4%) at %.s$" },
    { { "ok", "\192\128" }, "not UTF%-8 %(byte 1%) at %[2%]$" },
    { "cut \226\130", "not UTF%-8 %(byte 5%)$" },
    { { 1, 2, nil, 4 }, "sparse array %(3 integer keys, but no %[3%]%)$" },
    { { [0] = 1 }, "sparse array %(1 integer keys, but no %[1%]%)$" },
    { { l = { [-1] = 0, 1 } }, "sparse array .* at %.l$" },
    { { [2 ^ 53 | 0] = 1 }, "sparse array" },
    { { 1, x = 2 }, "a table with both integer and string keys$" },
    { { x = 2, [5] = 1 }, "both integer and string keys$" },
    { { [1.5] = 1 }, "a table with a float as key$" },
    { { [true] = 1 }, "a table with a boolean as key$" },
    { { 1, [{}] = 1 }, "a table with a table as key$" },
    { { o = { a = 1, [print] = 1 } }, "a table with a function as key at %.o$" },
    { json.array { x = 1 }, 'an array with the key "x"$' },
  }
  for _, case in ipairs(cases) do
    t.raises("json: .*" .. case[2]:gsub("^json: ", ""), json.encode, case[1])
    t.raises(case[2], json.encode, case[1], { sort = true })
  end
  t.eq(json.encode { 1 }, "[1]", "encode works after failures")
end)

t.test("an error names the line of the caller and has at most 500 bytes", function()
  local e = t.raises("json_test%.lua:%d+: json: cannot", function() json.encode { print } end)
  t.ok(#e < 500)
  local long = print
  for _ = 1, 100 do long = { [("k"):rep(1000)] = long } end
  t.ok(#t.raises("cannot encode a function at", json.encode, long) <= 500)
end)

t.test("encode limits the depth of nesting, so cycles are errors", function()
  t.eq(json.encode(nested(DEPTH)), ("["):rep(DEPTH) .. ("]"):rep(DEPTH))
  t.raises("excessive nesting", json.encode, nested(DEPTH + 1))
  local cycle = { name = "x" }
  cycle.self = cycle
  t.raises("excessive nesting.*%(a cycle%?%) at %.self%.self", json.encode, cycle)
  local list = {}
  list[1] = list
  t.raises("excessive nesting", json.encode, list)
end)

t.test("nested arrays that have some elements in the hash part are encoded in linear time", function()
  -- A traversal that restarts for each of these arrays would take 2^100 steps.
  local value = 1
  for _ = 1, 100 do
    local outer = { value }
    outer[4], outer[3], outer[2] = 4, 3, 2
    value = outer
  end
  t.eq(json.encode(value), ("["):rep(100) .. "1" .. (",2,3,4]"):rep(100))
end)

t.test("invalid arguments of encode raise errors", function()
  t.raises("bad argument #1 to '[%w.]*encode' %(value expected%)", json.encode)
  t.raises("bad argument #2 to '[%w.]*encode' %(table expected, got string%)", json.encode, 1, "x")
end)

-- ---------------------------------------------------------------------------------------------
-- decode

t.test("decode reads every kind of value", function()
  t.eq(json.decode "true", true)
  t.eq(json.decode "false", false)
  t.ok(rawequal(json.decode "null", json.null))
  t.eq(json.decode ' \t\r\n"x" ', "x")
  t.eq(json.decode '[1,[],{}]', { 1, {}, {} })
  t.eq(json.decode '{"a":{"b":[null]}}', { a = { b = { json.null } } })
  t.is_nil(getmetatable(json.decode "{}"), "objects have no metatable")
end)

t.test("a decoded array is encoded as an array, even if it is or becomes empty", function()
  for _, text in ipairs {
    "[]", "{}", '{"items":[]}', "[[],{},[[]]]", '{"a":{"b":[{"c":[]}]},"d":{}}', "[1,[2,[3]]]",
  } do
    t.eq(json.encode(json.decode(text), { sort = true }), text)
  end
  local value = json.decode '{"items":[1,2]}'
  table.remove(value.items)
  table.remove(value.items)
  t.eq(json.encode(value), '{"items":[]}')
  value.items[1] = "x"
  t.eq(json.encode(value), '{"items":["x"]}')
  t.eq(getmetatable(value.items), json.array_mt)
  t.ok(rawequal(json.array(value.items), value.items))
end)

t.test("a decoded array that gets a string key is refused, unless its metatable is removed", function()
  local value = json.decode '{"items":[]}'
  value.items.name = "x"
  t.raises('json: cannot encode an array with the key "name" at %.items$', json.encode, value)
  setmetatable(value.items, nil)
  t.eq(json.encode(value), '{"items":{"name":"x"}}')
end)

t.test("decode returns integers of 64 bits as Lua integers, and all other numbers as floats", function()
  local function is(text, want)
    local got = json.decode(text)
    t.eq(got, want, text)
    t.eq(math.type(got), math.type(want), text)
  end
  is("1", 1)
  is("1.0", 1.0)
  is("1e2", 100.0)
  is("-0.0", -0.0)
  is("9223372036854775807", math.maxinteger)
  is("-9223372036854775808", math.mininteger)
  is("9223372036854775808", 2.0 ^ 63)
  is("18446744073709551616", 2.0 ^ 64)
  is("-9223372036854775809", -(2.0 ^ 63))
  is("2.2250738585072014e-308", 0x1p-1022)
  is("5e-324", 0x1p-1074)
  is("1e-400", 0.0)
end)

t.test("decode reads escapes, surrogate pairs and NUL in strings", function()
  t.eq(json.decode [["\"\\\/\b\f\n\r\t"]], '"\\/\b\f\n\r\t')
  t.eq(json.decode [["\u0041\u00e9\u20AC\ud83d\ude00\u0000x"]], "Aé€😀\0x")
  t.eq(json.decode '{"\\u0061":1}', { a = 1 })
end)

t.test("if an object has equal keys, decode uses the last value", function()
  t.eq(json.decode '{"a":1,"b":0,"a":2,"\\u0061":3}', { a = 3, b = 0 })
end)

t.test("null becomes the value of options.null", function()
  t.eq(json.decode('{"a":null,"b":[null]}', { null = false }), { a = false, b = { false } })
  local mine = {}
  t.ok(rawequal(json.decode("null", { null = mine }), mine))
  t.ok(rawequal(json.decode("null", {}), json.null))
end)

t.test("texts that RFC 8259 does not allow are refused", function()
  local bad = {
    "[1,]", "[,1]", '{"a":1,}', "{a:1}", "{'a':1}", '{"a" 1}', '{1:2}', "[1 2]", "01", "-", "+1",
    "1.", ".5", "1e", "0x10", "NaN", "Infinity", "-Infinity", "nul", "True", '"\\x41"', '"\\u12g4"',
    '"a\nb"', '"tab\there"', '"\\ud800"', '"\\ude00"', '"\\ud800\\u0041"', '"\255"', '"\192\128"',
    '"\237\160\128"', "\239\187\191{}", "{} {}", "[] x", "// c\n1", "[1]/**/", "1e400", "]", "\0",
    "1\0", "\f1", "\u{a0}1", "", " ", "[", '{"a":', '"abc', '"\\', '"\\u12', "[1,", "tru",
  }
  for _, text in ipairs(bad) do
    local value, message, code = json.decode(text)
    t.is_nil(value, text)
    t.ok(message:find "^json: .+ at line %d+ column %d+$", text .. " -> " .. message)
    t.ok(code == "invalid" or code == "truncated", text)
  end
end)

t.test("a failure of decode has a position, and a different code if only the end is missing", function()
  local _, message, code = json.decode '{\n  "a": 1,\n  "b": x\n}'
  t.ok(message:find "line 3 column 8$", message)
  t.eq(code, "invalid")
  _, message, code = json.decode '[1,\n2'
  t.ok(message:find "line 2 column 1$", message)
  t.eq(code, "truncated")
  t.eq(select("#", json.decode ""), 3)
end)

t.test("decode has the same limit of nesting as encode", function()
  local function text(depth) return ("["):rep(depth) .. ("]"):rep(depth) end
  t.ok(json.decode(text(DEPTH)))
  local value, message = json.decode(text(DEPTH + 1))
  t.is_nil(value)
  t.ok(message:find "recursion limit", message)
  t.is_nil((json.decode(("["):rep(1000000))))
  t.is_nil((json.decode(('{"a":'):rep(1000000))))
end)

t.test("invalid arguments of decode raise errors", function()
  t.raises("bad argument #1 to '[%w.]*decode' %(string expected, got table%)", json.decode, {})
  t.raises("bad argument #1 to '[%w.]*decode' %(string expected, got no value%)", json.decode)
  t.raises("bad argument #2 to '[%w.]*decode' %(table expected, got number%)", json.decode, "1", 1)
end)

-- ---------------------------------------------------------------------------------------------
-- Memory of a call

t.test("a finalizer that runs during a call may call encode and decode", function()
  local runs, going = 0, true
  local inner = { list = { 1, 2, 3 }, name = "inner" }
  local function litter()
    setmetatable({}, {
      __gc = function()
        if not going then return end
        runs = runs + 1
        t.eq(json.decode(json.encode(inner)), inner)
        litter()
      end,
    })
  end
  local outer = {}
  for i = 1, 200 do outer[i] = { id = i, name = "outer " .. i, tags = { "a" .. i, "b" } } end
  -- The calls below create garbage, so most finalizers run during a call. (In generational mode, Lua 5.4.4 seldom
  -- collects after a big string.)
  local mode = collectgarbage "incremental"
  collectgarbage()
  local text = json.encode(outer)
  for _ = 1, 20 do litter() end
  for _ = 1, 100 do
    t.eq(json.decode(text), outer)
    t.eq(json.encode(outer, { sort = true }), json.encode(outer, { sort = true }))
  end
  going = false
  collectgarbage(mode)
  t.ok(runs > 20, "finalizers ran: " .. runs)
end)

t.test("encode releases the memory of a big text after the call", function()
  local function resident()
    collectgarbage()
    collectgarbage()
    local f = io.open "/proc/self/statm"
    if not f then return nil end
    local _, pages = f:read("n", "n")
    f:close()
    return pages
  end
  local before = resident()
  if not before then return end
  t.eq(#json.encode(("x"):rep(64 << 20)), (64 << 20) + 2)
  -- A page has at least 4 KiB, so 8192 pages are at least half of the size of the written text.
  t.ok(resident() - before < 8192, "resident pages grew")
  t.eq(json.encode { 1 }, "[1]")
end, { resident = true })

-- ---------------------------------------------------------------------------------------------
-- Random input

local seed = math.tointeger(os.getenv "JSON_SEED") or os.time()
print("JSON_SEED=" .. seed)
math.randomseed(seed)
local random = math.random

local alphabet = { "a", "Z", "0", " ", '"', "\\", "/", "\n", "\0", "\31", "\127", "é", "€", "😀", "\u{2028}" }

local function random_string()
  local out = {}
  for i = 1, random(0, 12) do out[i] = alphabet[random(#alphabet)] end
  return table.concat(out)
end

local function random_float()
  while true do
    local x = string.unpack("<d", string.pack("<i8", random(0)))
    if x == x and x ~= 1 / 0 and x ~= -1 / 0 then return x end
  end
end

local scalars = {
  function() return random(0) end,
  function() return random(-100, 100) end,
  random_float,
  function() return random(-1000, 1000) / 8 end,
  random_string,
  function() return random(2) == 1 end,
  function() return json.null end,
}

local function random_value(depth)
  local kind = random(depth > 0 and 10 or 7)
  if scalars[kind] then return scalars[kind]() end
  local value = {}
  if kind == 8 then
    for i = random(0, 6), 1, -1 do value[i] = random_value(depth - 1) end
    return value
  end
  for _ = 1, random(0, 6) do value[random_string()] = random_value(depth - 1) end
  return value
end

local function exact(a, b, where)
  t.eq(math.type(a), math.type(b), where)
  if type(a) ~= "table" then return t.eq(a, b, where) end
  for k, v in pairs(a) do exact(v, b[k], where) end
  for k in pairs(b) do t.ok(a[k] ~= nil, where) end
end

t.test("an encoded value decodes to the same value with the same types (random)", function()
  for round = 1, 3000 do
    local where = "seed " .. seed .. " round " .. round
    local value = random_value(5)
    local text = json.encode(value)
    exact(json.decode(text), value, where)
    local sorted = json.encode(value, { sort = true })
    exact(json.decode(sorted), value, where)
    t.eq(json.encode(json.decode(sorted), { sort = true }), sorted, where)
    t.eq(#sorted, #text, where)
  end
end)

-- Removes, duplicates or changes a random byte of a text, or truncates the text before this byte.
local function damage(text)
  local at = random(#text)
  local head, byte, tail = text:sub(1, at - 1), text:sub(at, at), text:sub(at + 1)
  local how = random(4)
  if how == 1 then return head .. tail end
  if how == 2 then return head .. byte .. byte .. tail end
  if how == 3 then return head .. string.char(random(0, 255)) .. tail end
  return head
end

t.test("decode of any bytes fails or returns a value that can be encoded (random)", function()
  local signs <const> = '{}[]:,"\\u0019.eE+-truefalsn \n'
  local refused, taken = 0, 0
  for round = 1, 20000 do
    local text
    if round % 4 == 0 then
      local out = {}
      for i = 1, random(0, 20) do
        local at = random(#signs)
        out[i] = random(8) > 1 and signs:sub(at, at) or string.char(random(0, 255))
      end
      text = table.concat(out)
    else
      text = damage(json.encode(random_value(3)))
    end
    local where = "seed " .. seed .. " round " .. round
    local value, message, code = json.decode(text)
    if value == nil then
      t.eq({ type(message), type(code) }, { "string", "string" }, where)
      refused = refused + 1
    else
      exact(json.decode(json.encode(value)), value, where)
      taken = taken + 1
    end
  end
  t.ok(refused > 1000 and taken > 1000, "refused and accepted texts: " .. refused .. ", " .. taken)
end)

t.test("encode of any value either returns or raises a string (random)", function()
  local odd = { print, 0 / 0, 1 / 0, "\255", io.stdout, coroutine.create(print), { 1, nil, 3 }, { 1, a = 1 } }
  local keys = { 0, -1, 3, 2.5, true, "\128", print }
  for round = 1, 5000 do
    local value = { random_value(3), random_value(3) }
    local inner = random(2) == 1 and value or { value }
    if random(2) == 1 then inner[#inner + 1] = odd[random(#odd)] else inner[keys[random(#keys)]] = 1 end
    local ok, result = pcall(json.encode, value, { sort = random(2) == 1 })
    t.eq(type(result), "string", "seed " .. seed .. " round " .. round)
    if ok then t.ok(json.decode(result) ~= nil) end
  end
end)

t.finish()
