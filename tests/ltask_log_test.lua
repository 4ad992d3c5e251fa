-- The log: log.info, log.error and print of services, the default logger's lines, and a custom logger.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local stamp <const> = "^%[%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d%.%d%d%]"

kit.test("log.info writes to standard output, log.error to standard error, with time, level, id and label", {
  services = { talker = [[
    local S = {}
    function S.talk()
      ltask.log.info("hello", 1, nil, true, setmetatable({}, { __tostring = function() return "object" end }))
      ltask.log.error("trouble", 2.5)
      ltask.log.info()
      return ltask.self()
    end
    return S
  ]] },
  main = [[ say("id", ltask.call(ltask.spawn "talker", "talk")) ]],
  err = false,
  out = function(out, err)
    local id = out:match "id\t(%d+)\n"
    local info, errors
    for _, line in ipairs(kit.lines(out)) do
      if line:find "hello" then info = line end
    end
    for _, line in ipairs(kit.lines(err)) do
      if line:find "trouble" then errors = line end
    end
    t.ok(info and info:find(stamp .. "%[INFO%]%(" .. id .. " talker%) hello\t1\tnil\ttrue\tobject$"), out)
    t.ok(errors and errors:find(stamp .. "%[ERROR%]%(" .. id .. " talker%) trouble\t2%.5$"), err)
  end,
})

