-- Runs a soak: `lio tests/soak/soak.lua name=value …`, called by run.sh. Starts the server and its clients, measures
-- how many operations a second they manage, then performs 70 % of that for `seconds`. Compares what the server holds
-- before and after, and lets it idle after a burst. The last line is "N passed, M failed". Other names: `lio`, `folder`
-- of the run, `tsv` and `svg` (paths of the results), `seed`, `sabotage`.

local here = arg[0]:match "^(.*)/"
package.path = ("%s/?.lua;%s/../chaos/?.lua;%s"):format(here, here, package.path)

local clients = require "clients"
local histogram = require "histogram"
local loop = require "lio.loop"
local plot = require "plot"
local processes = require "processes"
local samples = require "samples"
local state = require "state"

local options = {}
for _, text in ipairs(arg) do
  local name, value = text:match "^(%w+)=(.*)$"
  options[name] = value
end
local seconds, is_sabotaged = tonumber(options.seconds), options.sabotage ~= "none"

local LOAD <const> = 0.7 -- part of the rate that the calibration measures
local CLIENTS <const>, TASKS <const> = 2, 600 -- tasks of each client during the calibration
local CALIBRATION <const> = is_sabotaged and 2 or 10 -- seconds
local IDLE <const> = is_sabotaged and 25 or 60 -- seconds until memory has been returned
local QUIET <const> = is_sabotaged and 2 or 12 -- seconds without a change of resident memory: it has settled
-- Deadlines: of an operation, and of the server for slow clients, such as those of a burst.
local OPERATION <const>, SERVER <const> = is_sabotaged and 5 or 30, is_sabotaged and 15 or 60
local PATIENCE <const> = is_sabotaged and 5 or 20 -- seconds until the server holds as much as before
local BURST <const> = { connections = 1000, size = 150000 } -- of each client
local MIB <const> = 1024 -- KiB
-- Resident memory may grow by this much from the second quarter of the load to the last one, and is this close to its
-- former value when the server is idle.
local GROWTH <const>, MARGIN <const> = 4 * MIB, 16 * MIB

-- The memory of a coroutine that is kept for other tasks, in KiB. After the burst, each worker has one for each of its
-- connections.
local COROUTINE <const> = 2

local TICKS <const> = 100 -- a second: _SC_CLK_TCK on Linux

local run = { list = {} }
processes.folder, processes.loopback = options.folder, true

local passed, failed = 0, 0
local function check(ok, text, ...)
  if ok then passed = passed + 1 return end
  failed = failed + 1
  print("FAILED: " .. text:format(...))
end

-- Starts a program that prints the address that it serves. Returns the process and the address.
local function serve(name, command, ...)
  local process = processes.start(name, command:format(...), {})
  local stop_at = loop.now() + 20
  while loop.now() < stop_at do
    local address = process:output():match "lio: serving http://([%d.:]+)/"
    if address then return process, address end
    loop.sleep(0.02)
  end
  error(name .. " does not serve: " .. process:output(), 0)
end

local function start()
  local folder, chaos = options.folder, here .. "/../chaos"
  io.open(folder .. "/journal", "w"):close()
  local upstream, upstream_address = serve("upstream", "%s %s/upstream.lua 127.0.0.1:0", options.lio, chaos)
  local server, address = serve("server", "%s %s/server.lua %s/uploads 127.0.0.1:0 http://%s %s %d", options.lio,
    chaos, folder, upstream_address, options.sabotage, SERVER)
  run.upstream, run.server, run.direct = upstream, server, "http://" .. address
  run.clients = clients.start(CLIENTS, options.lio, here, address, options.seed, OPERATION)
end

-- Returns what /proc says about the server.
local function read_server()
  local pid = run.server:program()
  local stat = processes.read(("/proc/%d/stat"):format(pid)) or ""
  local user, system = stat:match("^%d+ %b() %a" .. (" %-?%d+"):rep(10) .. " (%d+) (%d+)")
  return {
    rss_kib = processes.status(pid, "VmRSS"), descriptors = processes.descriptors(pid),
    threads = processes.status(pid, "Threads"), cpu_s = (tonumber(user) + tonumber(system)) / TICKS,
  }
end

