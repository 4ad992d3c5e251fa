-- The functions that the Rust part of the service library calls in rare cases (src/modules/ltask/callbacks.rs): for
-- errors, requests without a handler, and requests to the service library itself. Loaded when such a case first occurs.

local ltask = require "ltask"
local core = require "ltask.core"
local errors = require "ltask.errors"
local require <const> = core.require_now

local ERROR <const> = 3

local M = {}

-- Errors --------------------------------------------------------------------------------------

-- Called when a task has failed. Returns the error object with which the task's request is answered. If the sender does
-- not expect an answer, logs the error.
function M.task_failed(co, err, from, session)
  local object = errors.describe(err, co)
  if session == 0 then
    local sender = from ~= 0 and from ~= ltask.self() and " (a message from service " .. from .. ")" or ""
    ltask.log.error(tostring(object) .. sender)
  end
  return object
end

-- Called for an answer that is an error. Returns the value that the call raises.
function M.error_response(from, err)
  if type(err) == "table" then return errors.from_answer(err) end
  if err == nil then return ("{service:%d} answered with an error"):format(from) end
  return err
end

-- Called before a call raises an error, in the coroutine that made the call. Returns the value to raise.
function M.call_failed(err)
  if errors.is_object(err) then errors.add_traceback(err) end
  return err
end

-- Called when the main loop has raised an error, because memory has run out or a message is corrupt. If the message was
-- a request, answers with the error; if it was an answer, the waiting task gets the error; otherwise logs the error.
function M.loop_failed(err)
  local from, session = core.recover(err)
  if from == true then return end
  if session then
    core.post(from, session, ERROR, ("service %d: %s"):format(ltask.self(), tostring(err)))
  else
    ltask.log.error(tostring(err))
  end
end

-- Requests and answers ------------------------------------------------------------------------

-- Returns a hint about the handler whose name is similar to that of a request.
local function suggest(name)
  local names = {}
  for key in next, ltask.dispatch() do
    if type(key) == "string" then names[key] = true end
  end
  local near = type(name) == "string" and require "lio.options".nearest(name, names)
  return near and (" (did you mean '%s'?)"):format(near) or ""
end

-- Called for a request without a handler.
function M.unknown_request(name, from, session)
  local text = ("service %d (%s) has no handler for request '%s'%s"):format(
    ltask.self(), ltask.label(), tostring(name), suggest(name))
  if name == nil then
    text = ("service %d (%s): the name of the request is missing (nil)"):format(ltask.self(), ltask.label())
  end
  if session ~= 0 then return core.post(from, session, ERROR, text) end
  ltask.log.error(text .. ", sent by service " .. from)
end

-- Called for a request of this service to itself for which there is no handler before the service's file has returned.
function M.early_request(name, from, session)
  local text = ("service %d (%s) is still loading its file, and has no handler for request '%s' yet"):format(
    ltask.self(), ltask.label(), tostring(name))
  if session ~= 0 then return core.post(from, session, ERROR, text) end
  ltask.log.error(text)
end

-- Called for an answer to a session that this service has never used.
function M.unknown_response() end

-- Called when the coroutine that handled a request was closed before it answered the request.
function M.unanswered_request(name, from)
  local f = ltask.dispatch()[name]
  local info = type(f) == "function" and debug.getinfo(f, "S")
  ltask.log.error(("service %d (%s): the request '%s' from service %d ended without an answer; its handler is at %s")
    :format(ltask.self(), ltask.label(), name, from, info and info.short_src .. ":" .. info.linedefined or "?"))
end

-- Requests to the service library -------------------------------------------------------------

-- `ltask.call(addr, "tasks")`: returns the list that `lio.tasks` returns, without the coroutines, which cannot be
-- packed.
function M.tasks()
  local list = require "lio.task_list"()
  for _, one in ipairs(list) do one.thread = nil end
  return list
end

-- `ltask.syscall(addr, "inspect", what)`: returns the bytes in use if `what` is "memory", the number of objects of each
-- type if it is "counts", or the tracebacks of the main function and of all tasks if it is "traceback".
function M.inspect(what)
  if what == "memory" then return collectgarbage "count" * 1024 end
  if what == "counts" then return ltask.mem_count() end
  local list = { ltask.backtrace() }
  for _, one in ipairs(M.tasks()) do list[#list + 1] = one.traceback end
  return table.concat(list, "\n")
end

-- Keeps the tokens on which `watch` waits, because a task is closed as orphaned when nothing refers to its token.
M.watch_tokens = {}

-- `ltask.syscall(addr, "watch")`: is never answered, so the caller gets an error when this service ends. The request
-- does not keep the service running.
function M.watch()
  local token = {}
  M.watch_tokens[token] = true
  core.add_end_waits(1)
  local done <close> = setmetatable({}, {
    __close = function()
      M.watch_tokens[token] = nil
      core.add_end_waits(-1)
    end,
  })
  ltask.wait(token)
  return done
end

return M
