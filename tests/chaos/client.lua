-- A client: `lio tests/chaos/client.lua ADDR:PORT SEED NAME JOURNAL SECONDS TASKS [killing]`. TASKS tasks perform
-- random operations for SECONDS seconds, then the client waits for those that have not ended. With "killing", kills
-- some operations in the middle.
-- Each line of JOURNAL has fields separated by tabs, and is written before the client continues:
--   begin ID KIND TIME | size ID BYTES | end ID OUTCOME SECONDS DETAIL | stuck ID WHERE | kept WHAT | done

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path

local http = require "lio.http.client"
local lio = require "lio"
local loop = require "lio.loop"
local operations = require "operations"
local random = require "random"
local task = require "lio.task"
local thread = require "lio.thread"
local timers = require "lio.loop.timers"

local address, seed, name, path, seconds, tasks, killing = table.unpack(arg)
seed, seconds, tasks = math.tointeger(seed), tonumber(seconds), math.tointeger(tasks)
local host, port = address:match "^(.*):(%d+)$"

-- Seconds for an operation. Without faults, only a machine that is overloaded or stopped makes operations slow.
local DEADLINE <const> = killing and 6 or 20
local SLACK <const> = 12 -- seconds after which an operation is stuck; processes are stopped meanwhile

local journal = assert(io.open(path, "a"))
journal:setvbuf "line"
local function note(...)
  for _, text in ipairs { ... } do assert(not tostring(text):find "[\t\n]" or error(text)) end
  journal:write(table.concat({ ... }, "\t"), "\n")
end

local running = {} -- id: { thread, when it began }
local number = 0

local function perform(context, kind, id)
  local began = loop.now()
  note("begin", id, kind, ("%.3f"):format(began))
  local work = thread.spawn(operations.perform, kind, context, id)
  running[id] = { work = work, began = began }
  if killing and context.random:draw() < 0.04 then
    loop.sleep(context.random:draw() * 0.2)
    thread.kill(work)
  end
  local ok, outcome, detail = thread.wait(work)
  running[id] = nil
  if not ok then outcome, detail = outcome == "killed" and "error" or "wrong", tostring(outcome) end
  note("end", id, outcome, ("%.3f"):format(loop.now() - began), (tostring(detail):gsub("[\t\n]", " ")))
  return outcome
end

local function work(index, client)
  local own = random.new(seed, name .. ":" .. index)
  local context = {
    http = client, host = host, port = math.tointeger(port), base = "http://" .. address, random = own,
    seconds = DEADLINE, note = note,
  }
  local stop_at = loop.now() + seconds
  while loop.now() < stop_at do
    number = number + 1
    local outcome = perform(context, own:choose(operations.weights), ("%s-%d"):format(name, number))
    -- A server that refuses connections would otherwise be asked thousands of times a second.
    loop.sleep(own:draw() * (outcome == "ack" and 0.01 or 0.4))
  end
end

-- Waits for the operations; reports those that do not end.
local function supervise(left)
  local stop_at = loop.now() + seconds + DEADLINE + SLACK
  while left() > 0 and loop.now() < stop_at do loop.sleep(0.05) end
  if left() == 0 then return end
  for id in pairs(running) do
    local where = {}
    for _, one in ipairs(lio.tasks()) do where[#where + 1] = tostring(one.waits_for) end
    note("stuck", id, table.concat(where, "; "))
  end
  os.exit(1)
end

-- Returns the open descriptors: for each number the text of its fdinfo.
local function descriptors()
  local open = {}
  for fd = 0, 255 do
    local info = io.open(("/proc/self/fdinfo/%d"):format(fd))
    if info then
      open[fd] = info:read "a"
      info:close()
    end
  end
  return open
end

local function held()
  local open, count = descriptors(), 0
  for _ in pairs(open) do count = count + 1 end
  return { tasks = task.count(), timers = timers.queue:count(), descriptors = count }, open
end

-- Compares the client's state at its end with that at its start; connections may need a moment to end.
local function compare(before, open_before)
  local stop_at = loop.now() + 8
  local now, open
  repeat
    loop.sleep(0.05)
    collectgarbage()
    now, open = held()
    local same = true
    for what, count in pairs(before) do same = same and now[what] == count end
    if same then return end
  until loop.now() > stop_at
  for what, count in pairs(before) do
    if now[what] ~= count then note("kept", ("%d %s instead of %d"):format(now[what], what, count)) end
  end
  for fd, info in pairs(open) do
    if not open_before[fd] then note("kept", ("descriptor %d: %s"):format(fd, info:gsub("%s+", " "))) end
  end
  for _, one in ipairs(lio.tasks()) do note("kept", (one.traceback:gsub("%s+", " "))) end
end

loop.run(function()
  local before, open_before = held()
  local client = http.new {
    base_url = "http://" .. address, timeout = DEADLINE, connect_timeout = DEADLINE / 2, idle_timeout = 1,
  }
  local left = tasks
  for index = 1, tasks do
    loop.fork(function()
      work(index, client)
      left = left - 1
    end)
  end
  supervise(function() return left end)
  client:close()
  compare(before, open_before)
  note "done"
  journal:close()
end)
