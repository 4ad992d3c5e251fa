-- The state of the server: descriptors, threads, tasks, timers, services, connections, memory; and its speed.
-- director.lua takes it before the faults and after them, tests/soak before the load and after it.

local http = require "lio.http.client"
local loop = require "lio.loop"
local processes = require "processes"

local M = {}

local EXACT <const> = { "tasks", "timers", "timeouts", "connections", "outgoing" }

-- Returns the state; or nil and a message. The request for it has one connection, one task and one timer itself.
local function take(run)
  local client <close> = http.new { timeout = 5, max_idle = 0 }
  local res, message = client:get(run.direct .. "/probe")
  if not res then return nil, message end
  if res.status ~= 200 then return nil, res.body end
  local state = res:json()
  local pid = run.server:program()
  state.exact = { services = state.number, workers = state.workers }
  for _, name in ipairs(EXACT) do state.exact[name] = state.counts[name] end
  state.exact.descriptors, state.kinds = processes.descriptors(pid)
  state.exact.threads = processes.status(pid, "Threads")
  state.memory = state.counts.memory // 1
  state.rss = processes.status(pid, "VmRSS")
  return state
end

-- Returns a description of each number that differs.
local function differences(before, now)
  local list = {}
  for name, count in pairs(before.exact) do
    if now.exact[name] ~= count then
      list[#list + 1] = ("%s: %s before, %s after"):format(name, count, now.exact[name])
    end
  end
  if now.memory > before.memory * 1.25 + 512 then
    list[#list + 1] = ("memory of the workers: %d KiB before, %d after"):format(before.memory,
      now.memory)
  end
  table.sort(list)
  return list
end

--- Takes the state when it has been the same for a second and has one connection: that of the request. Raises if that
-- takes more than 20 s.
function M.settled(run)
  local stop_at, before = loop.now() + 20, nil
  repeat
    local now, message = take(run)
    assert(now, message)
    if before and now.exact.connections == 1 and #differences(before, now) == 0 and #differences(now, before) == 0 then
      return now
    end
    before = now
    loop.sleep(1)
  until loop.now() > stop_at
  error "the server does not come to rest"
end

--- Waits until the state equals an earlier one, at most `seconds` (20). Returns the last state and a list of
-- differences.
function M.compare(run, before, seconds)
  local stop_at = loop.now() + (seconds or 20)
  while true do
    local now, message = take(run)
    local found = now and differences(before, now) or { "the server does not answer: " .. tostring(message) }
    if #found == 0 or loop.now() > stop_at then return now, found end
    loop.sleep(0.5)
  end
end

--- Returns the descriptors by kind whose numbers differ, as a text.
function M.kinds_that_differ(before, now)
  local texts = {}
  for kind, count in pairs(now.kinds) do
    if count ~= (before.kinds[kind] or 0) then
      texts[#texts + 1] = ("%s %d→%d"):format(kind, before.kinds[kind] or 0, count)
    end
  end
  return table.concat(texts, ", ")
end

--- Returns the median seconds of 300 small requests on one connection.
function M.speed(run)
  local client <close> = http.new { timeout = 5 }
  local times = {}
  for i = 1, 300 do
    local began = loop.now()
    local res, message = client:get(run.direct .. "/echo/speed?size=100")
    if not res or res.status ~= 200 then error("the speed cannot be measured: " .. tostring(message or res.status)) end
    times[i] = loop.now() - began
  end
  table.sort(times)
  return times[150]
end

return M
