-- Traces: logs the events of a request with one tag as the request passes from service to service:
--   <TRACE :00000003-1> 12.345678 call @main.lua:12
-- Each entry consists of the tag, the time in seconds on the clock that all services share, the event, and, for a call,
-- the source line. Used by the other files of this folder.
--
-- A call sends its tag to the callee in a separate request, just before the call. If the callee does not handle this
-- request, the request is refused without effect.

local ltask = require "ltask"
local core = require "ltask.core"
local boot = require "skynet.boot"

local M = {}

-- The request that carries a tag.
local REQUEST <const> = "skynet.trace"

local this_task <const> = require "lio.task".current

local tags = setmetatable({}, { __mode = "k" }) -- task: its tag
local expected = {} -- address: the tag of its next request
local count = 0

local function log(tag, event, level)
  local place = ""
  if level then
    level = level + 2
    local info = debug.getinfo(level, "Sl")
    -- Skips C functions such as `pcall`.
    while info and info.currentline < 0 do
      level = level + 1
      info = debug.getinfo(level, "Sl")
    end
    place = info and (" @%s:%d"):format(info.short_src, info.currentline) or ""
  end
  core.log("info", ("<TRACE %s> %.6f %s%s"):format(tag, ltask.counter(), event, place))
end

local function new_tag()
  count = count + 1
  return (":%08x-%d"):format(ltask.self(), count)
end

-- `trace([info])`: from now on, traces the running task, its coroutines and its calls.
function M.trace(info)
  local task = this_task()
  if not task then error("trace: called outside of the service's coroutines", 2) end
  boot.trace = M
  local tag = new_tag()
  tags[task] = tag
  log(tag, info and "trace " .. tostring(info) or "trace")
end

-- `traceproto(protocol[, flag])`: sets which messages of the protocol are traced: all if `flag` is true, none if it is
-- false, and those of traced senders if it is nil.
function M.traceproto(typename, flag)
  boot.trace = M
  require "skynet.message".protocol(typename, "traceproto").trace = flag
end

-- `adopt(tag)`: traces the running task with the tag of another task.
function M.adopt(tag)
  tags[this_task()] = tag
end

-- `tracetag()`: returns the tag of the running task, or nil.
function M.tracetag()
  return tags[this_task()]
end

-- `event(event)`: logs an event of the running task, if it is traced.
function M.event(event)
  local tag = tags[this_task()]
  if tag then log(tag, event) end
end

-- `call(to, level)`: logs the start of a call to the service `to`, and sends the running task's tag to it. Returns the
-- tag, or nil if the task is not traced. `level` selects the logged source line: 1 for the line in the caller of this
-- function, 2 for the line in that function's caller.
function M.call(to, level)
  local tag = tags[this_task()]
  if not tag then return end
  log(tag, "call", level)
  core.request(to, REQUEST, tag)
  return tag
end

-- `begin(from, p)`: called when the running task starts handling a request of protocol `p`. Traces the task if tracing
-- of the protocol is on, or if the sender's call is traced and tracing of the protocol is not off.
function M.begin(from, p)
  local tag = expected[from]
  expected[from] = nil
  if p.trace == false then return end
  if not tag and p.trace then
    tag = new_tag()
    log(tag, "trace")
  end
  if not tag then return end
  tags[this_task()] = tag
  log(tag, "request")
end

-- `finish()`: called when the handler has returned. Ends the trace of its task.
function M.finish()
  local task = this_task()
  local tag = tags[task]
  if not tag then return end
  tags[task] = nil
  log(tag, "end")
end

-- `failed(task)`: called when the handler has raised an error. Logs the error event if the task is traced.
function M.failed(task)
  local tag = tags[task]
  if tag then log(tag, "error") end
end

-- `expect(from, tag)`: traces the next request from the service `from`, with the tag.
function M.expect(from, tag)
  boot.trace = M
  expected[from] = tag
end

return M
