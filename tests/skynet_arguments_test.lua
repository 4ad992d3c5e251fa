-- Calls the functions of the Skynet compatibility API without arguments, and with each invalid value in each position.
-- A call must either succeed, or raise an error that contains the line of the call and the function's name as written
-- in the call.
--
-- The list does not contain `call`, `send`, `rawcall`, `rawsend`, `ret`, `tostring`, `trash` or `wait`. They run for
-- each message, and native code checks their arguments; its errors contain a position in the library.
--
-- A service compiles each call from a string, so that Lua can find the function's name for the error message, and runs
-- the call in a separate task.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

-- The calls, with correct arguments. `only` is the last position that gets invalid values. With `waits`, the call may
-- never return, and its task is then killed.
local CALLS <const> = [[
local CALLS <const> = {
  { "skynet.newservice", "'other'", "1" }, { "skynet.uniqueservice", "'other'", "1" },
  { "skynet.queryservice", "'other'", waits = true }, { "skynet.kill", "0" },
  { "skynet.localname", "'.name'" }, { "skynet.name", "fresh_name", "peer" }, { "skynet.register", "fresh_name" },
  { "skynet.getenv", "'key'" }, { "skynet.setenv", "fresh_name", "'value'" },
  { "skynet.packstring", "1", "'x'" }, { "skynet.pack", "1", "'x'" },
  { "skynet.unpack", "skynet.packstring(1)", only = 1 },
  { "skynet.fork", "noop", "1" }, { "skynet.sleep", "0", waits = true }, { "skynet.wakeup", "{}" },
  { "skynet.yield" }, { "skynet.timeout", "1000000", "noop" }, { "skynet.trace_timeout", "false" },
  { "skynet.dispatch", "'lua'", "noop", only = 1 }, { "skynet.register_protocol", "{}" },
  { "skynet.retpack", "1" }, { "skynet.response", "noop" },
  { "skynet.context" }, { "skynet.ignoreret" }, { "skynet.self" }, { "skynet.address", "1" }, { "skynet.genid" },
  { "skynet.error", "'x'" }, { "skynet.now" }, { "skynet.time" }, { "skynet.starttime" }, { "skynet.hpc" },
  { "skynet.init", "noop" }, { "skynet.pcall", "noop" }, { "skynet.info_func", "noop" },
  { "skynet.dispatch_unknown_request", "noop" }, { "skynet.dispatch_unknown_response", "noop" },
  { "skynet.request", "{ peer, 'lua', 'echo' }" }, { "skynet.select", "{ { peer, 'lua', 'echo' } }", "1" },
  { "skynet.traceproto", "'lua'", "false" }, { "skynet.tracetag" },
  { "skynet.task", "'x'" }, { "skynet.killthread", "'none'" }, { "skynet.stat", "'cpu'" }, { "skynet.mqlen" },
  { "skynet.endless" }, { "skynet.memlimit", "0" }, { "skynet.term", "999" },
  { "co.create", "noop" }, { "co.wrap", "noop" }, { "co.resume", "new_co" }, { "co.status", "new_co" },
  { "co.close", "new_co", ends = _VERSION ~= "Lua 5.4" }, { "co.thread", "new_co" },
  { "profile.start", "new_co" }, { "profile.stop", "new_co" }, { "profile.wrap", "noop" },
  { "profile.resume", "new_co" },
}
]]

local WALK <const> = [[
local argument_calls = require "tests.kit.argument_calls"
local WRONG <const> = {
  "nil", "true", "-1", "2.5", "0/0", "1/0", "-1/0", "1e300", "math.maxinteger", "math.mininteger", "''", "'x'",
  "'\\0\\255'", "{}", "{ x = 1 }", "{ 1, 'x' }", "noop", "new_co", "io.stdout",
}
local peer <const> = skynet.newservice "peer"
local count, calls, problems = 0, 0, 0
local FIXED <const> = {
  skynet = skynet, peer = peer, co = require "skynet.coroutine", profile = require "skynet.profile",
  noop = function(...) return ... end,
}
local function new_env()
  return setmetatable({}, { __index = function(_, name)
    if name == "fresh_name" then
      count = count + 1
      return ".name" .. count
    end
    if name == "new_co" then return coroutine.create(print) end
    local value = FIXED[name]
    if value == nil then return _G[name] end
    return value
  end })
end
local function problem(...)
  problems = problems + 1
  say("PROBLEM", ...)
end
local function judge(text, name, err)
  if argument_calls.is_precise(err, name) then return end
  if type(err) == "string" and err:find "^program:1: Unsupport type %w+ to serialize$" then return end
  problem(text, type(err), (tostring(err):gsub("\n.*", "")))
end
local function try(text, name, waits)
  calls = calls + 1
  local attempt = argument_calls.start(text, new_env(), function(err) judge(text, name, err) end)
  if not attempt.done and waits then
    argument_calls.kill(attempt)
  elseif not attempt.done then
    argument_calls.wait(attempt, 1000)
    if not attempt.done then problem(text, "waits for ever") end
  end
end
for _, one in ipairs(CALLS) do argument_calls.walk(one, WRONG, try) end
say("END", calls, problems)
]]

kit.test("an invalid argument of skynet is accepted or raises an error at the line of the call", {
  services = {
    peer = "setmetatable(CMD, { __index = function() return function(...) return ... end end }) serve()",
    other = "serve()",
  },
  main = CALLS .. WALK,
  drops_blocks = true,
  out = function(out)
    local list = {}
    for line in out:gmatch "PROBLEM\t([^\n]*)" do list[#list + 1] = line end
    t.eq(list, {})
    local calls = out:match "END\t(%d+)\t0\n"
    t.ok(calls and tonumber(calls) >= 900, calls or out)
  end,
})

t.finish()
