-- `skynet.request`: several concurrent calls, whose answers are handled as they arrive. Used by lualib/skynet.lua.
--
-- Invariant: each call without an answer has a task in `tasks`; `close` kills these tasks. `token` is set while the
-- loop of `select` waits.

local ltask = require "ltask"
local task = require "lio.task"
local boot = require "skynet.boot"
local message = require "skynet.message"

local M = {}

local request = {}
request.__index = request

-- Maps a request object, after the call of `select`, to its state: { tasks, left, answers, first, last, token, timer,
-- is_closed }.
local states = setmetatable({}, { __mode = "k" })

-- Adds a call. Errors name `call`, the function that called `add`, and give the position of that function's caller.
local function add(self, one, call)
  if type(one) ~= "table" or one[1] == nil or one[2] == nil then
    error(("bad argument #1 to '%s' ({ address, protocol, … } expected)"):format(call), 3)
  end
  if states[self] then error("add: select has already sent the requests", 3) end
  self[#self + 1] = one
end

-- `r:add{ addr, protocol, … }`, `r{ … }`: adds a call. Returns r. The program may use other fields of the table.
function request:add(one)
  add(self, one, "add")
  return self
end

request.__call = request.add

local function wake_loop(state)
  local token = state.token
  state.token = nil
  if token then task.wakeup(token) end
end

local function receive(state, one, ok, ...)
  if state.is_closed then return end
  state.tasks[one] = nil
  state.left = state.left - 1
  state.last = state.last + 1
  state.answers[state.last] = { request = one, values = ok and table.pack(...) }
  wake_loop(state)
end

local function call(state, one, tag)
  if tag then boot.trace.adopt(tag) end
  receive(state, one, pcall(message.call, one[1], one[2], table.unpack(one, 3, one.n)))
end

local function expire(self, state, timeout)
  ltask.sleep(timeout)
  state.timer = nil
  self.timeout = true
  wake_loop(state)
end

local function next_answer(self)
  local state = states[self]
  while not state.is_closed do
    local answer = state.answers[state.first]
    if answer then
      state.answers[state.first] = nil
      state.first = state.first + 1
      return answer.request, answer.values
    end
    if state.left == 0 or self.timeout then return nil end
    state.token = {}
    task.wait(state.token)
  end
end

local function check_select(self, timeout)
  if states[self] then error("select: called a second time", 3) end
  if timeout ~= nil and not (math.type(timeout) and timeout == timeout) then
    error(("bad argument #1 to 'select' (a time in centiseconds expected, got %s)"):format(tostring(timeout)), 3)
  end
end

-- `for one, answer in r:select([centiseconds]) do`: sends all calls. The loop yields each call that was added, with the
-- list of its results, or with false if the call has failed. When the time has passed, the loop ends, and `r.timeout`
-- is true. Answers that arrive after the loop are dropped.
function request:select(timeout)
  check_select(self, timeout)
  local state = { tasks = {}, left = #self, answers = {}, first = 1, last = 0 }
  states[self] = state
  local tag = boot.trace and boot.trace.tracetag()
  for i = 1, #self do
    -- A call that fails at once has its answer before `spawn` returns.
    local before = state.last
    local co = task.spawn(call, state, self[i], tag)
    if state.last == before then state.tasks[self[i]] = co end
  end
  if timeout and state.left > 0 then state.timer = task.spawn(expire, self, state, timeout) end
  return next_answer, self, nil, self
end

-- `r:close()`: drops the remaining answers, and ends the loop of `select`.
function request:close()
  local state = states[self]
  if not state or state.is_closed then return end
  state.is_closed = true
  for _, co in pairs(state.tasks) do task.kill(co) end
  if state.timer then task.kill(state.timer) end
  wake_loop(state)
end

request.__close = request.close

-- `request([one])`: returns an object that makes several concurrent calls. `one` is the first call.
function M.request(one)
  local self = setmetatable({}, request)
  if one ~= nil then add(self, one, "request") end
  return self
end

-- `for one, answer in select(list[, centiseconds]) do`: like `r:select`, for a list of calls or a request object.
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
