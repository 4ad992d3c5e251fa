-- Runs a program's file in a service, as the executable runs it: `arg` and `...` contain its arguments, `print` writes
-- to standard output and not to the log, and an error is written with its traceback. Called in a task by services that
-- own a loop.

local debug <const> = debug or require "lio.debug"
local traceback = require "lio.traceback"

local M = {}

-- Writes to standard output: a script's output does not belong in the log.
local function print_line(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  io.stdout:write(table.concat(list, "\t", 1, list.n), "\n")
end

local function add_traceback(message)
  if type(message) ~= "string" then
    local meta = getmetatable(message)
    if meta and meta.__tostring then return tostring(message) end
    message = ("(error object is a %s value)"):format(type(message))
  end
  return debug.traceback(message, 2)
end

-- `run(name, load, …)` returns whether the program ended without an error; an error is written to standard error.
-- `load()` returns the program as a function, or nil and a message; `name` is `arg[0]`.
function M.run(name, load, ...)
  rawset(_G, "print", print_line)
  rawset(_G, "arg", { [0] = name, ... })
  local f, problem = load()
  local ok = f ~= nil
  if ok then ok, problem = xpcall(f, add_traceback, ...) end
  if not ok then
    io.stdout:flush()
    io.stderr:write("lio: ", traceback.shorten(problem), "\n")
  end
  return ok
end

return M
