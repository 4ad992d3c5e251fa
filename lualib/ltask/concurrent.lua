-- Concurrent requests and functions: `ltask.async`, `ltask.request` (G1) and `ltask.parallel`.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"

local M = {}

-- Returns the values of a list that may contain nils.
local function unpack_list(list)
  local n = list.n or #list
  if not list.n then
    for k in pairs(list) do
      if math.type(k) == "integer" and k > n then n = k end
    end
  end
  return table.unpack(list, 1, n)
end

-- Sends a request. Returns its session, or nil and an error if it was refused. If an argument is invalid, raises an
-- error that names `call`.
local function send(call, ...)
  local ok, session, problem = pcall(core.request, ...)
  if not ok then require("lio.misuse").relay(call, session) end
  return session, problem
end

-- Raises unless `self` has the metatable `class`. In the message, `call` is the name of the method, and `name` is the
-- word for the object.
local function check_self(call, self, class, name)
  if getmetatable(self) ~= class then require("lio.misuse").argument(call, 1, name, self) end
end

-- Wakes the coroutine that waits for the next result, if there is one.
local function wake_waiter(self, reason)
  if not self.is_waiting then return end
  self.is_waiting = false
  task.wakeup(self, reason)
end

-- Waits for `wake_waiter`, and returns the `reason` that was passed to it.
local function wait_for_result(self)
  self.is_waiting = true
  return task.wait(self)
end

-- async ---------------------------------------------------------------------------------------

local async = {}
async.__index = async

local function end_async_request(self, ok, problem)
  if not ok and not self.problem then self.problem = problem end
  self.left = self.left - 1
  if self.left == 0 then wake_waiter(self) end
end

local function await_async(self, session)
  end_async_request(self, pcall(core.await, session))
end

-- `a:request(addr, …)`: sends a request and does not wait.
function async:request(addr, ...)
  check_self("request", self, async, "async")
  local session, problem = send("request", addr, ...)
  self.left = self.left + 1
  if session then
    task.fork(await_async, self, session)
  else
    end_async_request(self, false, problem)
  end
end

-- `a:wait()`: waits until all requests have been answered. Raises the first error.
function async:wait()
  check_self("wait", self, async, "async")
  if self.left > 0 then wait_for_result(self) end
  local problem = self.problem
  self.problem = nil
  if problem ~= nil then error(problem, 0) end
end

-- `ltask.async()`: returns an object that sends requests and waits for all answers.
function M.async()
  return setmetatable({ left = 0, is_waiting = false }, async)
end

-- request (G1) --------------------------------------------------------------------------------

local request = {}
request.__index = request

local HIGHEST_ADDRESS <const> = 0xffffffff

local function check_request(call, one)
  local addr = type(one) == "table" and math.tointeger(tonumber(one[1]))
  if not addr or addr < 1 or addr > HIGHEST_ADDRESS then
    require("lio.misuse").bad(call, 1, "{ address, … } expected")
  end
end

