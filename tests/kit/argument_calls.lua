-- For the suites that call functions with invalid arguments: which calls they make, and which errors are precise. The
-- suites' programs load this file in a service.

local ltask = require "ltask"
local task = require "lio.task"

local M = {}

-- `start(text, env, judge)`: starts a task that runs the call `text` with the globals `env`, and calls `judge(err)` if
-- the call raises. Returns an attempt, whose field `done` is true when the call has ended.
function M.start(text, env, judge)
  local chunk = assert(load("local results = table.pack(" .. text .. ") return results", "=program", "t", env))
  local attempt = {}
  attempt.task = task.spawn(function()
    local ok, err = pcall(chunk)
    if attempt.is_killed then return end
    if not ok then judge(err) end
    attempt.done = true
    if attempt.waiter then ltask.wakeup(attempt.waiter) end
  end)
  return attempt
end

-- `wait(attempt, centiseconds)`: waits until the call has ended, but at most this time.
function M.wait(attempt, centiseconds)
  local waiter = {}
  attempt.waiter = waiter
  ltask.timeout(centiseconds, function() if not attempt.done then ltask.wakeup(waiter) end end)
  ltask.wait(waiter)
end

-- `kill(attempt)`: kills the task of a call that has not ended.
function M.kill(attempt)
  attempt.is_killed = true
  return task.kill(attempt.task)
end

-- `walk(one, wrong, try)`: calls `try(text, name, waits)` for the call `one` with its correct arguments, without
-- arguments, and with each value of the list `wrong` in each position. `one` has the function, followed by the correct
-- arguments, as Lua code. Its field `only` is the last position that gets invalid values. If its field `waits` is true,
-- the call may never return; `ends` means the same for the call without arguments.
function M.walk(one, wrong, try)
  local call, right = one[1], { table.unpack(one, 2) }
  local name = call:match "[%w_]+$"
  try(("%s(%s)"):format(call, table.concat(right, ", ")), name, one.waits)
  try(call .. "()", name, one.waits or one.ends)
  for at = 1, one.only or math.max(#right, 1) do
    for _, value in ipairs(wrong) do
      local args = table.move(right, 1, #right, 1, {})
      args[at] = value
      try(("%s(%s)"):format(call, table.concat(args, ", ")), name, one.waits)
    end
  end
end

-- `is_precise(err, name)` returns whether the error names the function `name` and the line of the call, which is line 1
-- of the chunk `program`. An error from another service is a table whose traceback contains that line; the
-- frames of the library, and so the function, are left out.
function M.is_precise(err, name)
  local named = "%f[%w_]" .. name .. "%f[^%w_]"
  if type(err) == "string" then return err:find "^program:1: " ~= nil and err:find(named) ~= nil end
  if type(err) ~= "table" or not err.message then return false end
  local shown = tostring(err)
  return shown:find("program:1:", 1, true) ~= nil and not err.message:find "^[^\n]-%.lua:%d+:"
end

return M
