-- Tests of lio.testing: assertions and their messages, tests as tasks, time limits, groups, and the check that a test
-- leaves nothing behind. Tests of tests run in child processes. The programs may use: t, loop, lio

local t = require "tests.kit"
local a = require "lio.testing.assertions"

-- Assertions -----------------------------------------------------------------------------------------------

-- Returns the message of the error that `f(…)` raises, without its position.
local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  t.ok(not ok, "no error was raised")
  return (message:gsub("^[^\n]-:%d+: ", "", 1))
end

t.test("eq compares tables by content, other values by ==, and NaN equals NaN", function()
  local shared = {}
  local circle, other = {}, {}
  circle.self, other.self = circle, other
  for _, pair in ipairs {
    { 1, 1.0 }, { 0 / 0, 0 / 0 }, { { a = { 1, 2 } }, { a = { 1, 2 } } }, { shared, shared }, { circle, other },
  } do
    a.eq(pair[1], pair[2])
    t.eq(message_of(a.differs, pair[1], pair[2]), "got " .. a.show(pair[1]) .. ", want another value")
  end
  for _, pair in ipairs { { 1, "1" }, { nil, false }, { { 1 }, { 1, 2 } }, { { 1, 2 }, { 1 } }, { {}, "x" } } do
    t.raises("values differ", a.eq, pair[1], pair[2])
    a.differs(pair[1], pair[2])
  end
end)

t.test("the message of eq shows both values, and where they differ", function()
  t.eq(message_of(a.eq, 1, 2), "values differ\n   got: 1\n  want: 2")
  t.eq(message_of(a.eq, 1, 2, "count"), "count: values differ\n   got: 1\n  want: 2")
  t.eq(message_of(a.eq, 12, "12"), 'values differ\n   got: 12\n  want: "12"')
  t.eq(message_of(a.eq, { a = 1, b = { "x", "y" } }, { a = 1, b = { "x", "z" }, ["c d"] = 2 }),
    'values differ\n   got: { a = 1, b = { "x", "y" } }\n  want: { a = 1, b = { "x", "z" }, [c d] = 2 }\n'
    .. '  at .b[2]: got "y", want "z"\n  at ["c d"]: got nil, want 2')
end)

t.test("the message of eq shows the lines that differ", function()
  local message = message_of(a.eq, "1\n2\n3\n4\nx\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\nsix\n6\n7\n8\n9\n")
  t.ok(message:find("  lines that differ, from line 5 on (- want, + got):\n      3\n      4\n    - 5\n    - six\n"
    .. "    + x\n      6\n      7", 1, true), message)
  t.ok(message_of(a.eq, "a\nb", "a\nb\n"):find("they differ only in the newline at the end", 1, true))
end)

t.test("the message of eq shows the place at which long strings differ", function()
  local message = message_of(a.eq, ("a"):rep(100) .. "b" .. ("c"):rep(50), ("a"):rep(100) .. "x")
  t.ok(message:find('the strings (151 and 101 bytes) differ from byte 101 on\n   got: …"' .. ("a"):rep(20) .. "b"
    .. ("c"):rep(20) .. '"…\n  want: …"' .. ("a"):rep(20) .. 'x"', 1, true), message)
end)

t.test("the message of eq lists at most 8 places of a table", function()
  local got, want = {}, {}
  for index = 1, 50 do got[index], want[index] = index, -index end
  local _, count = message_of(a.eq, got, want):gsub("\n  at %[", "")
  t.eq(count, 8)
end)

t.test("ok, is_nil, near and match name the value, and show it", function()
  t.eq(a.ok(1, "x"), 1)
  t.eq(message_of(a.ok, nil, "file: not found"), "file: not found: got nil, want a true value")
  t.eq(message_of(a.ok, false), "got false, want a true value")
  a.is_nil(nil)
  t.eq(message_of(a.is_nil, false), "got false, want nil")
  a.near(1, 1.5, 0.5)
  t.eq(message_of(a.near, 1, 2, 0.5, "age"), "age: got 1, want 2 ± 0.5")
  t.raises("got nil, want 2", a.near, nil, 2, 0.5)
  t.eq({ a.match("key = value", "(%w+) = (%w+)") }, { "key", "value" })
  t.eq(a.match("key", "^k.*"), "key")
  t.eq(message_of(a.match, "key", "^v"), 'the string does not match\n   got: "key"\n  want: "^v"')
  t.eq(message_of(a.match, 12, "1"), "got 12, want a string")
end)

t.test("fails asserts that a function raises a string", function()
  t.eq(a.fails("^oops %d$", function(n) error("oops " .. n, 0) end, 1), "oops 1")
  t.eq(message_of(a.fails, "x", function() end), 'no error was raised, want one that matches "x"')
  t.eq(message_of(a.fails, "x", error, "y"), 'the error does not match\n   got: "y"\n  want: "x"')
  t.raises("the error is a table", a.fails, "x", error, {})
end)

