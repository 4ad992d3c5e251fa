-- Calls every public function of `ltask` without arguments, and with each invalid value in each position. A call must
-- either succeed, or raise an error that contains the line of the call and the function's name as written in the call.
--
-- A service compiles each call from a string, so that Lua can find the function's name for the error message, and runs
-- the call in a separate task.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The calls, with correct arguments. `only` is the last position that gets invalid values. With `waits`, the call may
-- never return, and its task is then killed. With `ends`, the call ends its own task if it has no arguments.
local CALLS <const> = [[
local CALLS <const> = {
  { "ltask.call", "peer", "'echo'", "1" }, { "ltask.send", "peer", "'echo'", "1" },
  { "ltask.send_direct", "peer", "'echo'", "1" }, { "ltask.syscall", "peer", "'inspect'", "'memory'" },
  { "ltask.on_full", "'error'" }, { "ltask.dispatch", "{}" }, { "ltask.no_response" }, { "ltask.current_session" },
  { "ltask.raise_error", "peer", "0", "'x'" }, { "ltask.raise_error", "peer", "77", "'x'" },
  { "ltask.error", "peer", "0", "{}" }, { "ltask.error", "peer", "77", "{}" },
  { "ltask.suspend", "session", "noop", waits = true },
  { "ltask.async" }, { "a:request", "peer", "'echo'", "1" }, { "a:wait" },
  { "ltask.request", "{ peer, 'echo', 1 }" }, { "r:add", "{ peer, 'echo', 1 }" }, { "r:select", "1" }, { "r:close" },
  { "ltask.parallel", "{ { noop, 1 } }" },
  { "ltask.fork", "noop", "1" }, { "ltask.wait", "{}", waits = true }, { "ltask.wakeup", "{}", "1" },
  { "ltask.interrupt", "{}", "'x'" }, { "ltask.multi_wait", "{}", waits = true }, { "ltask.multi_wakeup", "{}", "1" },
  { "ltask.multi_interrupt", "{}", "'x'" }, { "ltask.running" }, { "ltask.current_token" },
  { "ltask.sleep", "0", waits = true }, { "ltask.timeout", "100000000", "noop" }, { "ltask.thread_info", "co" },
  { "ltask.spawn", "'other'", "1" }, { "ltask.spawn_service", "{ name = 'other', args = { 1 } }" },
  { "ltask.uniqueservice", "'other'", "1" }, { "ltask.queryservice", "'other'", waits = true },
  { "ltask.register", "fresh_name" }, { "ltask.kill", "peer_to_kill" }, { "ltask.servicepath", "path" },
  { "ltask.self" }, { "ltask.label" }, { "ltask.is_exclusive", "peer" }, { "ltask.worker_id" },
  { "ltask.worker_bind", "0" }, { "ltask.mainthread_run", "noop", "1" }, { "ltask.idle_handler", "noop" },
  { "ltask.touch_service", "peer" }, { "ltask.dispatch_wakeup" }, { "ltask.now" }, { "ltask.walltime" },
  { "ltask.counter" }, { "ltask.cpucost" }, { "ltask.timer_add", "0", "0" }, { "ltask.timer_update", "{}" },
  { "ltask.timer_sleep", "0", only = 0 }, { "ltask.debuglog", "'x'" }, { "ltask.mem_limit", "0" },
  { "ltask.mem_count", "{}" }, { "ltask.backtrace" }, { "ltask.get_pushlog" },
  { "ltask.pack", "1", "'x'" }, { "ltask.unpack", "ltask.pack(1)", only = 1 },
  { "ltask.unpack_remove", "ltask.pack(1)", only = 1 }, { "ltask.remove", "ltask.pack(1)", only = 1 },
  { "ltask.pushlog", "ltask.pack('x')", only = 1 },
  { "ltask.send_message", "peer", "0", "2", "ltask.pack(1)", only = 4 },
  { "ltask.send_message_direct", "peer", "0", "2", "ltask.pack(1)", only = 4 },
  { "ltask.message_receipt" },
  { "ltask.log.info", "'x'" }, { "ltask.log.error", "'x'" }, { "print", "'x'" }, { "require", "'ltask'" },
  { "coroutine.resume", "co" }, { "coroutine.wrap", "noop" }, { "coroutine.status", "co" },
  -- Since Lua 5.5, a call without arguments closes the running coroutine.
  { "coroutine.close", "co", ends = _VERSION ~= "Lua 5.4" },
}
]]

