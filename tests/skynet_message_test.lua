-- The Skynet API for messages: packing, protocols, calls and answers, with their errors. The programs of tests/skynet
-- use these functions together.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

kit.test("packed values can be unpacked from a pointer and from a string", {
  main = [[
    local values = table.pack(nil, true, false, 1, -2^53 | 0, 0.5, -1e300, "", "a\0b", nil)
    local function check(...)
      local n = select("#", ...)
      for i = 1, values.n do assert(values[i] == (select(i, ...))) end
      return n
    end
    local msg, sz = skynet.pack(table.unpack(values, 1, values.n))
    say(type(msg), math.type(sz), check(skynet.unpack(msg, sz)), check(skynet.unpack(msg, sz)))
    skynet.trash(msg, sz)
    local text = skynet.packstring(table.unpack(values, 1, values.n))
    say(type(text), check(skynet.unpack(text)), check(skynet.unpack(text, #text)))
    local deep = skynet.unpack(skynet.packstring { 1, { 2, { 3 } }, k = { [1.5] = true } })
    say(deep[1], deep[2][1], deep[2][2][1], deep.k[1.5], math.type(deep[1]))
    say(select("#", skynet.unpack(skynet.packstring())), select("#", skynet.unpack ""), select("#", skynet.unpack()))
    skynet.trash(text)
    skynet.trash()
  ]],
  out = { "userdata\tinteger\t10\t10", "string\t10\t10", "1\t2\t3\ttrue\tinteger", "0\t0\t0" },
})

kit.test("skynet.tostring turns a message into a string, which unpack accepts", {
  main = [[
    local msg, sz = skynet.pack("x", { 1 })
    local text = skynet.tostring(msg, sz)
    say(type(text), #text == sz, text == skynet.packstring("x", { 1 }), (skynet.unpack(text)), (skynet.unpack(msg, sz)))
    skynet.trash(msg, sz)
    say(skynet.tostring(skynet.pack()) == "")
    say(skynet.tostring("as it is", 8), skynet.tostring(12), skynet.tostring() == "")
  ]],
  out = { "string\ttrue\ttrue\tx\tx", "true", "as it is\t12\ttrue" },
})

kit.test("a value that cannot be packed, and a corrupt string, raise an error", {
  main = [[
    for _, pack in ipairs { skynet.pack, skynet.packstring } do
      for _, value in ipairs { function() end, coroutine.create(print) } do say(pcall(pack, value)) end
    end
    say(pcall(skynet.unpack, "\xff no packed string"))
    say(pcall(skynet.unpack, skynet.packstring "x" .. "\xff"))
    for cut = 1, 5 do assert(not pcall(skynet.unpack, skynet.packstring("value"):sub(1, cut))) end
    local msg, sz = skynet.pack "x"
    say(pcall(skynet.tostring, msg), pcall(skynet.tostring, msg, -1))
    skynet.trash(msg, sz)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    for i, kind in ipairs { "function", "thread", "function", "thread" } do
      t.ok(lines[i]:find("^false\t.*Unsupport type " .. kind .. " to serialize$"), lines[i])
    end
    for i = 5, 6 do t.ok(lines[i]:find "^false\tcannot unpack: ", lines[i]) end
    t.ok(lines[7]:find "^false\tfalse\t.*size must be 0 to", lines[7])
    t.is_nil(lines[8])
  end,
})

kit.test("packed tables may be nested to any depth, shared and cyclic, even in a string", {
  main = [[
    local loop, deep = {}, {}
    loop.loop = loop
    for _ = 1, 1000 do deep = { deep } end
    local one, two, far = skynet.unpack(skynet.packstring(loop, loop, deep))
    local depth = 0
    while far[1] do far, depth = far[1], depth + 1 end
    say(one == two, one.loop == one, depth)
  ]],
  out = { "true\ttrue\t1000" },
})

kit.test("packing into strings leaks no memory", {
  main = [[
    local large = ("x"):rep(1e6)
    local resident = require "tests.kit.resident"
    local function some()
      for _ = 1, 50 do
        skynet.packstring(large)
        local msg, sz = skynet.pack(large)
        skynet.tostring(msg, sz)
        skynet.trash(msg, sz)
        pcall(skynet.packstring, large, coroutine.create(print))
        collectgarbage()
      end
    end
    some()
    local before = resident()
    some()
    say(resident() - before < 20000)
  ]],
  out = { "true" },
  resident = true,
})

kit.test("a protocol may have its own functions for packing, and its messages may be strings", {
  services = {
    shout = kit.text_protocol .. [[
      skynet.start(function()
        skynet.dispatch("text", function(session, address, text)
          assert(math.type(session) == "integer" and address > 0)
          if text == "pack" then return skynet.retpack(1, 2) end
          if text == "nothing" then return skynet.ret() end
          if text == "inside" then
            -- Answers from a coroutine that the handler resumes.
            return coroutine.wrap(function() skynet.ret "from inside" end)()
          end
          if text == "later" then
            local answer = skynet.response()
            return skynet.fork(answer, true, "x")
          end
          if text == "own" then
            return skynet.fork(skynet.response(function(a, b) return a .. b end), true, "c", "d")
          end
          say("session", session > 0)
          skynet.ret(text:upper())
        end)
      end)
    ]],
    native = "return { text = function(text) return text .. '!' end }",
  },
  main = kit.text_protocol .. [[
    local shout = skynet.newservice "shout"
    say(skynet.call(shout, "text", "hello"))
    say(skynet.call(shout, skynet.PTYPE_TEXT, "by number"))
    say(skynet.rawcall(shout, "text", "raw", 3))
    say(skynet.unpack(skynet.call(shout, "text", "pack")))
    say("nothing", skynet.call(shout, "text", "nothing") == "")
    say(skynet.call(shout, "text", "inside"))
    say(skynet.unpack(skynet.call(shout, "text", "later")))
    say(skynet.call(shout, "text", "own"))
    say(skynet.send(shout, "text", "sent"))
    say(skynet.rawsend(shout, "text", "sent raw"))
    say(skynet.call(skynet.newservice "native", "text", "native"))
    say(skynet.call(shout, "text", "in order"))
    say(pcall(skynet.call, shout, "text", {}))
    say((pcall(ltask.call, shout, "text", 5)))
  ]],
  err = "a string expected for the protocol 'text', got number",
  out = function(out)
    local lines = kit.lines(out)
    -- Both services write. The lines of one service are in order; the lines of both may be mixed.
    local of_shout, of_main = {}, {}
    for _, line in ipairs(lines) do table.insert(line:find "^session" and of_shout or of_main, line) end
    t.eq(of_shout, {
      "session\ttrue", "session\ttrue", "session\ttrue", "session\tfalse", "session\tfalse", "session\ttrue",
    })
    t.eq(of_main, {
      "HELLO", "BY NUMBER", "RAW\t3", "1\t2", "nothing\ttrue", "from inside", "x", "cd", "true", "true", "native!",
      "IN ORDER", "false\ta message must be a string or a result of pack, not a table", "false",
    })
  end,
})

kit.test("register_protocol refuses invalid fields", {
  main = [[
    local function try(class) say(select(2, pcall(skynet.register_protocol, class))) end
    try(nil)
    try { id = 100 }
    try { name = "x" }
    try { name = "x", id = 256 }
    try { name = "x", id = 1.5 }
    try { name = "lua", id = 100 }
    try { name = "x", id = skynet.PTYPE_LUA }
    try { name = "x", id = 100, pack = "text" }
    skynet.register_protocol { name = "x", id = 100 }
    try { name = "x", id = 101 }
    skynet.register_protocol { name = "pack only", id = 102, pack = function() return "" end }
    say(pcall(skynet.call, skynet.self(), "pack only"))
    skynet.register_protocol { name = "unpack only", id = 103, unpack = function() return "" end }
    local function fail(...) say((select(2, pcall(...)):gsub("^.*/main.lua:%d+: ", ""))) end
    fail(skynet.call, skynet.self(), "unpack only")
    fail(skynet.send, skynet.self(), "unpack only")
  ]],
  out = {
    "register_protocol: a table expected, got nil",
    "register_protocol: the name is not a string",
    "register_protocol: x: the id is not an integer from 0 to 255",
    "register_protocol: x: the id is not an integer from 0 to 255",
    "register_protocol: x: the id is not an integer from 0 to 255",
    "register_protocol: lua, 100: the name or the id is taken",
    "register_protocol: x, 10: the name or the id is taken",
    "register_protocol: x: pack is not a function",
    "register_protocol: x, 101: the name or the id is taken",
    "false\tservice 3 (main) has no handler for request 'pack only'",
    "call: the protocol 'unpack only' has no function pack: pass one to register_protocol, or use rawcall",
    "send: the protocol 'unpack only' has no function pack: pass one to register_protocol, or use rawsend",
  },
})

kit.test("dispatch returns the previous function, and a protocol without a function refuses calls", {
  services = { late = [[
    skynet.start(function()
      say(skynet.dispatch "lua")
      local function first(_, _, ...) skynet.retpack("first", ...) end
      local function second(_, _, ...)
        skynet.retpack("second", skynet.dispatch("lua", first) ~= nil, ...)
      end
      say(skynet.dispatch("lua", second))
      say(skynet.dispatch "lua" == second, skynet.dispatch("lua", second) == second)
      say(pcall(skynet.dispatch, "tea", first))
      say(pcall(skynet.dispatch, "lua", "text"))
    end)
  ]], mute = "skynet.start(function() end)" },
  main = [[
    local late = skynet.newservice "late"
    say(skynet.call(late, "lua", 1))
    say(skynet.call(late, "lua", 2))
    local ok, e = pcall(skynet.call, skynet.newservice "mute", "lua")
    say(ok, e:gsub("%d+", "N"))
  ]],
  out = {
    "nil", "nil", "true\ttrue", "false\tdispatch: no protocol 'tea' is registered",
    "false\tbad argument #2 to 'dispatch' (function expected, got string)",
    "second\ttrue\t1", "first\t2", "false\tservice N (mute) has no handler for request 'lua'\t1",
  },
})

kit.test("services with and without skynet call each other", {
  services = {
    words = "function CMD.add(a, b) return a + b end serve()",
    native = "return { lua = function(cmd, ...) return cmd, ... end, add = function(a, b) return a + b end }",
  },
  main = [[
    local words, native = skynet.newservice "words", skynet.newservice "native"
    say(ltask.call(words, "lua", "add", 1, 2), skynet.call(words, "lua", "add", 3, 4))
    say(skynet.call(native, "lua", "x", nil, 5))
    say(ltask.call(native, "add", 1, 1))
    say(skynet.unpack(skynet.rawcall(words, "lua", skynet.pack("add", 5, 6))))
    say(skynet.unpack(skynet.rawcall(native, "lua", skynet.packstring("raw", nil, 1))))
    say(skynet.rawsend(words, "lua", skynet.pack("add", 1, 1)), (skynet.rawsend(4711, "lua", skynet.pack(1))))
    say(skynet.call(ltask.spawn "words", "lua", "add", 1, 1))
    local ok, e = pcall(ltask.call, words, "lua", "add", {}, 1)
    say(ok, e.message:match "attempt to perform arithmetic")
  ]],
  err = "error in a request from :00000003, session %d+: .*attempt to perform arithmetic",
  out = {
    "3\t7", "x\tnil\t5", "2", "11", "raw\tnil\t1", "true\tfalse", "2", "false\tattempt to perform arithmetic",
  },
})

kit.test("an address is a number, a number as a string, or a name; other values are refused", {
  services = { echo = "function CMD.echo(...) return ... end serve()" },
  main = [[
    local echo = skynet.newservice "echo"
    say(skynet.address(echo), skynet.address ".name", skynet.address(nil))
    say(skynet.call(skynet.address(echo), "lua", "echo", 1))
    say(skynet.send(skynet.address(echo), "lua", "echo", 1))
    for _, addr in ipairs { "echo", ":xyz", ".none", true } do
      say(select(2, pcall(skynet.call, addr, "lua")), skynet.send(addr, "lua"))
    end
    say(pcall(skynet.rawcall, ".none", "lua", "", 0))
    say(skynet.rawsend(".none", "lua", skynet.pack "x"))
    say(pcall(skynet.call, nil, "lua"))
    say(pcall(skynet.rawcall, nil, "lua", "", 0))
    say(skynet.send(nil, "lua"))
  ]],
  out = {
    ":00000004\t.name\tnil", "1", "true",
    "call: there is no service 'echo'\tfalse\tthere is no service 'echo'",
    "call: there is no service ':xyz'\tfalse\tthere is no service ':xyz'",
    "call: there is no service '.none'\tfalse\tthere is no service '.none'",
    "call: there is no service 'true'\tfalse\tthere is no service 'true'",
    "false\trawcall: there is no service '.none'",
    "false\tthere is no service '.none'",
    "false\tcall: the address is nil", "false\trawcall: the address is nil", "false\tthe address is nil",
  },
})

kit.test("ret, retpack and response raise if no request is being handled", {
  services = { start = [[
    skynet.start(function()
      say("start", pcall(skynet.ret))
      skynet.fork(function() say("fork", pcall(skynet.retpack, 1)) end)
      skynet.timeout(0, function() say("timeout", pcall(skynet.response)) end)
      skynet.sleep(1)
      say(pcall(skynet.ret, skynet.pack(1)))
      skynet.ignoreret()
      say("context", skynet.context())
    end)
  ]] },
  main = [[ say("made", math.type(skynet.newservice "start")) ]],
  out = function(out)
    local no <const> = ": no session: this coroutine is not handling a request, or has already answered it"
    t.eq(kit.lines(out), {
      "start\tfalse\tret" .. no, "fork\tfalse\tretpack" .. no, "timeout\tfalse\tresponse" .. no,
      "false\tret" .. no, "context", "made\tinteger",
    })
  end,
})

kit.test("context returns session and address; ret works in nested coroutines; a second answer raises", {
  services = { inner = [[
    skynet.start(function()
      skynet.dispatch("lua", function(session, address, cmd)
        local s, a = skynet.context()
        assert(s == session and a == address)
        coroutine.wrap(function()
          local inner_session, inner_address = skynet.context()
          assert(inner_session == session and inner_address == address)
          if cmd == "sleep" then skynet.sleep(1) end
          skynet.retpack("from inside", cmd)
        end)()
        say(cmd, (pcall(skynet.retpack, "again")))
      end)
    end)
  ]] },
  main = [[
    local inner = skynet.newservice "inner"
    say(skynet.call(inner, "lua", "x"))
    say(skynet.call(inner, "lua", "sleep"))
    skynet.send(inner, "lua", "sent")
    say(pcall(skynet.call, inner, "lua", "last"))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    table.sort(lines)
    t.eq(lines, {
      "from inside\tsleep", "from inside\tx", "last\tfalse", "sent\tfalse", "sleep\tfalse", "true\tfrom inside\tlast",
      "x\tfalse",
    })
  end,
})

kit.test("a request is answered only once, in nested coroutines of the handler or outside of them", {
  services = { deep = kit.text_protocol .. [[
    -- Runs `f` in a coroutine inside another coroutine. Returns its results.
    local function inside(f, ...)
      return coroutine.wrap(function(...) return coroutine.wrap(f)(...) end)(...)
    end
    local function text_of(problem) return problem:match "%a+: no session" or problem end
    local words = {
      ret = function() return skynet.ret(skynet.packstring "1") end,
      retpack = function() return skynet.retpack "1" end,
      response = function()
        local answer = skynet.response()
        return answer and answer(true, "1")
      end,
    }
    local function both(session, _, first, second)
      local one = session > 0 and "asked" or "sent"
      local taken = inside(words[first])
      local ok, problem = inside(pcall, words[second])
      say(one, first, taken, second, ok, text_of(problem))
    end
    skynet.start(function()
      skynet.dispatch("lua", both)
      skynet.dispatch("text", function(session, address, text) both(session, address, text:match "(%a+) (%a+)") end)
    end)
  ]] },
  main = kit.text_protocol .. [[
    local deep = skynet.newservice "deep"
    for _, first in ipairs { "ret", "retpack", "response" } do
      say("values", skynet.call(deep, "lua", first, "ret"))
      say("text", skynet.unpack(skynet.call(deep, "text", first .. " retpack")))
      skynet.send(deep, "lua", first, "response")
      skynet.send(deep, "text", first .. " ret")
    end
    skynet.call(deep, "lua", "ret", "ret")
  ]],
  out = function(out)
    local said, answers = {}, {}
    for _, line in ipairs(kit.lines(out)) do
      table.insert(line:find "^%l+\t%d$" and answers or said, line)
    end
    t.eq(answers, { "values\t1", "text\t1", "values\t1", "text\t1", "values\t1", "text\t1" })
    local want = {}
    for _, first in ipairs { "ret", "retpack", "response" } do
      -- A message without a session has no caller, so the function that `response` returned has no effect.
      local sent = first == "response" and "nil" or "false"
      want[#want + 1] = ("asked\t%s\ttrue\tret\tfalse\tret: no session"):format(first)
      want[#want + 1] = ("asked\t%s\ttrue\tretpack\tfalse\tretpack: no session"):format(first)
      want[#want + 1] = ("sent\t%s\t%s\tresponse\tfalse\tresponse: no session"):format(first, sent)
      want[#want + 1] = ("sent\t%s\t%s\tret\tfalse\tret: no session"):format(first, sent)
    end
    table.insert(want, "asked\tret\ttrue\tret\tfalse\tret: no session")
    table.sort(said)
    table.sort(want)
    t.eq(said, want)
  end,
})

kit.test("ignoreret in a coroutine that the handler resumes applies to the handler", {
  services = { ignores = [[
    skynet.start(function()
      skynet.dispatch("lua", function(session)
        coroutine.wrap(skynet.ignoreret)()
        say(session > 0, pcall(skynet.ret))
        if session > 0 then skynet.exit() end
      end)
    end)
  ]] },
  main = [[
    local ignores = skynet.newservice "ignores"
    skynet.send(ignores, "lua")
    say((pcall(skynet.call, ignores, "lua")))
  ]],
  out = {
    "false\tfalse\tret: no session: this coroutine is not handling a request, or has already answered it",
    "true\tfalse\tret: no session: this coroutine is not handling a request, or has already answered it",
    "false",
  },
})

kit.test("a second answer raises, regardless of the functions that answer and of the protocol", {
  services = { answers = kit.text_protocol .. [[
    local function twice(_, _, first, second)
      if first == "response" then skynet.response()(true, "1") else skynet[first](skynet.packstring "1") end
      say(first, second, (pcall(skynet[second], skynet.packstring "2")))
    end
    skynet.start(function()
      skynet.dispatch("lua", twice)
      skynet.dispatch("text", function(_, _, text) twice(nil, nil, text:match "(%a+) (%a+)") end)
    end)
  ]] },
  main = kit.text_protocol .. [[
    local answers = skynet.newservice "answers"
    for _, first in ipairs { "ret", "retpack", "response" } do
      for _, second in ipairs { "ret", "retpack", "response" } do
        skynet.call(answers, "lua", first, second)
        skynet.call(answers, "text", first .. " " .. second)
      end
    end
    skynet.call(answers, "lua", "ret", "ret")
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.ok(#lines >= 18, "one line for each combination")
    for _, line in ipairs(lines) do t.ok(line:find "\tfalse$", line) end
  end,
})

kit.test("if packing an answer raises an error, the handler may answer again", {
  services = { bad = [[
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd)
        if cmd == "caught" then
          say((pcall(skynet.retpack, coroutine.create(print))))
          return skynet.retpack "and again"
        end
        local answer = skynet.response()
        say((pcall(answer, true, coroutine.create(print))))
        say(answer "TEST", answer(true, "well"), answer "TEST", (pcall(answer, "TEST")))
      end)
    end)
  ]] },
  main = [[
    local bad = skynet.newservice "bad"
    local first, second = skynet.call(bad, "lua", "caught"), skynet.call(bad, "lua", "response")
    say(first, second)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    table.sort(lines)
    t.eq(lines, {
      "and again\twell", "false", "false", "true\ttrue\tfalse\ttrue",
    })
  end,
})

kit.test("send waits until a full mailbox has space, and no message is lost", {
  services = {
    slow = [[
      local count = 0
      skynet.start(function()
        skynet.dispatch("lua", function(session, _, n)
          if session > 0 then return skynet.retpack(count) end
          assert(n == count + 1)
          count = n
        end)
      end)
    ]],
    sender = [[
      local to = ...
      skynet.start(function()
        for i = 1, 2000 do assert(skynet.send(to, "lua", i)) end
        say(skynet.call(to, "lua"))
      end)
    ]],
  },
  main = [[ skynet.newservice("sender", skynet.newservice "slow") ]],
  config = { core = { queue = 16 } },
  out = { "2000" },
})

t.finish()
