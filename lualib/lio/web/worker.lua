-- One of several workers of an app, see web/workers.lua: an exclusive service with a loop. It runs the program as its
-- main task, and ends when the program ends. If the program fails, the whole system ends with exit code 1.

local ltask = require "ltask"
local core = require "ltask.core"
local loop = require "lio.loop"
local assignment = ...

-- The executable's own VM uses this mode, so a program runs in the same mode with one worker and with several.
collectgarbage "generational"

local S = core.load_embedded "lio.service"()

-- No task wakes this token. It is a local of this file, because a task is killed if nothing refers to its token.
local end_of_worker <const> = {}

-- This request is never answered; it fails when the worker ends.
function S.ended()
  ltask.wait(end_of_worker)
end

-- Called when worker `index` becomes blocked, and when it is no longer blocked.
function S.accept_for(index, is_blocked)
  require("lio.web.workers").accept_for(index, is_blocked)
end

local function load_program()
  local program = assignment.program
  if program.module then return core.load_embedded(program.module) end
  return loadfile(program.script)
end

ltask.fork(function()
  require("lio.web.workers").assignment = assignment
  local program = assignment.program
  local name = program.script or program.module
  local ok = require("lio.service.script").run(name, load_program, table.unpack(program.args, 1, program.args.n))
  if not ok then ltask.call(1, "exit_code", 1) end
  -- A signal may have arrived before the other workers could receive it, so this worker ends the system.
  if not ok or loop.was_signalled() then ltask.send(1, "quit_ltask") end
  ltask.quit()
end)

return S
