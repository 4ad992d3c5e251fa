-- Traces: what happens to a request, from service to service, as lines of the log with one tag:
--   <TRACE :00000003-1> 12.345678 call @main.lua:12
-- that is tag, seconds of the clock that all services share, event, and where. Called by the other files here.
--
-- A call tells the callee its tag by a request of its own, which goes just before. One that does not know
-- this request refuses it, and nobody waits for the answer.

local ltask = require "ltask"
local core = require "ltask.core"
local boot = require "skynet.boot"

local M = {}

-- The request by which a tag travels.
local REQUEST <const> = "skynet.trace"

local this_task <const> = require "lio.task".current

local tags = setmetatable({}, { __mode = "k" }) -- a task's own coroutine → its tag
local coming = {} -- address → the tag of its next request
local count = 0

local function log(tag, event, level)
  local where = ""
  if level then
    level = level + 2
    local info = debug.getinfo(level, "Sl")
    -- Not `pcall` and the like.
    while info and info.currentline < 0 do
      level = level + 1
      info = debug.getinfo(level, "Sl")
    end
    where = info and (" @%s:%d"):format(info.short_src, info.currentline) or ""
  end
  core.log("info", ("<TRACE %s> %.6f %s%s"):format(tag, ltask.counter(), event, where))
end

local function new_tag()
  count = count + 1
  return (":%08x-%d"):format(ltask.self(), count)
end

-- `trace([info])`: follows the running task, with the coroutines that it makes, and what it calls from now on.
function M.trace(info)
  local co = this_task()
  if not co then error("trace: called where no coroutine of the service runs", 2) end
  boot.trace = M
  local tag = new_tag()
  tags[co] = tag
  log(tag, info and "trace " .. tostring(info) or "trace")
end

-- `traceproto(protocol[, flag])`: true follows each message of the protocol, false none, nil those that are
-- followed already.
function M.traceproto(typename, flag)
  boot.trace = M
  require "skynet.message".protocol(typename, "traceproto").trace = flag
end

-- The running task is followed as the one was that has this tag.
function M.adopt(tag)
  tags[this_task()] = tag
end

-- `tracetag()` → the tag of the running task, or nil.
function M.tracetag()
  return tags[this_task()]
end

-- Logs an event of the running task, if it is followed.
function M.event(event)
  local tag = tags[this_task()]
  if tag then log(tag, event) end
end

-- Before a call: → tag, or nil. `level` is whose line it is: 1 who calls this, 2 who called that.
function M.call(to, level)
  local tag = tags[this_task()]
  if not tag then return end
  log(tag, "call", level)
  core.request(to, REQUEST, tag)
  return tag
end

-- A request of protocol `p` has come.
function M.begin(from, p)
  local tag = coming[from]
  coming[from] = nil
  if p.trace == false then return end
  if not tag and p.trace then
    tag = new_tag()
    log(tag, "trace")
  end
  if not tag then return end
  tags[this_task()] = tag
  log(tag, "request")
end

-- Its function has returned.
function M.finish()
  local co = this_task()
  local tag = tags[co]
  if not tag then return end
  tags[co] = nil
  log(tag, "end")
end

-- Its function has raised.
function M.failed(co)
  local tag = tags[co]
  if tag then log(tag, "error") end
end

-- The tag of the next request of a service: what follows is followed here as well.
function M.expect(from, tag)
  boot.trace = M
  coming[from] = tag
end

return M