t.test("returns_error asserts nil, a message and a code", function()
  t.eq(a.returns_error("timeout", nil, "recv: timeout", "timeout"), "recv: timeout")
  t.eq(message_of(a.returns_error, "timeout", "data"), 'got the result "data", want nil and the code "timeout"')
  t.eq(message_of(a.returns_error, "timeout", nil, "recv: closed", "closed"),
    'the codes differ\n   got: "closed" ("recv: closed")\n  want: "timeout"')
end)

t.test("an assertion raises at the line of its caller", function()
  local line = debug.getinfo(1, "l").currentline
  local _, message = pcall(function() a.eq(1, 2) end)
  t.ok(message:find("testing_test.lua:" .. line + 1 .. ": values differ", 1, true), message)
end)

-- Tests as programs --------------------------------------------------------------------------------------

local PRELUDE <const> = 'local t = require "lio.testing" local loop, lio = require "lio.loop", require "lio"\n'

-- Runs a file of tests. Returns its output and its exit code.
local function run(body)
  local path = t.write(t.tmp() .. "/some_test.lua", PRELUDE .. body .. "\nt.finish()\n")
  local result = t.run("cd " .. path:match "^(.*)/" .. " && " .. t.lio() .. " some_test.lua")
  t.eq(result.err, "")
  return result.out, result.code
end

t.test("a file of tests prints its failed tests with their lines, and the counts", function()
  local out, code = run [[
t.test("adds", function() t.eq(1 + 1, 2) end)
t.test("subtracts", function()
  t.eq(1 - 1, 1)
end)]]
  t.ok(out:find("FAILED some_test.lua: subtracts\n  some_test.lua:4: values differ\n     got: 0\n    want: 1\n", 1,
    true), out)
  t.ok(out:find "\n1 passed, 1 failed\n$", out)
  t.ok(not out:find("lio/testing", 1, true), out)
  t.eq(code, 1)
end)

t.test("a file whose tests pass prints only the counts", function()
  local out, code = run [[t.test("a", function() loop.sleep(0.001) end) t.test("b", function() end)]]
  t.eq({ out, code }, { "2 passed, 0 failed\n", 0 })
end)

t.test("a raised table, an object and nil are shown", function()
  local out = run [[
t.test("table", function() error { a = 1 } end)
t.test("object", function() error(setmetatable({}, { __tostring = function() return "an object" end })) end)
t.test("nil", function() error(nil) end)]]
  t.ok(out:find "table\n  { a = 1 } table: 0x", out)
  t.ok(out:find "object\n  an object\n", out)
  t.ok(out:find "0 passed, 3 failed\n$", out)
end)

t.test("a test that waits too long fails, and shows where its tasks wait", function()
  local out = run [[
t.test("late", function()
  local _ <close> = setmetatable({}, { __close = function() print "closed" end })
  loop.sleep(60)
end, { seconds = 0.05 })
t.test("next", function() end)]]
  t.ok(out:find "^closed\nFAILED some_test.lua: late\n  the test ran longer than 0.05 s\n  task, waits for a sleep:\n",
    out)
  t.ok(out:find("some_test.lua:4: in function", 1, true), out)
  t.ok(out:find "1 passed, 1 failed\n$", out)
end)

t.test("a test in an endless loop fails at its line", function()
  local out = run [[
t.test("endless", function()
  while true do end
end, { seconds = 0.05 })
t.test("always ready", function()
  while true do loop.sleep(0) end
end, { seconds = 0.05 })]]
  t.ok(out:find "some_test.lua:3: the test ran longer than 0.05 s", out)
  t.ok(out:find "always ready\n.*the test ran longer than 0.05 s", out)
end)

t.test("a test in which nothing can wake a task fails at once", function()
  local out = run [[
t.test("stuck", function()
  loop.wait "nothing"
end, { seconds = 60 })]]
  t.ok(out:find 'every task is waiting, and nothing can wake any of them\n  task, waits for token "nothing":\n', out)
  t.ok(out:find("some_test.lua:3: in function", 1, true), out)
end)

t.test("a test that stops the loop fails", function()
  local out = run [[t.test("stops", function() loop.stop(0) loop.sleep(1) end)]]
  t.ok(out:find("the loop was stopped before the end of the test", 1, true), out)
end)

t.test("the traceback of a failed test has no functions of the library", function()
  local out = run [[t.test("fails", function() require("lio.webserver").url_unescape(5) end)]]
  t.ok(out:find("some_test.lua:2: bad argument #1 to 'url_unescape' (string expected, got number)\n"
    .. "  stack traceback:\n  \tsome_test.lua:2: in function <some_test.lua:2>\n", 1, true), out)
end)

