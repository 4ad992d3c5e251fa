-- If a boot fails, the program ends with exit code 1 and reports the cause on standard error, even if it ignores the
-- result of `start`.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Boots a system with a configuration table, whose fields are in the string `config`, and with the files of `services`
-- in the folder `dir`. The program ignores the result of `start`, and prints a line after the call.
local function boot(config, services, worker)
  local dir = kit.write { services = services, modules = { broken = "local = 1" } }
  return kit.program(string.format([[
    local dir = %q
    require "ltask.start" { core = { worker = %d }, service_path = dir .. "/?.lua", %s }
    io.write "went on\n"
  ]], dir, worker or 1, config), dir)
end

local services <const> = {
  main = "ltask.fork(function() say 'main' end)",
  raises = "error 'as it must'",
  raises_table = "error { code = 7 }",
  waits_and_raises = "ltask.sleep(1) error 'after a while'",
  requires = "require 'no.such.module'",
}

-- Each case: a name, the fields of the boot table, and the strings that standard error must contain.
for _, case in ipairs {
  { "a missing bootstrap service", "bootstrap = { 'absent' }",
    "the bootstrap service 'absent': cannot find service 'absent'" },
  { "a missing file: its names are on lines of their own", "bootstrap = { 'absent' }", "'absent':\n\tno file '" },
  { "a missing bootstrap service with an argument that may be a service", "bootstrap = { 'absent', 'main' }",
    "the bootstrap service 'absent' ('main' is its argument; several services are "
      .. '{ { name = "absent" }, { name = "main" } }): cannot find service' },
  { "a bootstrap service that raises", "bootstrap = { { name = 'raises' } }",
    "the bootstrap service 'raises': ", "raises.lua:1: as it must" },
  { "a raised table", "bootstrap = { { name = 'raises_table' } }", "the bootstrap service 'raises_table': " },
  { "a bootstrap service that raises after a wait", "bootstrap = { { name = 'waits_and_raises' } }",
    "the bootstrap service 'waits_and_raises': ", "waits_and_raises.lua:1: after a while" },
  { "a bootstrap service with a syntax error", "bootstrap = { { name = 'broken' } }",
    "the bootstrap service 'broken': ", "broken.lua:1: <name> expected near '='" },
  { "a unique service that raises", "bootstrap = { { name = 'raises', unique = true }, { name = 'main' } }",
    "the bootstrap service 'raises': ", "raises.lua:1: as it must" },
  { "a second service", "bootstrap = { { name = 'main' }, { name = 'raises' } }", "the bootstrap service 'raises': " },
  { "a missing service by name", "bootstrap = { absent = true, main = true }", "the bootstrap service 'absent': " },
  { "the number of a missing worker", "bootstrap = { { name = 'main', worker_id = 7 } }",
    "the bootstrap service 'main': ", "worker" },
  { "a missing logger", "bootstrap = { 'main' }, logger = { 'absent' }",
    "the logger 'absent': cannot find service 'absent'" },
  { "a logger that raises", "bootstrap = { 'main' }, logger = { name = 'raises' }",
    "the logger 'raises': ", "raises.lua:1: as it must" },
  { "root_initfunc that raises", "bootstrap = { 'main' }, root_initfunc = [[error 'in root']]",
    "root_initfunc: root_initfunc:1: in root" },
  { "root_initfunc with a syntax error", "bootstrap = { 'main' }, root_initfunc = 'local = 1'",
    "root_initfunc: root_initfunc:1: <name> expected near '='" },
  { "preload that raises", "bootstrap = { 'main' }, preload = [[error 'too early']]", "preload:1: too early" },
  { "preload with a syntax error", "bootstrap = { 'main' }, preload = 'local = 1'",
    "preload:1: <name> expected near '='" },
  { "preload that raises without a logger", "bootstrap = { 'main' }, logger = false, preload = [[error 'too early']]",
    "the bootstrap service 'main': preload:1: too early" },
  { "a missing exclusive service", "bootstrap = { 'main' }, exclusive = { 'absent' }",
    "the exclusive service 'absent': cannot find service 'absent'" },
  { "an exclusive service that raises", "bootstrap = { 'main' }, exclusive = { 'timer', 'raises' }",
    "the exclusive service 'raises': ", "raises.lua:1: as it must" },
  { "a lua_path that lacks a module", "bootstrap = { 'requires' }, lua_path = '/nowhere/?.lua'",
    "the bootstrap service 'requires': ", "module 'no.such.module' not found" },
  { "a service_path that lacks a service", "bootstrap = { 'main' }, service_path = '/nowhere/?.lua'",
    "the bootstrap service 'main': cannot find service 'main'", "/nowhere/main.lua" },
  { "a crash log that cannot be opened", "bootstrap = { 'main' }, crashlog = '/nowhere/crash.log'",
    "crashlog /nowhere/crash.log: " },
  { "a debug log that cannot be opened", "bootstrap = { 'main' }, debuglog = '/nowhere/debug.log'",
    "debuglog /nowhere/debug.log: " },
} do
  t.test("the program ends with exit code 1 and reports " .. case[1], function()
    for _, worker in ipairs(kit.workers) do
      local r = boot(case[2], services, worker)
      t.eq(r.code, 1, "exit code; standard error: " .. r.err)
      t.ok(not r.out:find "went on", r.out)
      for i = 3, #case do t.ok(r.err:find(case[i], 1, true), case[i] .. " is missing in: " .. r.err) end
    end
  end)
