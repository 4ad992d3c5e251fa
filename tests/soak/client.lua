-- A client: `lio tests/soak/client.lua CONTROL ADDR:PORT SEED NAME SECONDS`. Connects to the port CONTROL of soak.lua,
-- and obeys its commands: one JSON object in each line, with the field `command`, a key of `commands`. Answers each
-- command with a line, when it is done. SECONDS is the deadline of an operation.

local here = arg[0]:match "^(.*)/"
package.path = ("%s/?.lua;%s/../chaos/?.lua;%s"):format(here, here, package.path)

local burst = require "burst"
local churn = require "churn"
local histogram = require "histogram"
local http = require "lio.http.client"
local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"
local random = require "random"

local control, address, seed, name, seconds = table.unpack(arg)
local host, port = address:match "^(.*):(%d+)$"

local CAP <const> = 1000 -- operations in flight; an arrival above it is a failure
local SECONDS <const> = tonumber(seconds)
local SLOTS <const> = 2 * CAP -- ids of counts and uploads, which the server keeps; so they are used again
-- Operations whose duration is measured: those that do not wait on purpose.
local TIMED <const> = {
  echo = true, count = true, body = true, ["upload form"] = true, ["upload body"] = true,
}
local STORED <const> = {
  count = true, ["upload form"] = true, ["upload body"] = true, ["stored upload"] = true,
}

local generator = random.new(math.tointeger(seed), name)
local totals, failures = {}, {} -- operations by kind; descriptions of those that failed
local done, in_flight, number, slot = 0, 0, 0, 0
local busy = {} -- how many operations of each kind are in flight
local durations = histogram.new() -- since the last report
local clients -- with kept connections, and with a new connection for each request

local function open_clients()
  local options = {
    base_url = "http://" .. address, timeout = SECONDS, connect_timeout = SECONDS, idle_timeout = 1,
  }
  local kept = http.new(options)
  options.max_idle = 0
  clients = { kept, http.new(options) }
end

local function fail(kind, id, detail)
  totals.failed = (totals.failed or 0) + 1
  if #failures < 20 then failures[#failures + 1] = ("%s %s: %s"):format(kind, id, detail) end
end

local function new_id(kind)
  number = number + 1
  if not STORED[kind] then return ("%s-%d"):format(name, number) end
  slot = slot % SLOTS + 1
  return ("%s-slot-%d"):format(name, slot)
end

-- Performs an operation that was due at the time `due`.
local function perform(kind, due)
  local id = new_id(kind)
  local context = {
    http = clients[generator:draw(1, 2)], host = host, port = math.tointeger(port), base = "http://" .. address,
    random = generator, seconds = SECONDS, silence = SECONDS, note = function() end,
  }
  in_flight, busy[kind] = in_flight + 1, (busy[kind] or 0) + 1
  local ok, outcome, detail = pcall(churn.perform, kind, context, id)
  in_flight, busy[kind] = in_flight - 1, busy[kind] - 1
  done = done + 1
  if ok and outcome == "ack" then
    totals[kind] = (totals[kind] or 0) + 1
    if TIMED[kind] then histogram.add(durations, loop.now() - due) end
  else
    fail(kind, id, ("%s %s"):format(outcome, detail))
  end
end

local commands = {}

-- Performs operations with `tasks` tasks, each as fast as it can, for some seconds. Returns the number of operations.
function commands.calibrate(order)
  local before, stop_at, left = done, loop.now() + order.seconds, order.tasks
  for _ = 1, order.tasks do
    loop.fork(function()
      while loop.now() < stop_at do perform(generator:choose(churn.weights), loop.now()) end
      left = left - 1
    end)
  end
  loop.sleep(order.seconds)
  local result = { operations = done - before }
  while left > 0 do loop.sleep(0.05) end
  return result
end

-- Begins `rate` operations a second, independently of how fast they end.
function commands.load(order)
  local due, stop_at = loop.now(), loop.now() + order.seconds
  while due < stop_at do
    due = due - math.log(1 - generator:draw()) / order.rate
    if due > loop.now() then loop.sleep(due - loop.now()) end
    local kind = generator:choose(churn.weights)
    if in_flight < CAP then
      loop.fork(perform, kind, due)
    else
      fail(kind, "-", "more than " .. CAP .. " operations are in flight")
    end
  end
  return {}
end

-- Returns the numbers since the last report.
function commands.report()
  local result = { durations = durations, done = done, in_flight = in_flight }
  durations = histogram.new()
  return result
end

-- Waits until all operations have ended, and closes all connections. Returns the totals.
function commands.finish()
  local stop_at = loop.now() + 2 * SECONDS
  while in_flight > 0 and loop.now() < stop_at do loop.sleep(0.05) end
  for kind, count in pairs(busy) do
    if count > 0 then fail(kind, "-", count .. " have not ended") end
  end
  for _, one in ipairs(clients) do one:close() end
  open_clients()
  return { totals = totals, failures = failures }
end

-- Opens connections that send most of a body each; `release` then sends the rest, and checks the answers.
function commands.burst(order) return burst.hold(host, math.tointeger(port), name, order) end
function commands.release()
  local right = burst.release(fail)
  return { right = right, failures = failures }
end

loop.run(function()
  open_clients()
  local c <close> = assert(net.connect("127.0.0.1", math.tointeger(control)))
  for line in function() return c:recv("until", "\n") end do
    loop.fork(function()
      local order = json.decode(line)
      local result = commands[order.command](order)
      result.number = order.number
      c:send(json.encode(result), "\n")
    end)
  end
  os.exit(0)
end)