-- The functions of `lio.net.remote`, and the methods of its objects.
local REMOTE_CALLS <const> = [[
local CALLS <const> = {
  { "api.wrap", "nil" }, { "api.listen", "'127.0.0.1'", "0", "{}" }, { "api.bind", "'127.0.0.1'", "0", "{}" },
  { "api.connect", "'127.0.0.1'", "port", "{}" }, { "api.udp", "'127.0.0.1'", "0" },
  { "api.resolve", "'127.0.0.1'", "1" },
  { "api.accept", "listener" }, { "api.recv", "c", "10" },
  { "api.recv", "c", "'line'", "10" }, { "api.recv", "c", "'until'", "'x'", "10" },
  { "api.send", "c", "'x'", "'y'" }, { "api.sendfile", "c", "f", "0", "1" }, { "api.close", "c" },
  { "api.shutdown", "c", "'w'" }, { "api.timeout", "c", "1", "1" }, { "api.peer", "c" }, { "api.sock", "c" },
  { "api.option", "c", "'sndbuf'", "65536" }, { "api.wait_readable", "c", "0.01" }, { "api.wait_closed", "c", "0.01" },
  { "api.transfer", "c", "peer" }, { "api.give", "c", "peer" }, { "api.recvfrom", "u" },
  { "api.sendto", "u", "'x'", "'127.0.0.1'", "9" },
  { "api.serve", "listener", "noop", "{}" },
  { "c:recv", "10" }, { "c:send", "'x'" }, { "c:timeout", "1", "1" }, { "c:option", "'sndbuf'", "1" },
  { "c:shutdown", "'w'" }, { "c:peer" }, { "c:sock" }, { "c:is_closed" }, { "c:is_over" }, { "c:buffered" },
  { "c:close" }, { "listener:accept" }, { "listener:take_waiting" }, { "listener:address" },
  { "listener:timeout", "1" }, { "listener:close" },
  { "u:recvfrom" }, { "u:sendto", "'x'", "'127.0.0.1'", "9" }, { "u:timeout", "1" }, { "u:address" },
  { "u:option", "'sndbuf'", "1" }, { "u:close" },
}
for _, one in ipairs(CALLS) do one.waits = true end
]]

-- The names in docs/ltask.md that are not tested, and the reasons.
local LEFT_OUT <const> = {
  quit = "ends the service; takes no arguments",
  recv_message = "removes messages that the service library would handle; takes no arguments",
  poplog = "removes entries that the logger would write; takes no arguments",
  schedule_message = "only the service library's main function may call it; takes no arguments",
  eventinit = "moves the service to its own thread; takes no arguments",
  eventreset = "needs eventinit; takes no arguments",
  mainthread_enter = "moves the service to the main thread; takes no arguments",
  mainthread_leave = "moves the service off the main thread; takes no arguments",
  mainthread_yield = "for the main function; takes no arguments",
  signal_handler = "assigned by the program, not called",
  on_idle = "assigned by the program, not called",
}