end

t.test("if a boot fails, the started services call their quit handlers, and the program continues", function()
  local dir = kit.write { services = {
    first = "local S = {} function S.quit() say 'quit' end return S", raises = services.raises,
  } }
  local r = kit.program(string.format([[
    local start = require "ltask.start"
    local path = %q .. "/?.lua"
    local ok, err = pcall(start, { service_path = path, bootstrap = { { name = "first" }, { name = "raises" } } })
    io.write(tostring(ok), " ", err:match "[^\n]*", "\n")
    -- Another system can start despite the failure.
    io.write(start { service_path = path, bootstrap = { { name = "one", source = "" } } }, "\n")
  ]], dir), dir)
  t.eq(r.err, "")
  t.eq(r.out, "quit\nfalse program.lua:3: ltask.start: the system cannot start: the bootstrap service 'raises': " .. dir
    .. "/raises.lua:1: as it must\n0\n")
  t.eq(r.code, 0)
end)

t.test("start returns the exit code that a service sets, and does not report it as a failed boot", function()
  local r = boot("bootstrap = { 'main' }", { main = "ltask.call(1, 'exit_code', 7)" })
  t.eq(r.err, "")
  t.eq(r.out, "went on\n")
  t.eq(r.code, 0)
end)

-- Tests that a boot does not fail if the system ends while its services start, with one worker and with two.
-- Regression: the exit code was 1 if a signal stopped an app with workers while it started.
local function ends_early(name, config, texts, out)
  t.test(name, function()
    for _, worker in ipairs(kit.workers) do
      local r = boot(config, texts, worker)
      t.eq(r.err, "")
      t.eq(r.out, out)
      t.eq(r.code, 0)
    end
  end)
end

ends_early("a boot does not fail if a service ends the system before the last service has started",
  "bootstrap = { { name = 'lasts' }, { name = 'quits' }, { name = 'main' } }", {
    lasts = "local S = {} function S.quit() ltask.sleep(5) say 'quit' end return S",
    quits = "ltask.call(1, 'quit_ltask')",
    main = "say 'started'",
  }, "quit\nwent on\n")

ends_early("a boot does not fail if the end of the system interrupts the start of a service",
  "bootstrap = { 'ends' }", { ends = "ltask.call(1, 'quit_ltask') ltask.sleep(1000) say 'not this'" }, "went on\n")

ends_early("a boot does not fail if a service spawns another service while the system ends",
  "bootstrap = { 'ends' }", { ends = "ltask.call(1, 'quit_ltask') ltask.spawn 'main'", main = "say 'started'" },
  "went on\n")

t.test("a boot fails if a service ends the system and then fails to start", function()
  local r = boot("bootstrap = { 'fails' }", { fails = "ltask.call(1, 'quit_ltask') error 'as it must'" })
  t.ok(r.err:find("the bootstrap service 'fails': ", 1, true), r.err)
  t.ok(r.err:find("fails.lua:1: as it must", 1, true), r.err)
  t.eq(r.code, 1)
end)

t.test("an error after the start is not a failed boot", function()
  local r = boot("bootstrap = { 'main' }", { main = "ltask.fork(function() error 'later' end)" })
  t.ok(r.err:find("main.lua:1: later", 1, true), r.err)
  t.eq(r.out, "went on\n")
  t.eq(r.code, 0)
end)

t.finish()
