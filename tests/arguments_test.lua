-- Calls every public function without arguments, and with each invalid value in each position. A call must either
-- succeed, or raise an error that contains the line of the call and the function's name as written in the call.
--
-- Each call is compiled from a string, so that Lua can find the function's name for the error message. The objects that
-- a call uses are created for this call.

local t = require "tests.kit"
local http = require "lio.http.client"
local json = require "lio.json"
local loop = require "lio.loop"
local thread = require "lio.thread"
local web = require "lio.webserver"
local public_calls = require "tests.kit.public_calls"

local WRONG <const> = {
  "nil", "true", "-1", "2.5", "0/0", "1/0", "-1/0", "1e300", "math.maxinteger", "math.mininteger", "''", "'x'",
  "'\\0\\255'", "{}", "{ x = 1 }", "{ 1, 'x' }", "print", "coroutine.create(print)", "io.stdout",
}

local problems, calls
local walked = {} -- the names of the tested functions

-- Runs the call in the string `text`. If a loop is running, the call runs in a task, which is killed if it waits.
-- `given` is nil, or a table of further variables for the string.
local function try(text, name, given)
  calls = calls + 1
  local env, close = public_calls.new_env(given)
  local chunk = assert(load("local results = table.pack(" .. text .. ") return results", "=program", "t", env))
  local results
  local function run()
    local ok, result = pcall(chunk)
    if ok then
      results = result
    elseif type(result) ~= "string" then
      problems[#problems + 1] = text .. " raises a " .. type(result)
    elseif not result:find("^program:1: ") or not result:find("%f[%w_]" .. name .. "%f[^%w_]") then
      problems[#problems + 1] = text .. " raises " .. t.show(result)
    end
  end
  if loop.is_running() then
    local guard = thread.spawn(run)
    if thread.status(guard) == "waiting" then thread.kill(guard) end
    pcall(thread.wait, guard)
  else
    run()
  end
  close(results)
end

-- Calls a function, such as "net.connect" or "c:recv", with the correct arguments `...` (as strings), without
-- arguments, and with invalid arguments.
local function walk(given, call, ...)
  walked[call] = true
  local right = { ... }
  local object, name = call:match "^(.-)[.:]([%w_]+)$"
  try(("%s(%s)"):format(call, table.concat(right, ", ")), name, given)
  try(call .. "()", name, given)
  for at = 1, math.max(#right, 1) do
    for _, wrong in ipairs(WRONG) do
      local args = table.move(right, 1, #right, 1, {})
      args[at] = wrong
      try(("%s(%s)"):format(call, table.concat(args, ", ")), name, given)
    end
  end
  if not call:find(":", 1, true) then return end
  -- Calls the method with a dot, and with an invalid value as its object.
  for _, wrong in ipairs(WRONG) do
    local args = table.concat({ wrong, table.unpack(right) }, ", ")
    try(("%s.%s(%s)"):format(object, name, args), name, given)
  end
end

local function test(name, calls_of, run)
  t.test(name, function()
    problems, calls = {}, 0
    local function each(given)
      for _, one in ipairs(calls_of) do walk(given, table.unpack(one)) end
    end
    if run then run(each) else loop.run(function()
      each()
      -- Otherwise the loop would wait for pending timeouts.
      loop.stop(0)
    end) end
    if problems[1] then
      local shown = table.concat(problems, "\n  ", 1, math.min(#problems, 50))
      error(("%d of %d calls:\n  %s"):format(#problems, calls, shown), 0)
    end
    t.ok(calls >= #calls_of * (2 + #WRONG), calls)
  end, { leaks = true })
end

-- Sends one request for each call, because most of these methods can be called only once in a request.
local function in_requests(each)
  loop.run(function()
    local app = web.new()
    local call
    app:on_error(function() return 500, "" end)
    app:post("/", function(req, res) call(req, res) return "" end)
    local server = assert(app:listen "127.0.0.1:0")
    local plain_try = try
    try = function(text, name)
      local tried = false
      call = function(req, res)
        plain_try(text, name, { req = req, res = res })
        tried = true
      end
      http.post(server.url, { form = { a = 1 }, timeout = 60 })
      if not tried then problems[#problems + 1] = text .. " did not return" end
    end
    each()
    try = plain_try
    server:stop()
  end)
end

for _, list in ipairs(public_calls.lists) do
  local run = list.in_requests and in_requests or list.without_loop and function(each) each() end
  test(list[1], list.calls, run)
end

-- The functions that this suite does not test: those for code that drives a loop, which do not check their arguments,
-- and those that other suites test.
local DRIVERS <const> = {}
for name in ([[
  net.new net.step net.use timer.pause timer.resume timer.advance timer.real
  loop.attach loop.describe thread.describe lio.waker loop.own ]]):gmatch "%S+" do
  -- options_test tests `net.new`, and `net.use`, which replaces the functions of the module in this VM. selector_wait
  -- tests `lio.waker`. Only the service library calls `loop.own`. testing_clock tests the paused clock, which would
  -- stop the timers of this VM.
  DRIVERS[name] = true
end

-- Regression: each raised error leaked 56 bytes.
t.test("raised errors leak no memory", function()
  local resident = require "tests.kit.resident"
  local function raise(count)
    for _ = 1, count do pcall(json.decode) end
    collectgarbage()
    return resident()
  end
  local before = raise(1000)
  t.ok(raise(500000) - before < 8192, "KiB resident")
end, { resident = true })

t.test("every public function is tested", function()
  local missing = {}
  local SAME <const> = { ["http.head"] = "http.get", ["http.put"] = "http.post", ["http.patch"] = "http.post",
    ["http.delete"] = "http.get" }
  for prefix, module in pairs(public_calls.modules) do
    for name, f in pairs(type(module) == "table" and module or {}) do
      local call = prefix .. "." .. name
      -- A name that begins with an underscore is internal to the library.
      local known = walked[SAME[call] or call] or DRIVERS[call] or name:find "^_"
      if type(f) == "function" and not known then missing[#missing + 1] = call end
    end
  end
  table.sort(missing)
  t.eq(missing, {})
end)

t.finish()
