-- Runs a program's file in a service, as the executable runs it: `arg` and `...` hold its arguments, `print` writes
-- to standard output and not to the log, and an error is told with its traceback. Called by the services that
-- own a loop, in a task.

local debug <const> = debug or require "lio.debug"
local M = {}

-- A script's output is its own, not the log's.
local function print_line(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  io.stdout:write(table.concat(list, "\t", 1, list.n), "\n")
end

local function traceback(message)
  if type(message) ~= "string" then
    local meta = getmetatable(message)
    if meta and meta.__tostring then return tostring(message) end
    message = ("(error object is a %s value)"):format(type(message))
  end
  return debug.traceback(message, 2)
end

-- `run(name, load, …)` → whether the program ended without an error, which was written. `load()` gives its function, or
-- nil and a message; `name` is `arg[0]`.
function M.run(name, load, ...)
  rawset(_G, "print", print_line)
  rawset(_G, "arg", { [0] = name, ... })
  local f, problem = load()
  local ok = f ~= nil
  if ok then ok, problem = xpcall(f, traceback, ...) end
  if not ok then
    io.stdout:flush()
    io.stderr:write("lio: ", problem, "\n")
  end
  return ok
end

return M
