-- `skynet.request`: several calls at a time, whose answers are taken as they come. Called through lualib/skynet.lua.
--
-- Invariant: each call that is not answered has a task, in `tasks`; `close` ends those. `place` is there while the
-- loop waits.

local ltask = require "ltask"
local task = require "lio.task"
local boot = require "skynet.boot"
local message = require "skynet.message"

local M = {}

local request = {}
request.__index = request

local states = setmetatable({}, { __mode = "k" }) -- request → { tasks, left, done, first, last, place, timer, over }

-- Adds a call; raises in the name of `call`, at the line of its caller.
local function add(self, one, call)
  if type(one) ~= "table" or one[1] == nil or one[2] == nil then
    error(("bad argument #1 to '%s' ({ address, protocol, … } expected)"):format(call), 3)
  end
  if states[self] then error("add: the requests were sent already, by select", 3) end
  self[#self + 1] = one
end

-- `r:add{ addr, protocol, … }` or `r{ … }` → r. Other fields of the table are the program's own.
function request:add(one)
  add(self, one, "add")
  return self
end

request.__call = request.add

local function wake(state)
  local place = state.place
  state.place = nil
  if place then task.wakeup(place) end
end

local function report(state, one, ok, ...)
  if state.over then return end
  state.tasks[one] = nil
  state.left = state.left - 1
  state.last = state.last + 1
  state.done[state.last] = { one, ok and table.pack(...) }
  wake(state)
end

local function ask(state, one, tag)
  if tag then boot.trace.adopt(tag) end
  report(state, one, pcall(message.call, one[1], one[2], table.unpack(one, 3, one.n)))
end

local function expire(self, state, timeout)
  ltask.sleep(timeout)
  state.timer = nil
  self.timeout = true
  wake(state)
end

local function next_answer(self)
  local state = states[self]
  while not state.over do
    local one = state.done[state.first]
    if one then
      state.done[state.first] = nil
      state.first = state.first + 1
      return one[1], one[2]
    end
    if state.left == 0 or self.timeout then return nil end
    state.place = {}
    task.wait(state.place)
  end
end

-- `for one, answer in r:select([centiseconds]) do`: sends all, and goes through the answers as they come: each table
-- that was added with the list of the answer's values, or false when the call failed. When the time is over the
-- loop ends, and `r.timeout` is true; answers that have not come by the loop's end are dropped.
function request:select(timeout)
  if states[self] then error("select: called a second time", 2) end
  if timeout ~= nil and not (math.type(timeout) and timeout == timeout) then
    error(("bad argument #1 to 'select' (a time in centiseconds expected, got %s)"):format(tostring(timeout)), 2)
  end
  local state = { tasks = {}, left = #self, done = {}, first = 1, last = 0 }
  states[self] = state
  local tag = boot.trace and boot.trace.tracetag()
  for i = 1, #self do
    -- What has failed at once is reported already.
    local before = state.last
    local co = task.spawn(ask, state, self[i], tag)
    if state.last == before then state.tasks[self[i]] = co end
  end
  if timeout and state.left > 0 then state.timer = task.spawn(expire, self, state, timeout) end
  return next_answer, self, nil, self
end

-- `r:close()`: answers that come later are dropped.
function request:close()
  local state = states[self]
  if not state or state.over then return end
  state.over = true
  for _, co in pairs(state.tasks) do task.kill(co) end
  if state.timer then task.kill(state.timer) end
  wake(state)
end

request.__close = request.close

-- `request([one])` → an object that makes several calls at a time.
function M.request(one)
  local self = setmetatable({}, request)
  if one ~= nil then add(self, one, "request") end
  return self
end

-- `for one, answer in select(list[, centiseconds]) do`: the same for a list of calls, or such an object.
function M.select(list, timeout)
  if type(list) ~= "table" then
    error(("bad argument #1 to 'select' (a list of { address, protocol, … } expected, got %s)"):format(type(list)), 2)
  end
  if getmetatable(list) == request then return list:select(timeout) end
  local self = M.request()
  for _, one in ipairs(list) do add(self, one, "select") end
  return self:select(timeout)
end

return M
