-- Runs scheduler systems for the ltask_*_test suites. A table describes a system; the kit writes it to a temporary
-- folder, boots it in a child process of the same host, and checks its output. Sources may use `ltask` and `say(...)`,
-- which prints its values at once, separated by tabs. Both are defined on the first line of a source, so that its line
-- numbers do not change.
-- Invariant: no system outlives its test; a test whose system does not end in time fails with the output.
-- The programs may use: ltask, say, S, raw, root, boot, start, config, code

local t = require "tests.kit"

local kit = {}

--- The numbers of workers with which every behaviour is tested. Under memcheck, which runs one thread at a time, each
-- boot takes seconds, and one worker would run the same code as two.
kit.workers = os.getenv "LIO_MEMCHECK" and { 2 } or { 1, 2 }

--- The source of `say(...)`, which prints a line with one write, because several threads print at the same time.
-- (`print` uses a write for each value and for the end of the line.)
kit.say = "local function say(...) local v = table.pack(...) for i = 1, v.n do v[i] = tostring(v[i]) end "
  .. "io.stdout:write(table.concat(v, '\\t', 1, v.n) .. '\\n') io.stdout:flush() end "

local prelude <const> = "local ltask = require 'ltask' " .. kit.say

-- The body of the main service is a task, so its handlers in `S` answer while the body runs. The system ends when the
-- body returns or fails.
local main_before <const> = prelude .. "local S = {} local function body(...) "
local main_after <const> = [[

end
local function trace(e) return debug.traceback(tostring(e)) end
local args = table.pack(...)
ltask.fork(function()
  local ok, e = xpcall(body, trace, table.unpack(args, 1, args.n))
  if not ok then io.stderr:write("main failed: ", e, "\n") end
  ltask.send(1, "quit_ltask")
end)
return S
]]

-- A small service library that uses only the documented low-level functions, as other libraries for ltask do. Only the
-- main coroutine of a service may call `raw.post` and `raw.next`, because they yield.
local raw_prelude <const> = prelude .. ([[
local raw = {}
function raw.receipt()
  local kind, a, b = ltask.message_receipt()
  if kind == 2 or kind == 3 then return kind, a and ltask.unpack_remove(a, b) end
  return kind, a
end
function raw.post(to, session, type, ...)
  local p, n
  if select("#", ...) > 0 then p, n = ltask.pack(...) end
  ltask.send_message(to, session, type, p, n)
  coroutine.yield()
  return raw.receipt()
end
function raw.take()
  local from, session, type, p, n = ltask.recv_message()
  if not from then return end
  if p then return from, session, type, ltask.unpack_remove(p, n) end
  return from, session, type
end
function raw.next()
  while true do
    local m = table.pack(raw.take())
    if m.n > 0 then return table.unpack(m, 1, m.n) end
    coroutine.yield()
  end
end
]]):gsub("\n", " ")

-- The functions for root, which start and remove services through schedule messages.
local raw_root <const> = ([[
local root = require "ltask.root"
function raw.spawn(label, ...)
  local kind, id = raw.post(0, 0, 0)
  assert(kind == 4, "NEW was not answered")
  assert(root.init_service(id, label, SOURCES[label], "@" .. label, ...))
  local started = raw.post(id, 0, 1, "start")
  assert(started == 1, "the first message was not taken")
  return id
end
function raw.bury(id)
  local pairs_of_dead = root.close_service(id) or {}
  raw.post(0, id, 1)
  return pairs_of_dead
end
]]):gsub("\n", " ")

-- ---------------------------------------------------------------------------------------------
-- Lua values as source code

