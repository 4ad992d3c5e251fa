-- One of several workers of an app, see web/workers.lua: an exclusive service with a loop, which runs the program as
-- its main task and ends with it. When the program fails, the whole system ends with exit code 1.

local ltask = require "ltask"
local core = require "ltask.core"
local loop = require "lio.loop"
local share = ...

-- As the executable's own VM, so that a program does not run otherwise with several workers.
collectgarbage "generational"

local S = core.chunk "lio.service"()

-- Nobody wakes it, but it is kept: a task that waits for what nothing refers to is lost, and would be killed.
local ending <const> = {}

-- Answered by the worker's end: the error that the caller gets then.
function S.ended()
  ltask.wait(ending)
end

-- Accepts the connections of another worker that is held up, or no longer.
function S.cover(index, is_held)
  require("lio.web.workers").cover(index, is_held)
end

local function load_program()
  local program = share.program
  if program.module then return core.chunk(program.module) end
  return loadfile(program.script)
end

ltask.fork(function()
  require("lio.web.workers").share = share
  local program = share.program
  local name = program.script or program.module
  local ok = require("lio.service.script").run(name, load_program, table.unpack(program.args, 1, program.args.n))
  if not ok then ltask.call(1, "exit_code", 1) end
  -- A signal may have come before the others listened to it.
  if not ok or loop.was_signalled() then ltask.send(1, "quit_ltask") end
  ltask.quit()
end)

return S
