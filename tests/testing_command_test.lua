-- Tests of `lio test`: which files it runs, in separate processes, and what it prints. The programs may use: t

local t = require "tests.kit"

local PRELUDE <const> = 'local t = require "lio.testing"\n'

-- Writes files of tests, and other files (those whose names do not end with `_test.lua`), into a new folder.
local function folder(files)
  local dir = t.tmp()
  for name, body in pairs(files) do
    local inner = name:match "^(.*)/"
    if inner then t.run("mkdir -p " .. t.quote(dir .. "/" .. inner)) end
    t.write(dir .. "/" .. name, (name:find "_test%.lua$" and PRELUDE or "") .. body)
  end
  return dir
end

-- Runs `lio test` in a folder. Returns its output without the durations, its errors and its exit code.
local function run(files, arguments)
  local dir = type(files) == "string" and files or folder(files)
  local result = t.run(("cd %s && exec %s test %s"):format(t.quote(dir), t.quote(t.bin()), arguments or ""))
  return (result.out:gsub("  %(%d+%.%d s%)", "")), result.err, result.code, dir
end

local PASSES <const> = 't.test("passes", function() end)'

t.test("the files *_test.lua of a folder and its subfolders are run in order", function()
  local out, err, code = run {
    ["b_test.lua"] = PASSES, ["sub/a_test.lua"] = PASSES, ["a_test.lua"] = PASSES, ["helper.lua"] = "error 'run'",
    [".hidden/c_test.lua"] = "error 'run'",
  }
  t.eq(out, ("%-40s    1 ok\n%-40s    1 ok\n%-40s    1 ok\n3 passed, 0 failed\n"):format(
    "a_test.lua", "b_test.lua", "sub/a_test.lua"))
  t.eq({ err, code }, { "", 0 })
end)

t.test("folders and files can be named, and a file is run once", function()
  local out = run({ ["x/a_test.lua"] = PASSES, ["y/b_test.lua"] = PASSES, ["odd.lua"] = PRELUDE .. PASSES,
    ["z_test.lua"] = PASSES }, "y odd.lua y/b_test.lua")
  t.eq(out, ("%-40s    1 ok\n%-40s    1 ok\n2 passed, 0 failed\n"):format("odd.lua", "y/b_test.lua"))
end)

t.test("a failed test shows its line, and what it has printed", function()
  local out, _, code = run { ["a_test.lua"] = [[
print "of the file"
t.test("quiet", function() print "hidden" end)
t.describe("group", function()
  t.test("fails", function()
    io.stderr:write "printed\n"
    t.eq(1, 2)
  end)
end)]] }
  t.ok(out:find("a_test.lua                                  1 ok, 1 FAILED\n  FAILED group: fails\n"
    .. "    a_test.lua:7: values differ\n       got: 1\n      want: 2\n", 1, true), out)
  t.ok(out:find("    output:\n      printed\n    output:\n      of the file\n1 passed, 1 failed\n$"), out)
  t.eq(code, 1)
end)

t.test("--verbose shows every test and its output", function()
  local out = run({ ["a_test.lua"] = 't.test("one", function() print "said" end) t.skip("two")' }, "--verbose")
  t.ok(out:find("\n  ok one\n    output:\n      said\n  skipped two\n", 1, true), out)
  t.ok(out:find "\n1 passed, 0 failed, 1 skipped\n$", out)
end)

t.test("each file has a fresh process, with its path in arg and its folder in package.path", function()
  local out = run({
    ["sub/a_test.lua"] = [[
_G.shared = 1
t.test("a", function()
  t.eq(require "helper", "helped")
  t.eq(arg[0], "sub/a_test.lua")
end)]],
    ["sub/b_test.lua"] = 't.test("b", function() t.is_nil(_G.shared) end)',
    ["sub/helper.lua"] = 'return "helped"',
  })
  t.ok(out:find "\n2 passed, 0 failed\n$", out)
end)