-- Adds a sample of the server in a phase. With an interval in seconds, asks the clients what has happened in it.
local function sample(phase, interval)
  local one = read_server()
  one.phase, one.seconds = phase, loop.now() - run.began
  if interval then
    local durations, done = histogram.new(), 0
    one.in_flight = 0
    for _, answer in ipairs(run.clients:ask "report") do
      histogram.merge(durations, answer.durations)
      done, one.in_flight = done + answer.done, one.in_flight + answer.in_flight
    end
    one.operations_per_s = (done - run.done) / interval
    run.done = done
    one.p50_ms, one.p99_ms = histogram.percentile(durations, 0.5) * 1e3, histogram.percentile(durations, 0.99) * 1e3
    one.max_ms = durations.max * 1e3
  end
  run.list[#run.list + 1] = one
  return one
end

-- Samples the load until it ends.
local function watch_load()
  local every = math.max(1, seconds / 300)
  local last = loop.now()
  while not run.load_has_ended do
    loop.sleep(every)
    if run.load_has_ended then return end
    local now = loop.now()
    local one = sample("load", now - last)
    last = now
    if #run.list % 10 == 0 then
      print(("%5.0f s: %4.0f operations/s, %d in flight, %d KiB, %d descriptors, %d threads, p99 %.1f ms"):format(
        one.seconds, one.operations_per_s, one.in_flight, one.rss_kib, one.descriptors, one.threads, one.p99_ms))
      io.stdout:flush()
    end
  end
end

-- Waits until resident memory has settled, at most `IDLE` seconds. Returns it.
local function resting_memory()
  local stop_at, since, before = loop.now() + IDLE, loop.now(), nil
  while true do
    local now = read_server().rss_kib
    if not before or math.abs(now - before) > 512 then before, since = now, loop.now() end
    if loop.now() - since >= QUIET or loop.now() >= stop_at then return now end
    loop.sleep(0.5)
  end
end

-- Waits until resident memory is at most `limit`. Returns the seconds that it took, and the memory. No request is sent
-- meanwhile.
local function await_memory(phase, limit)
  local began, next_sample = loop.now(), 0
  while true do
    local now = loop.now()
    local one = now >= next_sample and sample(phase) or read_server()
    if now >= next_sample then next_sample = now + 1 end
    if one.rss_kib <= limit or now - began > IDLE then
      sample(phase)
      return now - began, one.rss_kib
    end
    loop.sleep(0.1)
  end
end

local function calibrate()
  run.clients:ask("calibrate", { seconds = CALIBRATION / 4, tasks = TASKS })
  local sum = 0
  for _, answer in ipairs(run.clients:ask("calibrate", { seconds = CALIBRATION, tasks = TASKS })) do
    sum = sum + answer.operations
  end
  run.clients:ask "finish"
  return sum / CALIBRATION
end

local function compare(before, when)
  local now, found = state.compare(run, before, PATIENCE)
  for _, text in ipairs(found) do check(false, "%s: %s", when, text) end
  check(#found == 0, "%s, the server is not as it was before", when)
  if #found > 0 and now then print("descriptors: " .. state.kinds_that_differ(before, now)) end
end

local function check_memory_during_load()
  local second = samples.median(run.list, "load", "rss_kib", 0.25, 0.5)
  local last = samples.median(run.list, "load", "rss_kib", 0.75, 1)
  print(("resident memory during the load, medians: second quarter %d KiB, last quarter %d KiB"):format(second, last))
  check(last <= second + GROWTH, "resident memory grew by %d KiB during the load", last - second)
end

local function load(rate)
  run.began, run.done = loop.now(), 0
  for _, answer in ipairs(run.clients:ask "report") do run.done = run.done + answer.done end
  loop.fork(watch_load)
  run.clients:ask("load", { rate = rate / CLIENTS, seconds = seconds })
  run.load_has_ended = true
  run.totals = {}
  for _, answer in ipairs(run.clients:ask "finish") do
    for _, text in ipairs(answer.failures) do print("FAILED: " .. text) end
    for kind, count in pairs(answer.totals) do run.totals[kind] = (run.totals[kind] or 0) + count end
  end
  check(not run.totals.failed, "%d operations failed", run.totals.failed)
end

local function watch_burst()
  while not run.burst_has_ended do
    sample "burst"
    loop.sleep(0.5)
  end
end

local function burst(rest)
  local held, right = 0, 0
  loop.fork(watch_burst)
  for _, answer in ipairs(run.clients:ask("burst", BURST)) do
    held = held + answer.held
    if answer.message then print("burst: " .. answer.message) end
  end
  local peak = sample("burst").rss_kib
  for _, answer in ipairs(run.clients:ask "release") do
    right = right + answer.right
    for _, text in ipairs(answer.failures) do print("FAILED: " .. text) end
  end
  run.burst_has_ended = true
  check(held == CLIENTS * BURST.connections, "only %d connections of the burst were held", held)
  check(right == held, "only %d of %d answers of the burst were right", right, held)
  check(peak > rest + held * BURST.size / 1024 / 2, "the burst took no memory: %d KiB, at most %d", rest, peak)
  local after = sample("after").rss_kib
  local took, now = await_memory("after", rest + MARGIN)
  print(("burst of %d connections with %d bytes each: %d KiB before, %d at most, %d at its end, %d after %.1f s idle")
    :format(held, BURST.size, rest, peak, after, now, took))
  check(now <= rest + MARGIN, "%d KiB are resident %.1f s after the burst, %d before it", now, took, rest)
end

-- The files that the server has written: each acknowledged count is in the journal, and no part of an upload is left.
local function check_files()
  local lines = 0
  for line in io.lines(options.folder .. "/journal") do
    if line ~= "" then lines = lines + 1 end
  end
  check(lines == run.totals.count, "the journal has %d counts, but %d were acknowledged", lines, run.totals.count)
  local pipe <close> = assert(io.popen(("ls -A %s/uploads"):format(options.folder)))
  local parts = {}
  for name in pipe:lines() do
    if not name:find "^c%d+%-slot%-%d+$" then parts[#parts + 1] = name end
  end
  check(#parts == 0, "parts of uploads are left: %s", table.concat(parts, ", "))
end

local function stop()
  run.server:signal "TERM"
  check(run.server:wait(15) == 0, "the server ended with %s after SIGTERM", run.server:code())
  local log = run.server:output():gsub("lio: serving [^\n]*\n", "")
  check(log == "", "the server has printed: %s", log:sub(1, 2000))
  for i, code in ipairs(run.clients:close()) do
    check(code == 0, "client %d ended with %s: %s", i, code, run.clients.programs[i]:output():sub(-2000))
  end
  run.upstream:signal "TERM"
  run.upstream:wait(10)
end

local function print_totals()
  local list, sum = {}, 0
  for kind, count in pairs(run.totals) do
    list[#list + 1] = ("%s %d"):format(kind, count)
    sum = sum + count
  end
  table.sort(list)
  print(("operations (%d): %s"):format(sum, table.concat(list, ", ")))
  for _, column in ipairs { "rss_kib", "descriptors", "threads", "p50_ms", "p99_ms", "max_ms", "operations_per_s" } do
    print(("%s during the load: median %.1f, at most %.1f"):format(column,
      samples.median(run.list, "load", column, 0, 1), samples.most(run.list, "load", column)))
  end
end

local function round()
  start()
  local full = calibrate()
  local before = state.settled(run)
  local rest = resting_memory()
  print(("calibration: %.0f operations/s; load: %.0f; at rest: %d KiB resident, %d descriptors, %d threads"):format(
    full, full * LOAD, rest, before.exact.descriptors, before.exact.threads))
  load(full * LOAD)
  print_totals()
  check_memory_during_load()
  local took, now = await_memory("idle", rest + MARGIN)
  print(("resident memory after the load: %d KiB after %.1f s idle, %d before"):format(now, took, rest))
  check(now <= rest + MARGIN, "%d KiB are resident %.1f s after the load, %d before it", now, took, rest)
  check_files()
  compare(before, "after the load")
  if is_sabotaged and failed > 0 then return end
  burst(resting_memory())
  before.memory = before.memory + CLIENTS * BURST.connections * COROUTINE
  compare(before, "after the burst")
  stop()
end

print(("soak: %g s of load, seed %d%s"):format(seconds, options.seed,
  is_sabotaged and ", sabotage " .. options.sabotage or ""))
loop.run(function()
  local ok, problem = xpcall(round, debug.traceback)
  check(ok, "the soak failed: %s", problem)
  if options.tsv ~= "" then
    samples.write(options.tsv, run.list)
    plot.write(options.tsv, options.svg)
  end
  print(("%d passed, %d failed"):format(passed, failed))
  os.exit(failed == 0) -- the processes that a failure has left running end with their namespace
end)