kit.test("print in a service does the same as log.info", {
  main = [[
    print("printed", 1, nil, {} ~= nil)
    print "second"
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 2, out)
    t.ok(lines[1]:find(stamp .. "%[INFO%]%(%d+ main%) printed\t1\tnil\ttrue$"), lines[1])
    t.ok(lines[2]:find(stamp .. "%[INFO%]%(%d+ main%) second$"), lines[2])
  end,
})

kit.test("lines of a service keep their order, and lines of different services are not mixed", {
  services = { talker = [[
    local me = ...
    local S = {}
    function S.talk(n)
      for i = 1, n do ltask.log.info("from", me, i, ("x"):rep(100)) end
    end
    return S
  ]] },
  main = [[
    local async = ltask.async()
    for i = 1, 8 do async:request(ltask.spawn("talker", i), "talk", 500) end
    async:wait()
  ]],
  out = function(out)
    local last, count = {}, 0
    for _, line in ipairs(kit.lines(out)) do
      local who, i = line:match(stamp .. "%[INFO%]%(%d+ talker%) from\t(%d)\t(%d+)\t" .. ("x"):rep(100) .. "$")
      t.ok(who, line)
      t.eq(tonumber(i), (last[who] or 0) + 1)
      last[who], count = tonumber(i), count + 1
    end
    t.eq(count, 4000)
  end,
})

kit.test("long entries, and entries with newlines or any other bytes, are written completely", {
  main = [[
    ltask.log.info(("long"):rep(50000) .. " end")
    ltask.log.info "one\ntwo\nthree"
    ltask.log.info "zero \0 and \xff after"
    ltask.log.info "100% %s %d"
  ]],
  out = function(out)
    t.ok(out:find(("long"):rep(1000), 1, true) and out:find("long end\n", 1, true))
    t.ok(out:find("one\ntwo\nthree\n", 1, true), "several lines")
    t.ok(out:find("zero \0 and \xff after\n", 1, true), "bytes")
    t.ok(out:find("100% %s %d\n", 1, true), "percent signs")
  end,
})

t.test("log entries are written immediately", function()
  for _, worker in ipairs(kit.workers) do
    local child <close>, dir = kit.spawn({ main = [[
      ltask.log.info "early"
      while not io.open(... .. "/go") do ltask.sleep(1) end
      say "later"
    ]] }, worker)
    child:expect "early$"
    kit.go(dir)
    child:expect "^later$"
  end
end)

-- A typical logger for ltask: a service that empties the log with poplog.
local own_logger <const> = [[
  local S = {}
  local function write()
    while true do
      local now, id, p, n = ltask.poplog()
      if not now then break end
      local level, text = ltask.unpack_remove(p, n)
      say("OWN", math.abs(now - os.time() * 100) < 6000, math.type(id), level, text)
    end
  end
  ltask.fork(function()
    while true do
      write()
      ltask.sleep(1)
    end
  end)
  function S.quit() write() end
  return S
]]

kit.test("a custom logger gets the time, the id, the level and the text of an entry", {
  services = { mylogger = own_logger },
  config = { logger = { "mylogger" } },
  main = [[
    ltask.log.info "by info"
    ltask.log.error "by error"
    print "by print"
    ltask.sleep(5)
    ltask.log.info "at the end"
  ]],
  out = function(out, err)
    t.eq(err, "")
    local lines = kit.lines(out)
    t.eq(#lines, 4, out)
    for i, want in ipairs {
      "info\t.*by info$", "error\t.*by error$", "info\t.*by print$", "info\t.*at the end$",
    } do
      t.ok(lines[i]:find("^OWN\ttrue\tinteger\t" .. want), lines[i])
    end
  end,
})

-- A logger that takes entries only when it gets the request `write`.
local slow_logger <const> = [[
  local S = {}
  function S.write()
    local count = 0
    while true do
      local now, id, p, n = ltask.poplog()
      if not now then return count end
      count = count + 1
      local level, text = ltask.unpack_remove(p, n)
      say(level, id == 0 and "system" or "service", text)
    end
  end
  return S
]]

-- Regression: 60,000 refused sends wrote 66,844 lines in a second, and the queue of a slow logger was not limited.
kit.test("a full log drops lines, and one line reports their number", {
  services = { slow = slow_logger },
  config = { logger = { "slow" }, log_queue = 10 },
  main = [[
    local slow = ltask.queryservice "slow"
    ltask.call(slow, "write")
    for i = 1, 250 do ltask.log.error("line", i) end
    say(ltask.call(slow, "write"))
    ltask.log.info "after"
    say(ltask.call(slow, "write"))
  ]],
  out = function(out)
    local want = {}
    for i = 1, 10 do want[i] = "error\tservice\tline\t" .. i end
    want[11] = "error\tsystem\t240 log lines dropped: the logger is slower than the services"
    want[12] = "11"
    want[13] = "info\tservice\tafter"
    want[14] = "1"
    t.eq(kit.lines(out), want)
  end,
})

kit.test("entries of pushlog are also dropped if the log is full, and no call fails", {
  services = { slow = slow_logger },
  config = { logger = { "slow" }, log_queue = 3 },
  main = [[
    local slow = ltask.queryservice "slow"
    ltask.call(slow, "write")
    for i = 1, 5 do ltask.pushlog(ltask.pack("error", "line " .. i)) end
    say(ltask.call(slow, "write"))
  ]],
  out = {
    "error\tservice\tline 1", "error\tservice\tline 2", "error\tservice\tline 3",
    "error\tsystem\t2 log lines dropped: the logger is slower than the services", "4",
  },
})

-- Returns a list of the messages on standard error, without the lines that report repetitions, and the sum of these
-- repetitions.
local function repetitions(err)
  local lines, sum = {}, 0
  for _, line in ipairs(kit.lines(err)) do
    local text = line:match(stamp .. "%[ERROR%]%(%d+ main%) (.*)$")
    t.ok(text, line)
    local count = text:match "^last message repeated (%d+) times?$"
    if count then sum = sum + tonumber(count) else lines[#lines + 1] = text end
  end
  return lines, sum
end

kit.test("repetitions of a line are counted until another line follows", {
  main = [[
    for _ = 1, 60000 do ltask.log.error "no room" end
    ltask.log.error "another"
    for _ = 1, 3 do ltask.log.error "at the end" end
  ]],
  err = false,
  out = function(_, err)
    local lines, sum = repetitions(err)
    t.eq(lines, { "no room", "another", "at the end" })
    t.eq(sum, 59999 + 2)
  end,
})

t.test("the number of repetitions is written after a second if no other line follows", function()
  for _, worker in ipairs(kit.workers) do
    local child <close>, dir = kit.spawn({ main = [[
      for _ = 1, 5 do ltask.log.error "same" end
      while not io.open(... .. "/go") do ltask.sleep(1) end
      ltask.log.error "later"
    ]] }, worker)
    -- Reads both lines before the system writes another line.
    local err = child:line() .. "\n" .. child:line() .. "\n"
    kit.go(dir)
    err = err .. child:all()
    local times = {}
    for _, line in ipairs(kit.lines(err)) do
      local h, m, s, cs = line:match "(%d%d):(%d%d):(%d%d)%.(%d%d)%]"
      times[#times + 1] = ((h * 60 + m) * 60 + s) * 100 + cs
    end
    t.eq(#times, 3, err)
    t.ok((times[2] - times[1]) % 8640000 >= 99, err)
    local lines, sum = repetitions(err)
    t.eq(lines, { "same", "later" })
    t.eq(sum, 4)
  end
end)

kit.test("repeated lines of print are all written", {
  main = [[ for _ = 1, 100 do print "same" end ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 100)
    for _, line in ipairs(lines) do t.ok(line:find(stamp .. "%[INFO%]%(%d+ main%) same$"), line) end
  end,
})

-- Regression: the files of the service library were loaded without line numbers and names, so messages contained "?: in
-- function <?:24>" and "?:-1: attempt to …". Lua 5.5 shows "in global 'error'" in place of "in function 'error'".
kit.test("errors contain the names of the library's functions, and tracebacks no frames of the library", {
  services = { bad = "error 'cannot start'", fails = "local S = {} function S.f() error 'in f' end return S" },
  main = [[
    local function trace(f, ...)
      local text = tostring(select(2, pcall(f, ...)))
      say(text:find("?:", 1, true), text:find("'?'", 1, true))
      return text
    end
    local text = trace(ltask.spawn, "bad")
    say(text:find("ltask/", 1, true), text:find("service 1", 1, true))
    say((text:gsub("[^\n%s]*/", ""):gsub("in global '", "in function '"):gsub("\n\t?", " | ")))
    trace(ltask.call, ltask.spawn "fails", "f")
    say((select(2, pcall(ltask.parallel, 5)):gsub("^.-main%.lua:%d+: ", "")))
    say((select(2, pcall(ltask.request, 5)):gsub("^.-main%.lua:%d+: ", "")))
  ]],
  out = {
    "nil\tnil", "nil\tnil",
    "bad.lua:1: cannot start | in service 4 (bad), stack traceback: | [C]: in function 'error' | "
      .. "bad.lua:1: in main chunk | in service 3 (main), stack traceback: | main.lua:2: in local 'trace' | "
      .. "main.lua:6: in function main.lua:1> | [C]: in function 'xpcall' | main.lua:17: in function main.lua:16>",
    "nil\tnil",
    "bad argument #1 to 'parallel' (table expected, got number)",
    "bad argument #1 to 'request' ({ address, … } expected)",
  },
})

t.test("if standard output and standard error are one file, the lines are in the order of the log", function()
  local dir, program = kit.write { main = [[
    for i = 1, 3 do
      ltask.log.info("info", i)
      ltask.log.error("error", i)
    end
  ]] }
  t.write(dir .. "/program.lua", program)
  local r = t.run(("cd %s && %s program.lua >all.log 2>&1; cat all.log"):format(t.quote(dir), kit.host()))
  local seen = {}
  for text in r.out:gmatch "%(3 main%) ([^\n]*)" do seen[#seen + 1] = text end
  t.eq(seen, { "info\t1", "error\t1", "info\t2", "error\t2", "info\t3", "error\t3" })
end)

kit.test("an error that is a table is logged with its fields, in limited length", {
  main = [[
    ltask.fork(function() error { code = 7, at = { "x", 1 } } end)
    ltask.fork(function() error(setmetatable({}, { __tostring = function() return "my own text" end })) end)
    ltask.fork(function() error { ("x"):rep(5000) } end)
    ltask.sleep(0)
    local ok, e = pcall(ltask.call, ltask.self(), "fail")
    say(ok, e.message, e.err.code)
  ]] .. "\nend function S.fail() error { code = 8 } end do",
  out = function(out, err)
    t.eq(kit.said(out), { "false\t{ code = 8 }\t8" })
    t.ok(err:find("[ERROR](3 main) { at = { \"x\", 1 }, code = 7 }\nin service 3 (main), stack", 1, true), err)
    t.ok(err:find("[ERROR](3 main) my own text\n", 1, true), err)
    t.ok(err:find("%(3 main%) { \"x+… %(4000 more bytes%)…\n") or err:find("%(3 main%) {\n  \"x+…"), err)
    t.ok(#err < 3000, #err)
  end,
  err = false,
})

-- Regression: the message that notifies the logger of entries is sent only once until the log is empty. A full mailbox
-- refused it like other messages.
kit.test("the logger still gets entries after its mailbox was full", {
  services = { own_logger = [[
    local core = require "ltask.core"
    local S, written = {}, 0
    local function flush()
      while true do
        local now, _, _, p, n = core.poplog()
        if not now then break end
        local _, text = ltask.unpack_remove(p, n)
        say((text:match "[^\t]*$"))
        written = written + 1
      end
    end
    core.system_calls().log_ready = flush
    -- Blocks this service's thread until the file `path` exists.
    function S.hold(who, path)
      ltask.send(who, "held")
      repeat local f = io.open(path) until f
    end
    function S.add() end
    function S.written() return written end
    function S.quit() flush() end
    core.set_log_reader()
    flush()
    return S
  ]] },
  config = { core = { queue = 4 }, logger = { "own_logger" } },
  main = [[
    local dir = ...
    function S.held() ltask.wakeup "held" end
    local logger = ltask.queryservice "own_logger"
    ltask.send(logger, "hold", ltask.self(), dir .. "/go")
    ltask.wait "held"
    repeat until not pcall(ltask.send, logger, "add")
    print "while it is full"
    io.open(dir .. "/go", "w"):close()
    local function written(n)
      repeat
        ltask.sleep(1)
        local ok, count = pcall(ltask.call, logger, "written")
      until ok and count >= n
    end
    written(1)
    print "later"
    written(2)
    say "the end"
  ]],
  out = { "while it is full", "later", "the end" },
})

t.finish()