local function literal(v)
  if type(v) ~= "table" then return string.format("%q", v) end
  local out = {}
  for k, value in pairs(v) do
    out[#out + 1] = "[" .. literal(k) .. "] = " .. literal(value)
  end
  return "{ " .. table.concat(out, ", ") .. " }"
end

--- Formats a string, a number, a boolean, or a table of these (which may be nested) as Lua source code.
kit.literal = literal

-- ---------------------------------------------------------------------------------------------
-- Running

--- Returns the shell command that runs a script in the interpreter of this suite, as `lio` of tests/kit.lua does. The
-- script can require the modules whose names begin with `ltask`, even if they are not built in.
function kit.host(lua_path) return t.lio(lua_path) .. [[ -e "require 'lio'"]] end

-- Seconds, which only a program that hangs reaches. Under memcheck and ThreadSanitizer, programs are slow, and a killed
-- one gets no report.
local is_slow <const> = os.getenv "LIO_MEMCHECK" or os.getenv "LIO_TEST_SANITIZER" == "thread"
local LIMIT <const> = is_slow and 200 or 60

--- Writes `source` as program.lua into `dir` (default: a new folder), and runs it in a child process in that folder.
-- Returns the table of t.run. Raises an error after `seconds` (default: LIMIT). If `drops_blocks` is true, the program
-- may end without `ltask.remove` for each block of `ltask.pack`: LeakSanitizer does not report them.
function kit.program(source, dir, seconds, drops_blocks)
  dir = dir or t.tmp()
  t.write(dir .. "/program.lua", source)
  local known = t.root .. "tests/lsan_blocks.supp:print_suppressions=0"
  local env = drops_blocks and "env " .. t.quote("LSAN_OPTIONS=suppressions=" .. known) or ""
  local r = t.run(string.format("cd %s && timeout -k 1 %g %s %s program.lua",
    t.quote(dir), seconds or LIMIT, env, kit.host()))
  if r.code == 124 then
    error(string.format("the system did not end in %g s; it printed:\n%s%s",
      seconds or LIMIT, r.out, r.err), 0)
  end
  return r
end

--- Writes the files of a system. Returns the folder and the source of the program that boots it. `spec.main` is the
-- body of the main service. It is called with the folder and the number of workers, and the system ends when it
-- returns. `spec.services` maps names to the sources of other services, `spec.modules` maps names to the sources of
-- files without the prelude, and `spec.config` contains fields of the boot table. The table's `core` gets `worker`, and
-- a watchdog limit of one minute unless `spec.config` sets a limit: on a busy machine, a service may make no progress
-- for seconds. For `spec.drops_blocks`, see kit.program.
function kit.write(spec, worker)
  local dir = t.tmp()
  for name, source in pairs(spec.services or {}) do
    t.write(dir .. "/" .. name .. ".lua", prelude .. source)
  end
  for name, source in pairs(spec.modules or {}) do
    t.write(dir .. "/" .. name .. ".lua", source)
  end
  if spec.main then t.write(dir .. "/main.lua", main_before .. spec.main .. main_after) end
  local config = { bootstrap = { { name = "main", args = { dir, worker } } }, service_path = dir .. "/?.lua" }
  for k, v in pairs(spec.config or {}) do config[k] = v end
  config.core = { worker = worker, watchdog = not config.watchdog and 60 or nil }
  for k, v in pairs(spec.config and spec.config.core or {}) do config.core[k] = v end
  return dir, ([[
local config = %s
config.lua_path = %s .. package.path
config.lua_cpath = package.cpath
local code = require 'ltask.start' (config)
if math.type(code) == 'integer' then os.exit(code, true) end
]]):format(literal(config), literal(dir .. "/?.lua;"))
end

--- Boots the system of `spec` (see kit.write) with `worker` workers. Returns the system's output, its errors, its exit
-- code, and the table of t.run.
function kit.system(spec, worker)
  local dir, program = kit.write(spec, worker or 1)
  local r = kit.program(program, dir, spec.seconds, spec.drops_blocks)
  return r.out, r.err, r.code, r
end

--- Returns the source of a program that runs a system with only the low-level modules. `spec.root` is the source of
-- root, which may use `raw`, `root`, `WORKERS` and `SOURCES`. `spec.services` maps labels to sources, for
-- `raw.spawn(label)`. `spec.init` contains fields for bootstrap.init. `spec.before` is code that runs before the system
-- and may use `boot`. `spec.run` replaces `boot.run()`.
function kit.raw_program(spec, worker)
  local sources, workers = {}, string.format("local WORKERS = %d ", worker)
  for label, source in pairs(spec.services or {}) do sources[label] = workers .. raw_prelude .. source end
  local init = { worker = worker }
  for k, v in pairs(spec.init or {}) do init[k] = v end
  local root = workers .. raw_prelude .. "local SOURCES = " .. literal(sources):gsub("\\\n", "\\n") .. " "
    .. raw_root .. spec.root
  return kit.say .. ([[
local boot = require 'ltask.bootstrap'
local SOURCES = %s
boot.init(%s)
boot.init_timer()
boot.new_service('root', %s, '@root', 1)
boot.init_root(1)
local function start(id)
  local p, n = boot.pack 'start'
  boot.post_message { from = 1, to = id, session = 0, type = 1, message = p, size = n }
end
start(1)
%s
%s
]]):format(literal(sources), literal(init), literal(root), spec.before or "", spec.run or "boot.run()")
end

--- Runs the program of kit.raw_program. Returns the same values as kit.system.
function kit.raw_system(spec, worker)
  local r = kit.program(kit.raw_program(spec, worker or 1), nil, spec.seconds)
  return r.out, r.err, r.code, r
end

--- Boots the system of `spec` in the background, for a test that reads its output and errors while it runs. `main` gets
-- the folder as `...`, so it can wait for `kit.go(dir)` with `while not io.open(... .. "/go") do`. Returns the child,
-- which must be declared `<close>`, and the folder.
function kit.spawn(spec, worker)
  local dir, program = kit.write(spec, worker)
  t.write(dir .. "/program.lua", program)
  return t.spawn(("timeout -k 1 %g env -C %s %s program.lua"):format(LIMIT, t.quote(dir), kit.host())), dir
end

--- Creates the file `go`, for which a system waits, in the system's folder.
function kit.go(dir) t.write(dir .. "/go", "") end

-- ---------------------------------------------------------------------------------------------
-- Tests

--- Returns a list of the nonempty lines of `s`.
function kit.lines(s)
  local list = {}
  for line in s:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

--- Returns a list of the lines that services printed, without the lines of the log and of tracebacks.
function kit.said(out)
  local list = {}
  for _, line in ipairs(kit.lines(out)) do
    if not line:find "^[%[%s]" and not line:find "^stack traceback" then list[#list + 1] = line end
  end
  return list
end

local function judge(spec, out, err, code, worker)
  if spec.err == nil then
    t.eq(err, "", "standard error; the output was\n" .. out)
  elseif type(spec.err) == "string" and not err:find(spec.err) then
    error("standard error does not match " .. t.show(spec.err) .. "\n   got: " .. t.show(err), 0)
  end
  if type(spec.out) == "table" then
    t.eq(kit.lines(out), spec.out, "output")
  elseif spec.out then
    spec.out(out, err, worker)
  end
  t.eq(code, spec.code or 0, "exit code")
end

--- For each number of workers, runs a test that boots the system of `spec` and checks its results. `spec.out` is a
-- list of the lines of its output, or a function that is called with the output, the errors and the number of workers.
-- `spec.err` is a pattern for its errors (default: it prints no errors; false: they are not checked). `spec.code` is
-- its exit code (default 0). If `spec.root` replaces `spec.main`, the system has only the low-level modules.
-- `spec.resident` and `spec.signals`: see t.test.
function kit.test(name, spec)
  for _, worker in ipairs(kit.workers) do
    t.test(string.format("%s [%d worker%s]", name, worker, worker > 1 and "s" or ""), function()
      local boot = spec.root and kit.raw_system or kit.system
      local out, err, code = boot(spec, worker)
      judge(spec, out, err, code, worker)
    end, { resident = spec.resident, signals = spec.signals })
  end
end

return kit
