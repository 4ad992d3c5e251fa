-- The prompt of the executable: `lio` on a terminal, and `lio -i`. The tests of the terminal run the executable
-- (LIO_BIN) in both hosts; those of completions and of shown values run in the host.
-- The programs may use: app, loop, net, listener, server, t, i

local t = require "tests.kit"
local completion = require "lio.repl.completion"
local show = require "lio.repl.show"
local terminal = require "tests.kit.terminal"

local lio = t.quote(t.bin())

-- Returns the environment of a prompt whose history is in a new folder, and the path of the history.
local function fresh_history()
  local state = t.tmp()
  return "TERM=xterm XDG_STATE_HOME=" .. t.quote(state), state .. "/lio/history"
end

-- Types lines at a prompt, and expects after each line its text, if it has one, and the next prompt. `lines` contains
-- lines and `{ line, text }`. Ends with Ctrl-D. Returns the results of `terminal.run`.
local function at_prompt(lines, words, environment)
  local steps = { { "expect", "> " } }
  for _, one in ipairs(lines) do
    local line, text = one, nil
    if type(one) == "table" then line, text = one[1], one[2] end
    steps[#steps + 1] = { "send", line .. "\r" }
    if text then steps[#steps + 1] = { "expect", (text:gsub("\n$", "")) } end
    steps[#steps + 1] = { "expect", "\n> " }
  end
  steps[#steps + 1] = { "send", terminal.CTRL_D }
  return terminal.run(lio .. (words or ""), steps, environment or fresh_history())
end

t.test("expressions print their values, statements do not, and Ctrl-D ends with exit code 0", function()
  local out, code, is_plain = at_prompt {
    { "1 + 1, 'a\\n', nil", '\n2\t"a\\n"\tnil\n' },
    "x = 7",
    { "x", "\n7\n" },
    { "{ 1, { b = 'c' } } -- a comment", '\n{ 1, { b = "c" } }\n' },
    "",
    { "print('printed', 1)", "\nprinted\t1\n" },
  }
  t.ok(out:find "^lio %d+%.%d+%.%d+ %(Lua 5%.[45]%): http, json, lio, loop, net, thread, web are loaded; ", out)
  t.eq({ code, is_plain }, { 0, true })
end)

t.test("an error shows its message and its traceback, without the library, and the prompt continues", function()
  local out, code = at_prompt {
    { "local function f() error 'boom' end f()", "\nstdin:1: boom\nstack traceback:\n" },
    { "net.connect('127.0.0.1', 1, { timout = 1 })",
      "\nstdin:1: net.connect: option 'timout' is unknown (did you mean 'timeout'?)\nstack traceback:\n\tstdin:1: " },
    { "error { code = 1 }", "\n(error object is a table value: { code = 1 })\n" },
    { "error(setmetatable({}, { __tostring = function() return 'spoken' end }))", "\nspoken\n" },
    { "1 2", "\nstdin:1: " },
    { "'still here'", '\n"still here"\n' },
  }
  t.eq(code, 0)
  t.ok(not out:find("lio/", 1, true), out)
end)

t.test("an input continues in the next line while its expression is incomplete", function()
  local steps = { { "expect", "> " } }
  for _, lines in ipairs { { "1 +", "2", "3" }, { "{", "4 }", "{ 4 }" }, { "'a' ..", "'b'", '"ab"' },
    { "(function(x)", "return x end)(5)", "5" } } do
    table.move({ { "send", lines[1] .. "\r" }, { "expect", "\n" }, { "send", lines[2] .. "\r" },
      { "expect", "\n" .. lines[3] .. "\n> " } }, 1, 4, #steps + 1, steps)
  end
  steps[#steps + 1] = { "send", terminal.CTRL_D }
  local _, code = terminal.run(lio, steps, (fresh_history()))
  t.eq(code, 0)
end)

t.test("a byte that is not UTF-8 is ignored", function()
  local _, code = terminal.run(lio, {
    { "expect", "> " }, { "send", "12" }, { "expect", "12" }, { "bytes", "ff" }, { "expect", "> 12" },
    { "send", "3 + 1\r" }, { "expect", "\n124\n> " }, { "send", terminal.CTRL_D },
  }, (fresh_history()))
  t.eq(code, 0)
end)

t.test("inputs wait: sleeps, connections, requests to a server that was started at the prompt", function()
  local _, code = at_prompt {
    { "loop.sleep(0.01) print 'slept'", "\nslept\n" },
    "app = web.new()",
    "app:get('/', function() loop.sleep(0.01) return 'from the handler' end)",
    "server = app:listen(0)",
    { "(http.get(server.url)).body", '\n"from the handler"\n' },
    "listener = net.listen('127.0.0.1', 0)",
    "net.serve(listener, function(c) c:send(c:recv 'line' .. ' echoed\\n') end)",
    "c = net.connect(listener:address())",
    { "c:send 'hello\\n' print(c:recv 'line')", "\nhello echoed\n" },
  }
  t.eq(code, 0)
end)

t.test("tasks continue while the prompt waits, and print above it", function()
  local _, code = terminal.run(lio, {
    { "expect", "> " },
    { "send", "local p = print t = loop.fork(function() for i = 1, 2 do loop.sleep(0.01) p('tick ' .. i) end end)\r" },
    { "expect", "\n> " }, { "expect", "tick 1\n> " }, { "expect", "tick 2\n> " },
    { "send", "'alive'\r" }, { "expect", '\n"alive"\n' }, { "expect", "> " },
    { "send", terminal.CTRL_D },
  }, (fresh_history()))
  t.eq(code, 0)
end)

t.test("an incomplete input continues on the next line", function()
  local out, code = terminal.run(lio, {
    { "expect", "> " },
    { "send", "for i = 1, 2 do\r" }, { "expect", "do\n" },
    { "send", "print('line', i)\r" }, { "send", "end\r" },
    { "expect", "\nline\t1\nline\t2\n" }, { "expect", "> " },
    { "send", "text = [[a\r" }, { "send", "b]]\r" }, { "expect", "\n> " },
    { "send", "text\r" }, { "expect", '\n"a\\nb"\n' }, { "expect", "> " },
    { "send", terminal.CTRL_D },
  }, (fresh_history()))
  t.eq(code, 0, out)
end)

t.test("Ctrl-C ends the input that runs, or the line that is typed, and the prompt continues", function()
  local _, code = terminal.run(lio, {
    { "expect", "> " },
    { "send", "local _ <close> = setmetatable({}, { __close = function() print 'closed' end }) print 'waiting' "
      .. "loop.sleep(1000)\r" },
    { "expect", "\nwaiting\n" }, { "send", terminal.CTRL_C },
    { "expect", "closed\n" }, { "expect", "interrupted\n" }, { "expect", "> " },
    { "send", "print 'computing' while true do end\r" },
    { "expect", "\ncomputing\n" }, { "send", terminal.CTRL_C }, { "expect", "interrupted\n" }, { "expect", "> " },
    { "send", "half a li" }, { "expect", "half a li" }, { "send", terminal.CTRL_C }, { "expect", "\n> " },
    { "send", "'whole'\r" }, { "expect", '\n"whole"\n' }, { "expect", "> " },
    { "send", terminal.CTRL_D },
  }, (fresh_history()))
  t.eq(code, 0)
end)

t.test("Ctrl-C twice in a row ends two inputs that wait, and not the process", function()
  local steps = { { "expect", "> " } }
  for number = 1, 3 do
    for _, step in ipairs {
      { "send", ("print('wait %d') loop.sleep(1000)\r"):format(number) }, { "expect", ("\nwait %d\n"):format(number) },
      { "send", terminal.CTRL_C }, { "expect", "interrupted\n" }, { "expect", "> " },
    } do
      steps[#steps + 1] = step
    end
  end
  steps[#steps + 1] = { "send", terminal.CTRL_D }
  local _, code = terminal.run(lio, steps, (fresh_history()))
  t.eq(code, 0)
end)

t.test("Ctrl-D stops servers and tasks, and closes their variables", function()
  local out, code = at_prompt {
    "app = web.new() server = app:listen(0)",
    "t = loop.fork(function() local _ <close> = setmetatable({}, { __close = function() io.write 'closed' end }) "
      .. "loop.sleep(1000) end)",
    "loop.sleep(0)",
  }
  t.eq(code, 0)
  t.ok(out:find "closed$", out)
end)

t.test("os.exit ends the process from an input and from a task, and restores the terminal", function()
  local _, code, is_plain = terminal.run(lio, { { "expect", "> " }, { "send", "os.exit(3)\r" } }, (fresh_history()))
  t.eq({ code, is_plain }, { 3, true })
  _, code, is_plain = terminal.run(lio, {
    { "expect", "> " },
    { "send", "loop.timeout(0.05, function() os.exit(4) end)\r" },
  }, (fresh_history()))
  t.eq({ code, is_plain }, { 4, true })
end)

t.test("SIGTERM at the prompt ends the process and restores the terminal", function()
  local _, code, is_plain = terminal.run(lio, { { "expect", "> " }, { "signal", "SIGTERM" } }, (fresh_history()))
  t.eq({ code, is_plain }, { 0, true })
end)

-- History and completion --------------------------------------------------------------------------

t.test("inputs are stored in the history, and the next prompt recalls them", function()
  local environment, path = fresh_history()
  at_prompt({ "'first'", "for i = 1, 2 do\rend" }, nil, environment)
  local file = assert(io.open(path))
  t.eq(file:read "a", "#V2\n'first'\nfor i = 1, 2 do\\nend\n")
  file:close()
  t.eq(t.run("stat -c '%a %A' " .. t.quote(path)).out:match "^600 ", "600 ")
  local _, code = terminal.run(lio, {
    { "expect", "> " },
    { "send", terminal.UP }, { "send", terminal.UP }, { "send", terminal.UP }, { "expect", "'first'" },
    { "send", "\r" }, { "expect", '\n"first"\n' }, { "expect", "> " },
    { "send", terminal.CTRL_D },
  }, environment)
  t.eq(code, 0)
end)

t.test("without a writable place for the history, the prompt works and keeps the inputs of this process", function()
  local dir = t.tmp()
  t.write(dir .. "/lio", "a file in the place of the folder")
  for _, environment in ipairs { "TERM=xterm XDG_STATE_HOME=" .. dir, "-u XDG_STATE_HOME -u HOME TERM=xterm" } do
    local _, code = terminal.run(lio, {
      { "expect", "> " }, { "send", "'rem' .. 'embered'\r" }, { "expect", '\n"remembered"\n' }, { "expect", "> " },
      { "send", terminal.UP }, { "expect", "'rem' .. 'embered'" }, { "send", "\r" }, { "expect", '\n"remembered"\n' },
      { "expect", "> " }, { "send", terminal.CTRL_D },
    }, environment)
    t.eq(code, 0)
  end
end)

t.test("Tab completes names", function()
  local _, code = terminal.run(lio, {
    { "expect", "> " },
    { "send", "string.form" .. terminal.TAB }, { "expect", "string.format" },
    { "send", "('%d', 12)\r" }, { "expect", '\n"12"\n' }, { "expect", "> " },
    { "send", "s = 'abc'\r" }, { "expect", "\n> " },
    { "send", "s:rev" .. terminal.TAB .. "()\r" }, { "expect", '\n"cba"\n' }, { "expect", "> " },
    { "send", terminal.CTRL_D },
  }, (fresh_history()))
  t.eq(code, 0)
end)

-- Returns the completions of a text as "start word word …".
local function complete(text, globals)
  local start, words = completion.of(text, globals, 5)
  return start .. " " .. table.concat(words, " ")
end

t.test("completions are the names of globals, fields and methods, and keywords", function()
  local parent = { inherited = function() end, value = 1 }
  local object = setmetatable({ own = function() end }, { __index = parent })
  local globals = { thing = { object = object, _hidden = 1 }, other = 1, text = "x", ["not a name"] = 1, ["end"] = 1 }
  t.eq(complete("th", globals), "1 then thing")
  t.eq(complete("x = thi", globals), "5 thing")
  t.eq(complete("", globals), "1 other text thing")
  t.eq(complete("thing.", globals), "7 object")
  t.eq(complete("thing._", globals), "7 _hidden")
  t.eq(complete("f(thing.object.i", globals), "16 inherited")
  t.eq(complete("thing.object:", globals), "14 inherited own")
  t.eq(complete("text:rep", globals), "6 rep")
  t.eq(complete("none.x", globals), "6 ")
  t.eq(complete("f().x", globals), "6 ")
  t.eq(complete("1.x", globals), "4 ")
  t.eq(complete("a..", globals), "4 ")
  t.eq(complete("x = 12", globals), "5 ")
end)

t.test("completions are limited in number, and run no code of the program", function()
  local many = {}
  for index = 1, 9 do many["name" .. index] = 1 end
  t.eq(complete("name", many), "1 name1 name2 name3 name4 name5")
  local called = false
  local trap = setmetatable({}, { __index = function() called = true end })
  t.eq(complete("trap.x", { trap = trap }), "6 ")
  local circle = {}
  setmetatable(circle, { __index = circle })
  t.eq(complete("circle.x", { circle = circle }), "8 ")
  t.eq(called, false)
end)

-- Shown values --------------------------------------------------------------------------------------

t.test("values are shown with quotes, keys in order, and short tables on one line", function()
  t.eq(show.all(1, 1.5, true, nil), "1\t1.5\ttrue\tnil")
  t.eq(show.all 'a"b\\c\0\r\n\t\127', [["a\"b\\c\x00\r\n\t\x7f"]])
  t.eq(show.all "grün", '"grün"')
  t.eq(show.all "\xff", [["\xff"]])
  t.eq(show.all {}, "{}")
  t.eq(show.all { 1, 2, x = "y", [10] = true, ["a b"] = {} }, '{ 1, 2, [10] = true, ["a b"] = {}, x = "y" }')
  t.eq(show.all { ("long "):rep(10), ("text "):rep(10) },
    '{\n  "' .. ("long "):rep(10) .. '",\n  "' .. ("text "):rep(10) .. '",\n}')
  t.eq(show.all({ a = { ("x"):rep(80) } }, 1), '{\n  a = {\n    "' .. ("x"):rep(80) .. '",\n  },\n}\n1')
end)

t.test("__tostring is used, and an error in it is shown", function()
  t.eq(show.all(setmetatable({ 1 }, { __tostring = function() return "named" end })), "named")
  t.ok(show.all(setmetatable({}, { __tostring = function() error "no" end })):find "^%(__tostring: .*no%)$")
  t.eq(show.all(setmetatable({ 1 }, { __index = function() error "not called" end, __metatable = "locked" })), "{ 1 }")
end)

t.test("the shown text is bounded: depth, elements, bytes, circles", function()
  t.eq(show.all { { { { { { 1 } } } } } }, "{ { { { { {…} } } } } }")
  local list = {}
  for index = 1, 150 do list[index] = index end
  t.ok(show.all(list):find("  100,\n  … (50 more),\n}", 1, true))
  t.eq(show.all(("x"):rep(1500)), '"' .. ("x"):rep(1000) .. '"… (500 more bytes)')
  local circle = {}
  circle.self = circle
  t.eq(show.all(circle), "{ self = {…} (contains itself) }")
  local wide = {}
  for index = 1, 90 do
    wide[index] = {}
    for inner = 1, 90 do wide[index][inner] = inner end
  end
  t.ok(#show.all(wide) < 20000, #show.all(wide))
end)

-- `lio -i`, and where there is no terminal -----------------------------------------------------------

t.test("-i shows the prompt after the script and -e, with their globals", function()
  local path = t.write(t.tmp() .. "/script.lua", "y = x + 1 print('arg', ...)")
  local out, code = at_prompt({ { "y", "\n42\n" } }, " -i -e 'x = 41' " .. path .. " a b")
  t.eq(code, 0)
  t.ok(out:find("^arg\ta\tb\nlio "), out)
end)

t.test("-i is refused with --watch, --service and commands", function()
  for _, words in ipairs { "-i --watch x.lua", "-i --service x.lua", "-i serve ." } do
    local r = t.run(lio .. " " .. words)
    t.eq(r, { out = "", err = "lio: '-i' works only with a script and with '-e'; see lio --help\n", code = 1 })
  end
end)

t.test("with -i and no terminal, the inputs come from standard input", function()
  local r = t.run(lio .. " -i", "for i = 1, 2 do\nprint(i)\nend\n1 + 1\nerror 'no'\n")
  t.eq(r.code, 0)
  t.ok(r.out:find "\n1\n2\n2\n$", r.out)
  t.ok(r.err:find "^stdin:1: no\nstack traceback:\n", r.err)
end)

t.test("on a terminal without capabilities, lines are read without editing", function()
  local _, code = terminal.run(lio, {
    { "expect", "> " }, { "send", "1 + 1\r" }, { "expect", "\n2\n" }, { "expect", "> " }, { "send", terminal.CTRL_D },
  }, (fresh_history():gsub("TERM=xterm", "TERM=dumb")))
  t.eq(code, 0)
end)

t.finish()
