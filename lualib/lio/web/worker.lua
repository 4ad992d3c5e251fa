-- One of several workers of an app, see web/workers.lua: an exclusive service with a loop. It runs the program as its
-- main task, and ends when the program ends. If the program fails, the whole system ends with exit code 1.

local ltask = require "ltask"
local core = require "ltask.core"
local loop = require "lio.loop"
local assignment = ...

-- The executable's own VM uses this mode, so a program runs in the same mode with one worker and with several.
collectgarbage "generational"

local S = core.load_embedded "lio.service"()

local ROOT <const> = 1

-- Whether the program has ended, and the token of the requests that wait for that.
local finished = false
local end_of_program <const> = {}

-- No task wakes this token. It is a local of this file, because a task is killed if nothing refers to its token.
local end_of_worker <const> = {}

-- This request is never answered; it fails when the worker ends.
function S.ended()
  ltask.wait(end_of_worker)
end

-- This request is answered when the program of this worker has ended.
function S.finished()
  if not finished then ltask.multi_wait(end_of_program) end
end

-- Called when worker `index` becomes blocked, and when it is no longer blocked.
function S.accept_for(index, is_blocked)
  require("lio.web.workers").accept_for(index, is_blocked)
end

-- The seconds that the services have to end if a worker has not ended within the app's grace period.
local BLOCKED_GRACE <const> = 1

-- Waits until the programs of the other workers have ended, but at most for the app's grace period. Root would end the
-- services that the handlers of those workers still call. Returns whether all workers have ended.
local function await_other_workers()
  local token, left = {}, assignment.count - 1
  local function count()
    left = left - 1
    if left == 0 then ltask.wakeup(token) end
  end
  for index = 1, assignment.count do
    if index ~= assignment.index then
      ltask.fork(function()
        pcall(ltask.call, ROOT + index, "finished")
        count()
      end)
    end
  end
  ltask.timeout(assignment.grace * 100 // 1, function() ltask.wakeup(token) end)
  if left > 0 then ltask.wait(token) end
  return left == 0
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
  finished = true
  ltask.multi_wakeup(end_of_program)
  if not ok then
    ltask.call(ROOT, "exit_code", 1)
    ltask.send(ROOT, "quit_ltask")
  elseif loop.was_signalled() then
    -- All workers receive the signal. If another worker does not end, for example because it is blocked, root ends it.
    local all_ended = await_other_workers()
    ltask.send(ROOT, "quit_ltask", not all_ended and BLOCKED_GRACE or nil)
  end
  ltask.quit()
end)

return S