-- Runs each call of `CALLS`.
local WALK <const> = [[
local argument_calls = require "tests.kit.argument_calls"
local WRONG <const> = {
  "nil", "true", "-1", "2.5", "0/0", "1/0", "-1/0", "1e300", "math.maxinteger", "math.mininteger", "''", "'x'",
  "'\\0\\255'", "{}", "{ x = 1 }", "{ 1, 'x' }", "noop", "co", "io.stdout",
}
-- Messages of errors that are not about arguments. Programs may depend on these messages.
local KNOWN <const> = {
  "^program:1: Unsupport type %w+ to serialize$", "^program:1: No receipt$", "^program:1: Can't send message: ",
  "^program:1: module '[^\n]*' not found:", "^{service:%d+} is dead$",
  "^service %d+ %(%w+%) has no handler for request '[^\n]*'$",
  "^service %d+ %(%w+%): the name of the request is missing %(nil%)$",
}
local folder <const> = ...
local peer <const> = ltask.spawn "peer"
local count = 0
local MAKE <const> = {}
local api, bound
function MAKE.api()
  api = api or require "lio.net".remote()
  return api
end
function MAKE.port()
  bound = bound or assert(MAKE.api().listen("127.0.0.1", 0))
  return (select(2, bound:address()))
end
function MAKE.c() return assert(MAKE.api().connect("127.0.0.1", MAKE.port())) end
function MAKE.listener() return assert(MAKE.api().listen("127.0.0.1", 0)) end
function MAKE.u() return assert(MAKE.api().udp("127.0.0.1", 0)) end
function MAKE.f() return io.tmpfile() end
function MAKE.a() return ltask.async() end
function MAKE.r() return ltask.request() end
function MAKE.co() return coroutine.create(print) end
function MAKE.session() return require "ltask.core".new_session() end
function MAKE.peer_to_kill() return ltask.spawn "peer" end
function MAKE.fresh_name() count = count + 1 return "name" .. count end
local FIXED <const> = {
  net = require "lio.net", peer = peer, web = ltask.spawn "lio.webservice", ltask = ltask, path = folder .. "/?.lua",
  noop = function(...) return ... end,
}

local function new_env()
  return setmetatable({}, { __index = function(env, name)
    local value = FIXED[name]
    if value == nil then value = _G[name] end
    if value == nil and MAKE[name] then
      value = MAKE[name]()
      rawset(env, name, value)
    end
    return value
  end })
end

local calls, problems, left = 0, 0, 0 -- `left`: calls that were killed after a timeout

local function is_known(text)
  for _, pattern in ipairs(KNOWN) do
    if text:find(pattern) then return true end
  end
  return false
end

local function judge(text, name, err)
  if type(err) == "string" and is_known(err) or argument_calls.is_precise(err, name) then return end
  problems = problems + 1
  say(("PROBLEM %s raises %s %s"):format(text, type(err), tostring(err):gsub("\n.*", "")))
end

local function try(text, name, waits)
  calls = calls + 1
  -- Creates the values first, because creating some of them waits.
  local env = new_env()
  for what in text:gmatch "%a[%w_]*" do
    if MAKE[what] then local _ = env[what] end
  end
  local attempt = argument_calls.start(text, env, function(err) judge(text, name, err) end)
  if not attempt.done and waits and not api then
    ltask.call(peer, "echo")
    if not attempt.done then argument_calls.kill(attempt) end
  elseif not attempt.done then
    argument_calls.wait(attempt, waits and 4 or 1000)
    if not attempt.done then
      if waits then
        left = left + 1
      else
        problems = problems + 1
        say("PROBLEM " .. text .. " waits for ever")
      end
      argument_calls.kill(attempt)
    end
  end
  pcall(ltask.message_receipt)
  ltask.servicepath(FIXED.path)
end

local function walk(one)
  argument_calls.walk(one, WRONG, try)
  local object, name = one[1]:match "^(.*):([%w_]+)$"
  if not object then return end
  -- Calls the method with a dot, and with an invalid value as its object.
  for _, wrong in ipairs(WRONG) do
    local args = table.concat({ wrong, table.unpack(one, 2) }, ", ")
    try(("%s.%s(%s)"):format(object, name, args), name, one.waits)
  end
end

for _, one in ipairs(CALLS) do walk(one) end
]]

-- Passes invalid fields to `spawn_service`, invalid arguments to `net.remote`, and invalid fields to the request
-- `start` of `lio.webservice`.
local OTHERS <const> = [[
for _, field in ipairs { "name", "args", "label", "source", "initfunc", "chunkname", "worker_id", "unique" } do
  local name = field == "name" and "" or "name = 'other', "
  for _, wrong in ipairs(WRONG) do
    try(("ltask.spawn_service { %s%s = %s }"):format(name, field, wrong), "spawn_service")
  end
end
for _, wrong in ipairs(WRONG) do try(("net.remote(%s)"):format(wrong), "remote") end

-- No call starts a server, because the folder does not exist.
local start <const> = "ltask.call(web, 'start', %s)"
for _, wrong in ipairs(WRONG) do try(start:format(wrong), "start") end
for _, field in ipairs { "addr", "port", "mode", "home", "route", "cgi", "tunnel", "options", "unknown" } do
  local others = "home = '/no/folder', " .. (field == "port" and "" or "port = 0, ")
  for _, wrong in ipairs(WRONG) do
    try(start:format(("{ %s%s = %s }"):format(others, field, wrong)), "start")
  end
end
]]

local REPORT <const> = 'say("END", calls, problems, left)'


