-- `print` of a program that runs in a service: it writes to standard output, because a program's output does not belong
-- in the log. Used by service/script.lua.
--
-- Standard output may be a file or a pipe, whose reader should see a line soon, but many lines in a row should not need
-- a system call each. So lines are collected in the buffer of the C library. They are sent before the loop waits, and
-- also by `print` if the last flush was long ago.

local drivers = require "lio.net.driver"
local lio = require "lio"
local loop = require "lio.loop"

local now <const> = lio.now

local M = {}

-- After this many seconds without a flush, `print` flushes.
local INTERVAL <const> = 0.05

local hooks = {} -- the argument of `driver:add_hooks`
local has_hooks = false
local unflushed = false -- the file to which lines were written since the last flush; false: none
local flushed_at = -math.huge -- a time of `lio.now`

local function flush_file(file) file:flush() end

-- `flush()`: sends the lines that `print` has collected.
function M.flush()
  if not unflushed then return end
  local file <const> = unflushed
  unflushed, flushed_at = false, now()
  -- `io.stdout` of the program may be any object.
  pcall(flush_file, file)
end

-- Lines that are printed while the service ends are sent when its VM closes.
M.at_end = setmetatable({}, { __gc = M.flush })

hooks.before_wait = M.flush
function hooks.after_events() end

-- `print(…)`: the function for programs.
function M.print(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  if not has_hooks then
    drivers.of(loop.net):add_hooks(hooks)
    has_hooks = true
  end
  local file <const> = io.stdout
  file:write(table.concat(list, "\t", 1, list.n), "\n")
  unflushed = file
  if now() - flushed_at >= INTERVAL then M.flush() end
end

return M