-- The check that nothing is left ------------------------------------------------------------------------------

t.test("a test that leaves a task, a timeout or a timer behind fails, and the message shows where they are", function()
  local out = run [[
t.test("task", function()
  loop.fork(function()
    loop.sleep(60)
  end)
end)
t.test("timeout", function()
  loop.timeout(60, function() end)
end)
t.test("timer", function() require("lio.loop.timers").queue:create("value") end)
t.test("nothing", function() end)]]
  t.ok(out:find "task\n  the test left behind:\n    a task that waits for a sleep\n      task:\n", out)
  t.ok(out:find("some_test.lua:4: in function", 1, true), out)
  t.ok(out:find("timeout\n  the test left behind:\n    a timeout whose function is defined in some_test.lua:8\n", 1,
    true), out)
  t.ok(out:find("timer\n  the test left behind:\n    timers (1),", 1, true), out)
  t.ok(out:find "\n1 passed, 3 failed\n$", out)
end)

t.test("Regression: the timer of an access log counted as left behind", function()
  local out = run [[
local web = require "lio.webserver"
local app = web.new():use(web.log { file = function() end }):get("/", function() return "x" end)
-- The first test starts the timer; it fires in the second one.
t.test("logs", function() t.eq(app:test():get("/").status, 200) end)
t.test("waits", function() loop.sleep(0.3) end)
t.test("logs again, and leaves its own timer behind", function()
  app:test():get "/"
  require("lio.loop.timers").queue:create("value")
end)]]
  t.ok(out:find "left behind:\n    timers %(1%),", out)
  t.ok(out:find "\n2 passed, 1 failed\n$", out)
end)

t.test("a test that leaves a connection open fails, and the message names the descriptor", function()
  local out = run [[
local net = require "lio.net"
_G.kept = {}
t.test("listens", function() _G.kept[1] = t.ok(net.listen("127.0.0.1", 0)) end)
t.test("listens, and may", function() _G.kept[2] = t.ok(net.listen("127.0.0.1", 0)) end, { leaks = true })
t.test("listens and closes", function() t.ok(net.listen("127.0.0.1", 0)):close() end)
t.test("leaves a file to the collector", function() t.ok(io.open "some_test.lua") end)]]
  t.ok(out:find("listens\n  the test left behind:\n"
    .. "    registrations of sockets or other descriptors with the loop (1)\n", 1, true), out)
  t.ok(out:find "open descriptors: %d+ %-> socket:%[", out)
  t.ok(out:find "\n3 passed, 1 failed\n$", out)
end)

t.test("tasks that are about to end, and idle connections of the HTTP client, do not count", function()
  local out = run [[
local http, web = require "lio.http.client", require "lio.webserver"
local app = web.new()
app:get("/", function() return "x" end)
t.test("ending", function() for i = 1, 3 do loop.fork(function() loop.sleep(0.01 * i) end) end end)
t.test("client", function()
  local server = assert(app:listen(0))
  t.eq(http.get(server.url).body, "x")
  server:stop(1)
end)]]
  t.eq(out, "2 passed, 0 failed\n")
end)

-- Groups and hooks -----------------------------------------------------------------------------------------