t.test("--filter selects tests by a part of their names, without regard to case", function()
  local out = run({
    ["a_test.lua"] = 't.describe("Cart", function() t.test("adds", function() end) end) t.test("b", error) t.skip("c")',
    ["b_test.lua"] = 't.test("other", error)',
  }, "--filter 'cART: a'")
  t.ok(out:find "\n1 passed, 0 failed\n$", out)
  local _, err, code = run({ ["a_test.lua"] = PASSES }, "--filter nothing")
  t.eq({ err, code }, { "lio test: the name of no test contains 'nothing'\n", 1 })
end)

t.test("control characters in the names of tests are replaced", function()
  local out = run({ ["a_test.lua"] = 't.describe("a\\27[1m", function() t.test("b\\nc", function() end) end)' },
    "--verbose")
  t.ok(out:find("\n  ok a?[1m: b?c\n", 1, true), out)
end)

t.test("a file that cannot be run to its end counts as a failed test", function()
  local out, _, code = run {
    ["a_test.lua"] = "x = = 1",
    ["b_test.lua"] = PASSES .. ' error("oops", 0)',
    ["c_test.lua"] = 't.test("exits", function() os.exit(3) end)',
    ["d_test.lua"] = PASSES .. " os.exit(0)",
    ["e_test.lua"] = "",
    ["f_test.lua"] = 't.test("dies", function() os.execute "kill -KILL $PPID" end)',
  }
  for _, text in ipairs {
    "FAILED (the file)\n    a_test.lua:2: unexpected symbol", "FAILED (the file)\n    oops\n",
    "FAILED exits\n    the process ended with exit code 3 in this test\n",
    "FAILED (the file)\n    the process ended with exit code 0 before the end of the file\n",
    "FAILED (the file)\n    the file contains no test\n",
    "FAILED dies\n    the process ended with signal 9 in this test\n",
  } do
    t.ok(out:find(text, 1, true), text .. "\n" .. out)
  end
  t.ok(out:find "\n2 passed, 6 failed\n$", out)
  t.eq(code, 1)
end)

t.test("a file may end with finish, and a crash after its last test is a failure", function()
  local out = run {
    ["a_test.lua"] = PASSES .. " t.finish()",
    ["b_test.lua"] = PASSES .. " setmetatable({}, { __gc = function() os.exit(7) end })",
  }
  t.ok(out:find("the process ended with exit code 7 after its last test", 1, true), out)
  t.ok(out:find "\n2 passed, 1 failed\n$", out)
end)

t.test("a test that no time limit can end is killed", function()
  local out = run({ ["a_test.lua"] = [[
t.test("hangs", function()
  require("lio.loop").fork(function() while true do end end)
  require("lio.loop").sleep(60)
end)]] }, "--seconds 0.05")
  t.ok(out:find("FAILED hangs\n    the process was killed, because this test ran 5 s longer than its time limit\n", 1,
    true), out)
end)

t.test("--jobs runs files at the same time", function()
  -- Each test waits until the other file has been started.
  local body = [[
t.test("meets", function()
  io.open("%s", "w"):close()
  while true do
    local f <close> = io.open "%s"
    if f then break end
    require("lio.loop").sleep(0.005)
  end
end)]]
  local out = run({ ["a_test.lua"] = body:format("a", "b"), ["b_test.lua"] = body:format("b", "a") },
    "--jobs 2 --seconds 30")
  t.ok(out:find "\n2 passed, 0 failed\n$", out)
end)

t.test("--tap prints the Test Anything Protocol", function()
  local out, _, code = run({ ["a_test.lua"] = [[
t.test("one # of", function() end)
t.test("two", function() error("line 1\nline 2", 0) end)
t.skip "three"]] }, "--tap")
  t.eq(out, "TAP version 13\nok 1 - a_test.lua: one \\# of\nnot ok 2 - a_test.lua: two\n  ---\n  message: |\n"
    .. "    line 1\n    line 2\n    stack traceback:\n      a_test.lua:3: in function <a_test.lua:3>\n  ...\n"
    .. "ok 3 - a_test.lua: three # SKIP \n1..3\n# 1 passed, 1 failed, 1 skipped\n")
  t.eq(code, 1)
end)

