-- What the ltask_*_test suites share: a scheduler system described by a table is written to a
-- temporary folder, booted in a child process of the same host, and judged by what it prints.
-- Sources may use `ltask` and `say(...)`, which prints its values at once, tab between; both are
-- put before a source's first line, so that its line numbers stay.
-- Invariant: no system outlives its test; one that does not end in time fails with what it printed.
-- Known to programs: ltask, say, S, raw, root, boot, start, config, code

local t = require "tests.kit"

local kit = {}

--- The numbers of workers that every behaviour is tested with.
kit.workers = { 1, 2 }

--- The text of `say(...)`: one write for a line. Services of several threads print at once, and `print` writes the
-- values and the end of the line one after another.
kit.say = "local function say(...) local v = table.pack(...) for i = 1, v.n do v[i] = tostring(v[i]) end "
  .. "io.stdout:write(table.concat(v, '\\t', 1, v.n) .. '\\n') io.stdout:flush() end "

local prelude <const> = "local ltask = require 'ltask' " .. kit.say

-- The main service's body is a task, so that its handlers in `S` answer while it runs; the system
-- ends after it, however it ends.
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

-- A service library of a few lines, on the documented low-level functions alone: what somebody
-- else's library for ltask stands on. `raw.post` and `raw.next` are for a service's main coroutine.
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

-- Root's part: start and clear away services through schedule messages.
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
-- Lua values as source text

local function literal(v)
  if type(v) ~= "table" then return string.format("%q", v) end
  local out = {}
  for k, value in pairs(v) do
    out[#out + 1] = "[" .. literal(k) .. "] = " .. literal(value)
  end
  return "{ " .. table.concat(out, ", ") .. " }"
end

--- A table of strings, numbers, booleans and such tables as Lua source.
kit.literal = literal

-- ---------------------------------------------------------------------------------------------
-- Running

--- The shell command that runs a script in the interpreter that runs this suite, as `lio` of tests/kit.lua. Modules
-- whose names begin with `ltask` can be required there even if they are not built in.
function kit.host(lua_path) return t.lio(lua_path) .. [[ -e "require 'lio'"]] end

local LIMIT <const> = 60

--- Writes `source` as program.lua into `dir` (default: a fresh folder), and runs it in a process
-- of its own, in that folder. Returns t.run's table. `seconds`: how long it may take (default 60: only what hangs
-- takes that long, however busy the machine is).
function kit.program(source, dir, seconds)
  dir = dir or t.tmp()
  t.write(dir .. "/program.lua", source)
  local r = t.run(string.format("cd %s && timeout -k 1 %g %s program.lua",
    t.quote(dir), seconds or LIMIT, kit.host()))
  if r.code == 124 then
    error(string.format("the system did not end in %g s; it printed:\n%s%s",
      seconds or LIMIT, r.out, r.err), 0)
  end
  return r
end

--- Writes a system's files. Returns the folder and the text of the program that boots it.
-- `spec.main`: the main service's body, called with the folder and the number of workers, the
-- system ends after it; `spec.services`: further files
-- by name; `spec.modules`: the same without the prelude; `spec.config`: keys for the boot table
-- (`core` is filled in with `worker`, and the watchdog waits a minute unless it is configured: on a busy machine a
-- service may well stand still for seconds).
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

--- Boots the system of `spec` (see kit.write) with that many workers.
-- Returns what it wrote to its output and to its errors, its exit code, and t.run's table.
function kit.system(spec, worker)
  local dir, program = kit.write(spec, worker or 1)
  local r = kit.program(program, dir, spec.seconds)
  return r.out, r.err, r.code, r
end

--- The program text of a system on the low-level modules alone. `spec.root`: root's source, with
-- `raw`, `root`, `WORKERS` and `SOURCES`; `spec.services`: sources by label, for `raw.spawn(label)`;
-- `spec.init`: keys for bootstrap.init; `spec.before`: program text before it runs (`boot` is
-- there); `spec.run`: instead of `boot.run()`.
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

--- Runs such a program. Results as kit.system's.
function kit.raw_system(spec, worker)
  local r = kit.program(kit.raw_program(spec, worker or 1), nil, spec.seconds)
  return r.out, r.err, r.code, r
end

--- Boots the system of `spec` in the background, for a test that waits for what it prints, both to its output and to
-- its errors, before it lets it go on: `...` in `main` is the folder, and `while not io.open(... .. "/go") do` waits
-- for `kit.go(dir)`. Returns the child, to be declared `<close>`, and the folder.
function kit.spawn(spec, worker)
  local dir, program = kit.write(spec, worker)
  t.write(dir .. "/program.lua", program)
  return t.spawn(("timeout -k 1 %g env -C %s %s program.lua"):format(LIMIT, t.quote(dir), kit.host())), dir
end

--- Lets a system that waits for the file `go` in its folder go on.
function kit.go(dir) t.write(dir .. "/go", "") end

-- ---------------------------------------------------------------------------------------------
-- Tests

--- The lines of a text.
function kit.lines(s)
  local list = {}
  for line in s:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

--- The lines that services printed themselves: not those of the log, and no tracebacks.
function kit.said(out)
  local list = {}
  for _, line in ipairs(kit.lines(out)) do
    if not line:find "^[%[%s]" and not line:find "^stack traceback" then list[#list + 1] = line end
  end
  return list
end

local function judge(spec, out, err, code, worker)
  if spec.err == nil then
    t.eq(err, "", "what it wrote to its errors, after the output\n" .. out)
  elseif type(spec.err) == "string" and not err:find(spec.err) then
    error("its errors do not match " .. t.show(spec.err) .. "\n   got: " .. t.show(err), 0)
  end
  if type(spec.out) == "table" then
    t.eq(kit.lines(out), spec.out, "output")
  elseif spec.out then
    spec.out(out, err, worker)
  end
  t.eq(code, spec.code or 0, "exit code")
end

--- A test per number of workers: boots `spec` and judges it. `spec.out`: the lines it prints, or a
-- function of its output, its errors and the number of workers; `spec.err`: a pattern for its errors
-- (default: there are none; false: whatever); `spec.code`: its exit code (default 0).
-- `spec.root` in place of `spec.main` makes it a system on the low-level modules; `spec.resident` as t.test's option.
function kit.test(name, spec)
  for _, worker in ipairs(kit.workers) do
    t.test(string.format("%s [%d worker%s]", name, worker, worker > 1 and "s" or ""), function()
      local boot = spec.root and kit.raw_system or kit.system
      local out, err, code = boot(spec, worker)
      judge(spec, out, err, code, worker)
    end, { resident = spec.resident })
  end
end

return kit