-- Fails if `out`, the output of a system, reports problems or fewer than `least` calls.
local function judge(out, least)
  local list = {}
  for line in out:gmatch "PROBLEM ([^\n]*)" do list[#list + 1] = line end
  t.eq(list, {})
  local calls, problems, left = out:match "END\t(%d+)\t(%d+)\t?(%d*)"
  t.eq(problems, "0")
  t.ok(tonumber(calls) >= least, calls)
  -- A call that was killed after a timeout shows nothing about its arguments.
  t.ok((tonumber(left) or 0) < calls / 2, left)
end

t.test("an invalid argument of ltask is accepted or raises an error at the line of the call", function()
  local out, _, code = kit.system({
    main = CALLS .. WALK .. OTHERS .. REPORT,
    drops_blocks = true,
    services = {
      peer = "local S = {} function S.echo(...) return ... end return S",
      other = "return { echo = print }",
    },
  }, 1)
  judge(out, 2700)
  t.eq(code, 0)
end)

t.test("an invalid argument of lio.net.remote is accepted or raises an error at the line of the call", function()
  local out, _, code = kit.system({
    main = REMOTE_CALLS .. WALK .. REPORT,
    services = { peer = "local S = {} function S.echo(...) return ... end return S" },
  }, 1)
  judge(out, 2000)
  t.eq(code, 0)
end)

t.test("every public name in docs/ltask.md is tested", function()
  local file <close> = assert(io.open(t.root .. "docs/ltask.md"))
  local page = file:read "a"
  local walked, missing, names = {}, {}, 0
  for call in CALLS:gmatch '{ "([^"]+)"' do walked[call:match "^ltask%.(.*)$" or call:match ":(.*)$" or call] = true end
  for _, heading in ipairs { "### `ltask`, the core", "### The service library" } do
    local first = select(2, page:find("\n" .. heading .. "\n", 1, true))
    local section = page:sub(first + 1, (page:find("\n### ", first, true)))
    for column in section:gmatch "\n| ([^|]*) |" do
      for name in column:gmatch "`([%w_.]+)`" do
        names = names + 1
        if not walked[name] and not LEFT_OUT[name] then missing[#missing + 1] = name end
      end
    end
  end
  t.eq(missing, {})
  t.ok(names >= 80, names)
end)

kit.workers = { 1 }

kit.test("a request that cannot be sent raises an error, and no task waits for it", {
  services = { peer = "local S = {} function S.echo(...) return ... end return S" },
  main = [[
    local function raised(f, ...)
      local ok, err = pcall(f, ...)
      say(ok, (tostring(err.message or err):gsub("%S*/main%.lua", "main.lua")))
    end
    local peer = ltask.spawn "peer"
    local a = ltask.async()
    raised(function() a:request("x", "echo") end)
    raised(function() a:request(peer, "echo", say) end)
    a:wait()
    local r = ltask.request():add { peer, "echo", say } :add { peer, "echo", 2 }
    raised(function() for _ in r:select() do end end)
    -- An error object that a table's `__pairs` raises is not changed.
    local odd = setmetatable({}, { __pairs = function() error { message = "odd" } end })
    raised(function() a:request(peer, "echo", odd) end)
    raised(function() ltask.raise_error(peer, 1.5, "x") end)
    raised(function() table.sort({ 1, 2 }, function() ltask.spawn "peer" end) end)
    raised(ltask.spawn_service, { name = "peer", worker_id = 9 })
    say(ltask.spawn_service { name = "peer", worker_id = 0, label = 5 } > 0)
  ]],
  out = {
    "false\tmain.lua:7: bad argument #1 to 'request' (number expected, got string)",
    "false\tmain.lua:8: Unsupport type function to serialize",
    "false\tmain.lua:11: Unsupport type function to serialize",
    "false\todd",
    "false\tmain.lua:15: bad argument #2 to 'raise_error' (number has no integer representation)",
    "false\tmain.lua:16: spawn: cannot wait here: inside 'sort', which cannot yield, called at main.lua:16",
    "false\tservice 'peer': worker must be 0 to 0, not 9",
    "true",
  },
})

-- No call starts a system, because the service does not exist.
local START <const> = [==[
local start = require "ltask.start"
local WRONG <const> = {
  "true", "-1", "2.5", "0/0", "1/0", "-1/0", "1e300", "math.maxinteger", "math.mininteger", "''", "'\\0\\255'", "{}",
  "{ x = 1 }", "{ 1, 'x' }", "print", "coroutine.create(print)", "io.stdout",
}
local FIELDS <const> = {
  "service_path", "lua_path", "lua_cpath", "bootstrap", "logger", "exclusive", "preload", "root_initfunc",
  "generation", "grace", "core", "worker", "queue", "queue_sending", "max_service", "external_queue", "log_queue",
  "crashlog", "debuglog", "full", "watchdog", "max_run_time", "mainthread", "unknown",
}
local calls, problems = 0, 0
local function try(text)
  calls = calls + 1
  local ok, err = pcall(assert(load("local code = " .. text .. " return code", "=program", "t", _ENV)))
  err = tostring(err)
  if ok or not err:find "^program:1: " or not err:find("start", 1, true) then
    problems = problems + 1
    print("PROBLEM " .. text .. " " .. (ok and "starts" or err))
  end
end
_ENV.start = start
try "start()"
for _, wrong in ipairs(WRONG) do try(("start(%s)"):format(wrong)) end
for _, field in ipairs(FIELDS) do
  for _, wrong in ipairs(WRONG) do
    local before = field == "bootstrap" and "" or "bootstrap = { { name = 'missing' } }, "
    try(("start { %s%s = %s }"):format(before, field, wrong))
    try(("start { %score = { %s = %s } }"):format(before, field, wrong))
  end
end
print("END", calls, problems)
]==]

t.test("an invalid field of ltask.start raises an error at the line of the call", function()
  local r = kit.program(START)
  t.eq(r.code, 0)
  judge(r.out, 750)
end)

t.finish()
