-- Counts what the server holds, for the comparison before and after the faults: `GET /probe` on any worker.
-- Each worker answers the request `probe` of the others with its tasks, timers and connections.

local http = require "lio.http.client"
local loop = require "lio.loop"
local ltask = require "ltask"
local task = require "lio.task"
local timers = require "lio.loop.timers"

local M = {}

local function own_counts(app, client)
  client:close_idle()
  http.close_idle()
  collectgarbage()
  collectgarbage()
  local connections = 0
  for _, server in ipairs(app.servers) do connections = connections + server.count end
  return {
    tasks = task.count(), timers = timers.queue:count(), timeouts = timers.pending, connections = connections,
    outgoing = client:counts().open, memory = collectgarbage "count",
  }
end

-- Returns the tracebacks of a worker's tasks: shown if their number differs.
local function traces(address)
  local list = {}
  for _, one in ipairs(ltask.syscall(address, "tasks")) do
    list[#list + 1] = ("%s %.1fs %s %s"):format(one.status, one.age, one.waits_for or "-", one.traceback)
  end
  return list
end

--- Makes this worker answer probes. `ledger()` returns the address of the service that knows the workers.
function M.install(app, client, ledger)
  ltask.dispatch().probe = function() return own_counts(app, client) end
  loop.fork(function() ltask.call(ledger(), "enroll", ltask.self()) end)

  app:get("/probe", function()
    local sum, services, number = {}, {}, 0
    local workers = ltask.call(ledger(), "workers")
    for _, worker in ipairs(workers) do
      for name, value in pairs(ltask.call(worker, "probe")) do sum[name] = (sum[name] or 0) + value end
    end
    for _, one in pairs(ltask.call(1, "stat")) do
      services[one.label] = (services[one.label] or 0) + 1
      number = number + 1
    end
    return { counts = sum, services = services, number = number, workers = #workers }
  end)
  app:get("/tasks", function()
    local all = {}
    for _, worker in ipairs(ltask.call(ledger(), "workers")) do all[#all + 1] = traces(worker) end
    return all
  end)
  app:get("/counts", function() return ltask.call(ledger(), "counts") end)
end

return M
