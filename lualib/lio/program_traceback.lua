-- Tracebacks for the author of a program: without the functions of the library, and without the gap that Lua leaves in
-- long tracebacks. Used for errors in handlers of requests, in tests, and in threads.

local debug <const> = debug or require "lio.debug"
local shorten <const> = require("lio.traceback").shorten

local M = {}

-- Lua shows this number of levels before the gap.
local LEVELS <const> = 10
-- The maximum number of gaps that are filled: an endless recursion has 200000 levels.
local GAPS <const> = 20

-- Returns the traceback from a level of the caller on.
local function whole(level)
  level = level + 1
  local parts = { "\nstack traceback:" }
  local text = debug.traceback("", level):sub(#parts[1] + 1)
  for _ = 1, GAPS do
    local first = text:match "^(.-)\n\t%.%.%.\t%(skipping %d+ levels%)"
    if not first then break end
    parts[#parts + 1] = first
    level = level + LEVELS
    text = debug.traceback("", level):sub(#parts[1] + 1)
  end
  parts[#parts + 1] = text
  return table.concat(parts)
end

-- Returns whether the innermost Lua function of a traceback belongs to the library.
local function is_of_library(trace)
  for frame in trace:gmatch "\n(\t[^\n]+)" do
    if not frame:find "^\t%[C%]: " then return shorten("\nstack traceback:\n" .. frame) == "" end
  end
  return false
end

-- `of(message, level)` returns the traceback of an error from `level` on, which counts as for `debug.traceback`; an
-- empty string if the traceback contains no function of the program. The second result is whether the library has
-- raised the error. If the message begins with a position in the library, the error is a mistake in the library, and
-- the traceback contains all functions. LIO_TRACEBACK=full has the same effect.
function M.of(message, level)
  local trace = whole(level + 1)
  local position = message:match "^[%w_./]+:%d+:" or ""
  return shorten(position .. trace):sub(#position + 1), is_of_library(trace)
end

return M
