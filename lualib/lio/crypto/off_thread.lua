-- `off_thread(kind, password, …)` runs a job of `lio.crypto.password` on another thread and returns its results. Called
-- by lio/crypto.lua.
--
-- In a service, the other thread posts a response, and the task waits as in `ltask.call`. In a task of a loop, it wakes
-- the loop's selector, as `lio.resolver` does. Elsewhere nothing else can run meanwhile: the call blocks the thread.

local drivers = require "lio.net.driver"
local native = require "lio.crypto.password"

-- The jobs that the tasks of one driver wait for. While there are any, this object is a hook of the driver, so that it
-- can collect the results.
local Jobs = {}
Jobs.__index = Jobs

local TOKEN <const> = { stands_for = "a password hash" }

local by_driver = setmetatable({}, { __mode = "k" })

-- Returns the jobs of a driver; or nil, message, code.
local function jobs_of(driver)
  local jobs = by_driver[driver]
  if jobs then return jobs end
  local waker, message, code = driver.selector:waker()
  if not waker then return nil, message, code end
  jobs = setmetatable({ driver = driver, native = native.jobs(waker), tokens = {}, count = 0 }, Jobs)
  by_driver[driver] = jobs
  return jobs
end

function Jobs.before_wait() end

local function take(self, id, ...)
  if not id then return false end
  local token = self.tokens[id]
  self.tokens[id] = nil
  self.count = self.count - 1
  if self.count == 0 then self.driver:remove_hooks(self) end
  self.driver:expect(-1)
  -- A task that was killed does not need the result.
  self.driver.scheduler.wakeup(token, ...)
  return true
end

-- Takes the results that have arrived, and wakes the tasks that wait for them.
function Jobs:after_events()
  while take(self, self.native:answer()) do end
end

local function wait_in_loop(driver, ...)
  local jobs, message, code = jobs_of(driver)
  if not jobs then return nil, message, code end
  local id
  id, message, code = jobs.native:start(...)
  if not id then return nil, message, code end
  local token = setmetatable({}, TOKEN)
  jobs.tokens[id] = token
  if jobs.count == 0 then driver:add_hooks(jobs) end
  jobs.count = jobs.count + 1
  driver:expect(1)
  return driver.scheduler.wait(token)
end

-- Returns the driver whose loop can wake the running task; nil if there is none.
local function driver_of_task()
  if not coroutine.isyieldable() then return nil end
  local loop, net = package.loaded["lio.loop"], package.loaded["lio.net"]
  if type(loop) ~= "table" then loop = nil end
  if loop and loop.drives() and loop.running() then return drivers.of(loop.net) end
  -- The program may have its own scheduler (`net.new`).
  local instance = type(net) == "table" and rawget(net, "instance")
  if instance and not (loop and loop.net == instance) then return drivers.of(instance) end
end

return function(...)
  local session, message, code = native.post(...)
  if session then return require("ltask.core").await(session) end
  if session == nil then return nil, message, code end
  local driver = driver_of_task()
  if driver then return wait_in_loop(driver, ...) end
  return native.run(...)
end
