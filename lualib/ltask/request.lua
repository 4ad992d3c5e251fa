-- Several requests at a time: `ltask.async`, `ltask.request` (G1) and `ltask.parallel` in both forms.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"

local M = {}

-- The values of a list, nils between them as well.
local function spread(list)
  local n = list.n or #list
  if not list.n then
    for k in pairs(list) do
      if math.type(k) == "integer" and k > n then n = k end
    end
  end
  return table.unpack(list, 1, n)
end

-- Sends a request. Returns its session; nil and the problem when it was refused. Wrong values raise an error of
-- `call`.
local function send(call, ...)
  local ok, session, problem = pcall(core.request, ...)
  if not ok then require("lio.misuse").relay(call, session) end
  return session, problem
end

-- Answers that no coroutine waits for by itself: each request has a forked one that does.
local function await(report, session, problem)
  if not session then return report(false, problem) end
  task.fork(function() report(pcall(core.await, session)) end)
end

-- `class`: the metatable of the objects that have the method `call`.
local function check_self(call, self, class, name)
  if getmetatable(self) ~= class then require("lio.misuse").argument(call, 1, name, self) end
end

-- async ---------------------------------------------------------------------------------------

local async = {}
async.__index = async

-- `a:request(addr, …)`: sends a request and does not wait.
function async:request(addr, ...)
  check_self("request", self, async, "async")
  local session, problem = send("request", addr, ...)
  self.left = self.left + 1
  await(function(ok, ...)
    if not ok and not self.problem then self.problem = (...) end
    self.left = self.left - 1
    if self.left == 0 and self.waits then
      self.waits = nil
      task.wakeup(self)
    end
  end, session, problem)
end

-- `a:wait()`: until every request has been answered; raises the first error.
function async:wait()
  check_self("wait", self, async, "async")
  if self.left > 0 then
    self.waits = true
    task.wait(self)
  end
  local problem = self.problem
  self.problem = nil
  if problem ~= nil then error(problem, 0) end
end

-- `ltask.async()` → an object that sends requests and waits for all their answers.
function M.async()
  return setmetatable({ left = 0 }, async)
end

-- request (G1) --------------------------------------------------------------------------------

local request = {}
request.__index = request

local MOST <const> = 0xffffffff -- the highest address

local function check(call, one)
  local addr = type(one) == "table" and math.tointeger(tonumber(one[1]))
  if not addr or addr < 1 or addr > MOST then
    require("lio.misuse").bad(call, 1, "{ address, … } expected")
  end
end

-- `r:add{ addr, … }` → r. Fields beside the list are the caller's own.
function request:add(one)
  check_self("add", self, request, "request")
  check("add", one)
  self.unsent[#self.unsent + 1] = one
  return self
end

request.__call = request.add

local function report(self, one, ok, ...)
  if self.closed then return end
  self.left = self.left - 1
  if ok then
    self.done[#self.done + 1] = { one, table.pack(...) }
  else
    one.error = (...)
    self.done[#self.done + 1] = { one }
  end
  if self.waits then
    self.waits = nil
    task.wakeup(self)
  end
end

local function send_all(self)
  local list = self.unsent
  self.unsent = {}
  for _, one in ipairs(list) do
    local session, problem = send("select", spread(one))
    self.left = self.left + 1
    await(function(...) report(self, one, ...) end, session, problem)
  end
end

local TIMEOUT <const> = {}

local function next_answer(self)
  send_all(self)
  while true do
    local one = table.remove(self.done, 1)
    if one then return one[1], one[2] end
    if self.left == 0 or self.late or self.closed then return nil end
    self.waits = true
    if task.wait(self) == TIMEOUT then self.late = true end
  end
end

-- `for one, results in r:select([centiseconds]) do`: each request with the list of its results, or without
-- one and with `one.error`. The loop ends when all were answered, or the time is over: then `r:close()`
-- forgets the rest, as does the end of `local r <close>`.
function request:select(timeout)
  check_self("select", self, request, "request")
  self.late = false
  if timeout then
    require("lio.misuse").check_seconds("select", 1, timeout)
    local round = {}
    self.round = round
    ltask.timeout(timeout, function()
      if self.round ~= round then return end
      self.late = true
      if self.waits then
        self.waits = nil
        task.wakeup(self, TIMEOUT)
      end
    end)
  end
  return next_answer, self, nil, self
end

-- `r:close()`: answers that come later are dropped.
function request:close()
  check_self("close", self, request, "request")
  self.closed = true
  self.round = nil
end

request.__close = request.close

-- `ltask.request([one])` → an object that sends requests and hands out answers as they come.
function M.request(one)
  local self = setmetatable({ unsent = {}, done = {}, left = 0 }, request)
  if one then
    check("request", one)
    self:add(one)
  end
  return self
end

-- parallel ------------------------------------------------------------------------------------

local function finish(state, one, co, ok, ...)
  state.left = state.left - 1
  state.running[co] = nil
  state.done[#state.done + 1] = { one, ok, table.pack(...) }
  if state.waits then
    state.waits = nil
    task.wakeup(state)
  end
end

local function take(state)
  while #state.done == 0 do
    if state.left == 0 then return nil end
    state.waits = true
    task.wait(state)
  end
  return table.remove(state.done, 1)
end

local function next_result(state)
  local one = take(state)
  if not one then return nil end
  if one[2] then return one[1], one[3] end
  local err = one[3][1]
  return one[1], { error = err, rethrow = function() error(err, 0) end }
end

local function next_values(state)
  while true do
    local one = take(state)
    if not one then
      if state.problem ~= nil then error(state.problem, 0) end
      return nil
    end
    if one[2] then return one[1], table.unpack(one[3], 1, one[3].n) end
    if state.problem == nil then state.problem = one[3][1] end
  end
end

-- `for one, result in ltask.parallel{ { f, … }, … } do`: runs the functions at a time. `result` is the list
-- of results, or `{ error=, rethrow= }`. With `generation = 1` the loop has the results themselves, and an
-- error is raised at its end. A loop that is left early kills what still runs.
function M.parallel(list)
  if type(list) ~= "table" then require("lio.misuse").argument("parallel", 1, "table", list) end
  for at, one in ipairs(list) do
    if type(one) ~= "table" then
      require("lio.misuse").bad("parallel", 1, ("[%d]: { function, … } expected, got %s"):format(at, type(one)))
    end
  end
  local state = { left = #list, done = {}, running = {} }
  for _, one in ipairs(list) do
    local co
    co = task.fork(function(f, ...)
      finish(state, one, co, pcall(f, ...))
    end, spread(one))
    state.running[co] = true
  end
  local guard = setmetatable({}, {
    __close = function()
      for co in pairs(state.running) do task.kill(co) end
    end,
  })
  local step = core.generation() == 1 and next_values or next_result
  return step, state, nil, guard
end

return M
