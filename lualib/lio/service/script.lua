-- Runs a program's file in a service, as the executable runs it: `arg` and `...` contain its arguments, `print` writes
-- to standard output and not to the log, and an error is written with its traceback. Called in a task by services that
-- own a loop.

local debug <const> = debug or require "lio.debug"
local output = require "lio.service.output"
local traceback = require "lio.traceback"

local M = {}

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
  rawset(_G, "print", output.print)
  rawset(_G, "arg", { [0] = name, ... })
  local f, problem = load()
  local ok = f ~= nil
  if ok then ok, problem = xpcall(f, add_traceback, ...) end
  output.flush()
  if not ok then
    io.stdout:flush()
    io.stderr:write("lio: ", traceback.shorten(problem), "\n")
  end
  return ok
end

return M
