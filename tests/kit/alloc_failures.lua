--- Makes each allocation of a call fail in turn, in a build with the feature `alloc_failures`. Used by
-- tests/alloc_failures.lua.

local t = require "tests.kit"
local failures = require "lio.alloc_failures"
local loop = require "lio.loop"
local public_calls = require "tests.kit.public_calls"
local thread = require "lio.thread"

local M = {}

--- The numbers of swept calls, of failed allocations, and of calls that returned although an allocation had failed.
M.calls, M.points, M.returned = 0, 0, 0

--- The numbers of failed allocations by the error that came out.
M.errors = {}

-- A call with more allocations is not swept to its end.
local MOST <const> = 3000

-- Calls `f(...)`, whose allocation `n` fails. Returns whether it returned, its first result or its error, and whether
-- an allocation has failed.
local function call(n, fails_on, f, ...)
  local value, more = failures.call(n, fails_on, f, ...)
  local returned, _, failed = failures.report()
  return returned, value, more, failed > 0
end

local function check_error(name, n, value)
  if type(value) ~= "string" then
    -- An error of the library is a table with a message.
    t.ok(type(value) == "table" and value.message, ("%s: allocation %d raises %s"):format(name, n, t.show(value)))
    value = tostring(value.message)
  end
  t.ok(not value:find "internal error", ("%s: allocation %d raises %s"):format(name, n, value))
  local kind = value:find "not enough memory" and "not enough memory" or value:gsub("%d+", "#")
  M.errors[kind] = (M.errors[kind] or 0) + 1
end

-- One sweep: the call that `make` returns runs with a failure at its first allocation, at its second, and so on, until
-- none fails.
local function sweep(name, make, fails_on, run)
  for n = 1, MOST do
    local f, args, close = make()
    local returned, value, more, failed = run(n, fails_on, f, table.unpack(args, 1, args.n or #args))
    if failed then
      M.points = M.points + 1
      if returned then
        M.returned = M.returned + 1
        -- A function of the library may return nil and the error.
        if value == nil and more ~= nil then check_error(name, n, more)
        elseif M.on_returned then M.on_returned(name, n, fails_on) end
      else
        check_error(name, n, value)
      end
    end
    if close then close(returned, value, failed) end
    if not failed then return end
  end
  error(name .. " still allocates after " .. MOST .. " failures")
end

-- Returns the number of blocks that Rust code owns, the bytes of the VM, and the number of open descriptors.
local function measure()
  collectgarbage()
  collectgarbage()
  collectgarbage()
  return { (failures.live()), collectgarbage "count" * 1024 // 1, (select(2, t.descriptors())) }
end

local WHAT <const> = { "blocks of Rust code", "bytes of the VM", "descriptors" }
-- Memory that grows by less in each of several sweeps is a cache.
local ALLOWED <const> = { 3, 1024, 0 }

-- The result of the last `measure`.
local last

-- Runs sweeps until one leaves nothing behind. The first sweep may fill caches. Each of six sweeps would leave
-- something behind if there was a leak.
local function check_leaks(name, run)
  local grown
  last = last or measure()
  for _ = 1, 6 do
    run()
    local before = last
    last, grown = measure(), nil
    for i, what in ipairs(WHAT) do
      if last[i] > before[i] + ALLOWED[i] then grown = ("%d %s"):format(last[i] - before[i], what) end
    end
    if not grown then return end
  end
  error(("%s: each sweep leaves behind %s"):format(name, grown))
end

--- Sweeps a call: each of its allocations fails, once alone, once with all later allocations of the call. The result
-- must be an error, and nothing may leak. `make` returns the function, a list of arguments, and optionally a function
-- that closes the objects, which gets whether the call returned, its first result, and whether an allocation failed.
function M.sweep(name, make)
  M.calls = M.calls + 1
  check_leaks(name, function()
    sweep(name, make, false, call)
    sweep(name, make, true, call)
  end)
end

-- Calls `f(...)` in a task as `call` does. If the task waits, it is killed, and the call counts as having returned.
local function call_in_task(n, fails_on, f, ...)
  local results
  local function body(...) results = table.pack(call(n, fails_on, f, ...)) end
  local task
  local function spawn(...) task = thread.spawn(body, ...) end
  local spawned, problem = pcall(spawn, ...)
  -- If the task waits, `spawn` has returned before the call.
  local _, _, failed = failures.report()
  if not spawned then return false, problem, nil, failed end
  if thread.status(task) == "waiting" then
    thread.kill(task)
    pcall(thread.wait, task)
    return true, nil, nil, failed > 0
  end
  pcall(thread.wait, task)
  if not results then return true, nil, nil, false end
  return table.unpack(results, 1, 4)
end

--- Sweeps the call `text`, which uses variables of `kit.public_calls`, in tasks of the running loop. Only one
-- allocation of a call fails: if all later ones failed too, Lua could not even call the library's `__close`
-- metamethods.
function M.sweep_in_tasks(text)
  M.calls = M.calls + 1
  local function make()
    local env, close = public_calls.new_env()
    local f = assert(load("return " .. text, "=program", "t", env))
    -- The objects are created before the call.
    for variable in text:gsub("'[^']*'", ""):gmatch "%a[%w_]*" do local _ = env[variable] end
    return f, {}, function(_, value)
      local th = rawget(env, "th")
      if th then thread.kill(th) end
      close { value }
      -- Tasks that the call has started, and tasks that were killed, end.
      loop.sleep(0)
    end
  end
  check_leaks(text, function() sweep(text, make, false, call_in_task) end)
end

--- Sweeps the call `text`, which uses `req` and `res`, in handlers of requests. `request(handler)` sends a request
-- whose handler is `handler(req, res)`.
function M.sweep_in_requests(text, request)
  M.calls = M.calls + 1
  local f
  local function run(n, fails_on)
    local results
    request(function(req, res)
      local env = public_calls.new_env { req = req, res = res }
      f = assert(load("return " .. text, "=program", "t", env))
      results = table.pack(call(n, fails_on, f))
    end)
    t.ok(results, text .. ": the handler did not run")
    return table.unpack(results, 1, 4)
  end
  local function make() return nil, {} end
  check_leaks(text, function() sweep(text, make, false, run) end)
end

return M