-- `r:add{ addr, … }`: adds a request. Returns r. The program may use other fields of the table.
function request:add(one)
  check_self("add", self, request, "request")
  check_request("add", one)
  self.unsent[#self.unsent + 1] = one
  return self
end

request.__call = request.add

local function end_request(self, one, ok, ...)
  if self.closed then return end
  self.left = self.left - 1
  local results
  if ok then results = table.pack(...) else one.error = (...) end
  self.done[#self.done + 1] = { request = one, results = results }
  wake_waiter(self)
end

local function await_request(self, one, session)
  end_request(self, one, pcall(core.await, session))
end

local function send_all(self)
  local list = self.unsent
  self.unsent = {}
  for _, one in ipairs(list) do
    local session, problem = send("select", unpack_list(one))
    self.left = self.left + 1
    if session then
      task.fork(await_request, self, one, session)
    else
      end_request(self, one, false, problem)
    end
  end
end

local TIMEOUT <const> = {}

local function next_answer(self)
  send_all(self)
  while true do
    local answer = table.remove(self.done, 1)
    if answer then return answer.request, answer.results end
    if self.left == 0 or self.timed_out or self.closed then return nil end
    if wait_for_result(self) == TIMEOUT then self.timed_out = true end
  end
end

-- `for one, results in r:select([centiseconds]) do`: sends the requests, and yields each request with the list of its
-- results. If a request has failed, its field `error` is set and `results` is nil. The loop ends when all requests have
-- been answered, or when the time has passed. `r:close()` drops the remaining answers; so does the end of the scope of
-- `local r <close>`.
function request:select(timeout)
  check_self("select", self, request, "request")
  self.timed_out = false
  if timeout then
    require("lio.misuse").check_seconds("select", 1, timeout)
    local timer = {}
    self.timer = timer
    ltask.timeout(timeout, function()
      if self.timer ~= timer then return end
      self.timed_out = true
      wake_waiter(self, TIMEOUT)
    end)
  end
  return next_answer, self, nil, self
end

-- `r:close()`: drops the remaining answers.
function request:close()
  check_self("close", self, request, "request")
  self.closed = true
  self.timer = nil
end

request.__close = request.close

-- `ltask.request([one])`: returns an object that sends requests and returns the answers as they arrive.
function M.request(one)
  local self = setmetatable({ unsent = {}, done = {}, left = 0, is_waiting = false }, request)
  if one then
    check_request("request", one)
    self:add(one)
  end
  return self
end

-- parallel ------------------------------------------------------------------------------------

local function end_function(state, one, co, ok, ...)
  state.left = state.left - 1
  state.running[co] = nil
  state.done[#state.done + 1] = { entry = one, ok = ok, results = table.pack(...) }
  wake_waiter(state)
end

local function take_result(state)
  while #state.done == 0 do
    if state.left == 0 then return nil end
    wait_for_result(state)
  end
  return table.remove(state.done, 1)
end

-- The iterator of `parallel`: returns an entry, and the list of its results or a table that contains its error.
local function next_result(state)
  local result = take_result(state)
  if not result then return nil end
  if result.ok then return result.entry, result.results end
  local err = result.results[1]
  return result.entry, { error = err, rethrow = function() error(err, 0) end }
end

-- The iterator of `parallel` in G1: returns an entry and its results. At the end, raises the first error.
local function next_values(state)
  while true do
    local result = take_result(state)
    if not result then
      if state.problem ~= nil then error(state.problem, 0) end
      return nil
    end
    local results = result.results
    if result.ok then return result.entry, table.unpack(results, 1, results.n) end
    if state.problem == nil then state.problem = results[1] end
  end
end

local function check_entries(list)
  if type(list) ~= "table" then require("lio.misuse").argument("parallel", 1, "table", list) end
  for at, one in ipairs(list) do
    if type(one) ~= "table" then
      require("lio.misuse").bad("parallel", 1, ("[%d]: { function, … } expected, got %s"):format(at, type(one)))
    end
  end
end

-- `for one, result in ltask.parallel{ { f, … }, … } do`: runs the functions concurrently. The loop yields each entry
-- with the list of its results or, if the function has raised an error, with `{ error=, rethrow= }`. With `generation =
-- 1`, the loop yields the entry and the results themselves, and raises the first error at the end. If the loop is left
-- early, the functions that are still running are killed.
function M.parallel(list)
  check_entries(list)
  local state = { left = #list, done = {}, running = {}, is_waiting = false }
  for _, one in ipairs(list) do
    local co
    co = task.fork(function(f, ...)
      end_function(state, one, co, pcall(f, ...))
    end, unpack_list(one))
    state.running[co] = true
  end
  local killer = setmetatable({}, {
    __close = function()
      for co in pairs(state.running) do task.kill(co) end
    end,
  })
  local step = core.generation() == 1 and next_values or next_result
  return step, state, nil, killer
end

return M