t.test("hooks run around each test of their group, the outer ones outside", function()
  local out = run [[
local log = {}
local function add(word) return function() log[#log + 1] = word end end
t.before(add "a")
t.after(add "z")
t.describe("group", function()
  t.before(add "b") t.before(add "c")
  t.after(add "x") t.after(add "y")
  t.test("inner", add "inner")
end)
t.test("outer", add "outer")
print(table.concat(log, " "))]]
  t.eq(out, "a b c inner y x z a outer z\n2 passed, 0 failed\n")
end)

t.test("hooks are tasks, run after a failed test, and fail the test", function()
  local out = run [[
t.describe("group", function()
  t.before(function() loop.sleep(0) end)
  t.after(function() loop.sleep(0) print "after" end)
  t.test("fails", function() error "first" end)
end)
t.describe("broken", function()
  t.before(function() error "in before" end)
  t.test("is not run", function() print "run" end)
end)
t.describe("ends badly", function()
  t.after(function() error "in after" end)
  t.test("passes", function() end)
end)]]
  t.ok(out:find "^after\nFAILED some_test.lua: group: fails\n  some_test.lua:5: first\n", out)
  t.ok(out:find("broken: is not run\n  some_test.lua:8: in before", 1, true), out)
  t.ok(not out:find("run\n", 1, true) or not out:find "^run\n", out)
  t.ok(out:find("ends badly: passes\n  some_test.lua:12: in after", 1, true), out)
  t.ok(out:find "0 passed, 3 failed\n$", out)
end)

t.test("defer runs at the end of a test, the last one first, even if the test fails or is too late", function()
  local out = run [[
local function say(word) return function() print(word) end end
t.test("passes", function() t.defer(say "one") t.defer(say "two") print "test" end)
t.test("fails", function() t.defer(say "three") error "x" end)
t.test("late", function() t.defer(say "four") loop.wait "x" end, { seconds = 0.01 })]]
  t.eq(out:match "^test\ntwo\none\nthree\n", "test\ntwo\none\nthree\n")
  t.ok(out:find("four\n", 1, true), out)
end)

t.test("notes are shown only for a test that fails", function()
  local out = run [[
t.note "of no test"
t.test("passes", function() t.note "hidden" end)
t.test("fails", function() t.note "shown" error "x" end)]]
  t.ok(out:find("\n  during the test: shown\n", 1, true), out)
  t.ok(not out:find("hidden", 1, true) and not out:find("of no test", 1, true), out)
end)

-- Skipping -------------------------------------------------------------------------------------------------

t.test("skipped tests are counted, and their reasons are printed", function()
  local out, code = run [[
t.skip("one", function() error "run" end)
t.test("two", function() error "run" end, { skip = "not on Mondays" })
t.test("three", function() error "run" end, { skip = true })
t.test("four", function() t.skip "no network" error "run" end)
t.test("five", function() t.skip() error "run" end)
t.test("six", function() end, { skip = false })]]
  t.eq(out, "skipped some_test.lua: one\nskipped some_test.lua: two (not on Mondays)\nskipped some_test.lua: three\n"
    .. "skipped some_test.lua: four (no network)\nskipped some_test.lua: five\n1 passed, 0 failed, 5 skipped\n")
  t.eq(code, 0)
end)

-- Misuse ---------------------------------------------------------------------------------------------------

t.test("misuse raises at the line of the program", function()
  local out = run [[
local function say(f, ...) print(select(2, pcall(f, ...))) end
say(function() t.test(1, print) end)
say(function() t.test("x") end)
say(function() t.test("x", print, { second = 1 }) end)
say(function() t.test("x", print, { seconds = 0 }) end)
say(function() t.skip() end)
say(function() t.defer(print) end)
say(function() t.before() end)
say(function() t.describe("x") end)
loop.run(function() say(function() t.test("x", print) end) end)
t.test("outer", function()
  say(function() t.test("inner", print) end)
  say(function() t.before(print) end)
end)]]
  t.eq(out, [[
some_test.lua:3: bad argument #1 to 'test' (string expected, got number)
some_test.lua:4: bad argument #2 to 'test' (function expected, got nil)
some_test.lua:5: testing.test: option 'second' is unknown (did you mean 'seconds'?)
some_test.lua:6: testing.test: option 'seconds' must be a positive number of seconds, got 0
some_test.lua:7: bad argument #1 to 'skip' (string expected, got nil)
some_test.lua:8: testing.defer: no test is running
some_test.lua:9: bad argument #1 to 'before' (function expected, got nil)
some_test.lua:10: bad argument #2 to 'describe' (function expected, got nil)
some_test.lua:11: testing.test: the loop is already running; call it in the main chunk of a program
some_test.lua:13: testing.test: a test cannot contain another test
some_test.lua:14: testing.before: call it outside of tests
1 passed, 0 failed
]])
end)

t.test("the files of the guide pass", function()
  local dir, count = t.tmp(), 0
  local page <close> = assert(io.open(t.root .. "docs/testing.md"))
  for name, code in page:read("a"):gmatch "\n```lua\n%-%- ([%w_]+%.lua)\n(.-)\n```" do
    count = count + 1
    t.write(dir .. "/" .. name, code .. (name:find "_test" and '\nrequire("lio.testing").finish()\n' or ""))
  end
  t.eq(count, 6)
  for _, name in ipairs { "shop_test", "time_test", "groups_test", "stream_test", "cookie_test" } do
    local result = t.run(("cd %s && %s %s.lua"):format(t.quote(dir), t.lio(dir .. "/?.lua;" .. package.path), name))
    local has_passed = ("\n" .. result.out):find "\n%d+ passed, 0 failed[^\n]*\n$"
    t.ok(has_passed and result.err == "", name .. ": " .. result.out .. result.err)
  end
end)

t.test("finish cannot be called in a test", function()
  local out = run [[t.test("inside", function() t.finish() end)]]
  t.ok(out:find("some_test.lua:%d+: testing.finish: call it outside of tests"), out)
  t.ok(out:find("\n0 passed, 1 failed\n", 1, true), out)
end)

t.test("an error in describe keeps its text, and the group ends", function()
  local out = run [[
print(pcall(t.describe, "group", function() error("oops", 0) end))
t.test("outside", function() error "x" end)]]
  t.ok(out:find "^false\toops", out)
  t.ok(out:find("FAILED some_test.lua: outside\n", 1, true), out)
end)

t.finish()