t.test("--junit writes the results as XML", function()
  local out, _, _, dir = run({ ["a_test.lua"] = [[
t.test("one <&\"", function() print "said \1" end)
t.test("two", function() error("a < b", 0) end)
t.skip "three"]] }, "--junit out.xml")
  t.ok(out:find "\n1 passed, 1 failed, 1 skipped\n$", out)
  local f <close> = assert(io.open(dir .. "/out.xml"))
  local xml = f:read("a"):gsub('time="[%d.]+"', 'time=""'):gsub("\nstack traceback:\n[^\n]*</failure>", "</failure>")
  t.eq(xml, [[
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" skipped="1">
  <testsuite name="a_test.lua" tests="3" failures="1" skipped="1" time="">
    <testcase classname="a_test" name="one &lt;&amp;&quot;" file="a_test.lua" time="">
      <system-out>said ?
</system-out>
    </testcase>
    <testcase classname="a_test" name="two" file="a_test.lua" time="">
      <failure message="a &lt; b">a &lt; b</failure>
    </testcase>
    <testcase classname="a_test" name="three" file="a_test.lua" time="">
      <skipped message=""/>
    </testcase>
  </testsuite>
</testsuites>
]])
end)

t.test("--watch runs the tests again when a module that they load changes", function()
  local dir = folder {
    ["a_test.lua"] = 't.test("x", function() t.eq(require "value", 2) end)',
    ["value.lua"] = "return 1",
  }
  local child <close> = t.spawn(("env -C %s %s test --watch"):format(t.quote(dir), t.quote(t.bin())))
  child:expect "^0 passed, 1 failed$"
  child:expect "waiting for a change"
  t.write(dir .. "/value.lua", "return 2")
  child:expect "value.lua changed, restarting"
  child:expect "^1 passed, 0 failed$"
  child:kill "INT"
end)

t.test("usage mistakes are one line and a hint, and end with 1", function()
  local HINT <const> = "'lio test --help' shows the options\n"
  for arguments, message in pairs {
    ["--fliter x"] = "unrecognized option '--fliter' (did you mean '--filter'?)",
    ["--filter"] = "'--filter' needs a value",
    ["--jobs 0"] = "--jobs: an integer from 1 to 64 expected, got '0'",
    ["--jobs 2.5"] = "--jobs: an integer from 1 to 64 expected, got '2.5'",
    ["--seconds=x"] = "--seconds: a number from 0.001 to 86400 expected, got 'x'",
    ["empty"] = "no file *_test.lua in 'empty'",
    ["--junit no/where ."] = "--junit: no/where: No such file or directory",
  } do
    local out, err, code = run({ ["empty/x.lua"] = "", ["a_test.lua"] = PASSES }, arguments)
    t.eq({ out, err, code }, { "", "lio test: " .. message .. "\n" .. HINT, 1 }, arguments)
  end
  local _, err = run({}, "nowhere")
  t.ok(err:find "^lio test: cannot open 'nowhere': No such file", err)
  local out, _, code = run({}, "--help")
  t.ok(out:find "^usage: lio test %[DIR|FILE", out)
  t.eq(code, 0)
end)

t.test("a script named test is run by its path", function()
  local dir = t.tmp()
  t.write(dir .. "/test", "print('a script', ...)")
  for _, command in ipairs { "./test 1", "-- test 1" } do
    t.eq(t.run(("cd %s && %s %s"):format(t.quote(dir), t.quote(t.bin()), command)).out, "a script\t1\n")
  end
end)

t.test("the project's own suites run with it", function()
  local result = t.run(("cd %s && LUA_PATH='?.lua;;' %s test tests/json_test.lua --filter 'number'"):format(
    t.quote(t.root), t.quote(t.bin())))
  local passed = result.out:match "\n(%d+) passed, 0 failed\n$"
  t.ok(passed and tonumber(passed) > 0, result.out)
end)

t.finish()
