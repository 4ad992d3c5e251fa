-- Runs one round of tests/chaos: `lio tests/chaos/director.lua name=value …`, called by run.sh. Starts the processes,
-- injects faults, ends them, and checks the ledger. The last line is "N passed, M failed"; `seconds` of faults, `seed`,
-- `folder` of the run, `library` (faults.so), `namespaces` (a prefix, or "" for loopback), `sabotage`, `timed`.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path

local http = require "lio.http.client"
local loop = require "lio.loop"
local net = require "lio.net"
local processes = require "processes"
local random = require "random"
local schedule = require "schedule"
local state = require "state"
local verify = require "verify"

local options = {}
for _, text in ipairs(arg) do
  local name, value = text:match "^(%w+)=(.*)$"
  options[name] = value
end
local seed, seconds = math.tointeger(options.seed), tonumber(options.seconds)
local here, lio = arg[0]:match "^(.*)/", options.lio
local spaces = options.namespaces

local run = {
  folder = options.folder, random = random.new(seed, "director"), watch = seed % 2 == 0, injected = {}, killed = {},
  faultless = {}, clients = {}, proxy_namespace = spaces .. "p", names = {}, began = loop.now(), aborted = 0,
}
processes.folder, processes.loopback = options.folder, spaces == ""
local SERVER <const> = spaces == "" and "127.0.0.1" or "10.77.2.2"
local PROXY_IN <const> = spaces == "" and "127.0.0.1" or "10.77.1.1"
local PROXY_OUT <const> = spaces == "" and "127.0.0.1" or "10.77.2.1"
local PORTS <const> = { server = 7080, upstream = 7081, proxy = 7082, upstream_proxy = 7083 }
run.direct = ("http://%s:%d"):format(SERVER, PORTS.server)

local passed, failed = 0, 0
local function check(ok, text, ...)
  if ok then passed = passed + 1 return end
  failed = failed + 1
  if failed <= 40 then print("FAILED: " .. text:format(...)) end
end
local function report(...) check(false, ...) end

function run:log(text)
  local file <close> = assert(io.open(self.folder .. "/events.log", "a"))
  file:write(("%.2f %s\n"):format(loop.now() - self.began, text))
end

-- Processes ------------------------------------------------------------------------------------------------

function run:start_server()
  self:await_quiet_start()
  os.execute(("rm -f %s/uploads/*.part"):format(self.folder))
  local command = ("%s %s%s/server.lua %s/uploads %s:%d http://%s:%d %s"):format(lio, self.watch and "--watch " or "",
    here, self.folder, SERVER, PORTS.server, PROXY_OUT, PORTS.upstream_proxy, options.sabotage)
  self.server = processes.start("server", command, {
    namespace = spaces .. "s", shim = self.server_shim.path, library = options.library, seed = seed,
    watched = self.watch,
  })
end

-- Ends the faults of system calls, which would also hit the loading of the program, until the server answers.
function run:await_quiet_start()
  self.is_loading = true
  self.server_shim:quiet()
end

-- Waits until the server answers. It must not have ended by itself.
function run:await_server()
  local stop_at = loop.now() + 15
  local client <close> = http.new { timeout = 1, max_idle = 0 }
  repeat
    local res = client:get(self.direct .. "/echo/ready?size=1")
    if res and res.status == 200 then
      self.is_loading = false
      return
    end
    loop.sleep(0.05)
  until loop.now() > stop_at
  self.is_loading = false
  report("the server does not answer within 15 s")
end

function run:start_client()
  local name = "c" .. #self.names + 1
  self.names[#self.names + 1] = name
  local left = math.max(self.faults_end - loop.now() + 0.5, 0.5)
  return processes.start(name, ("%s %s/client.lua %s:%d %d %s %s/%s.journal %.1f 6 killing"):format(lio, here, PROXY_IN,
    PORTS.proxy, seed, name, self.folder, name, left), {
    namespace = spaces .. "c", shim = self.client_shim.path, library = options.library, seed = seed + #self.names,
    shim_grace = 2,
  })
end

-- A client without faults, directly or through the proxy: each of its operations must succeed.
local function faultless_client(name, where, namespace, duration)
  run.names[#run.names + 1], run.faultless[name] = name, true
  local client = processes.start(name, ("%s %s/client.lua %s %d %s %s/%s.journal %.1f 4"):format(lio, here, where, seed,
    name, run.folder, name, duration), { namespace = spaces .. namespace })
  if not client:wait(duration + 4) then
    processes.dump(spaces, run.server:program(), run.proxy.pid, client.pid)
    print(("the client %s is late:\n%s"):format(name, processes.read(run.folder .. "/late.txt")))
  end
  check(client:wait(duration + 45) == 0, "the client %s ended with %s: %s", name, client:code(), client:output())
end

--- Returns whether a program of the server has ended.
function run.has_died(pid)
  local stat = processes.read(("/proc/%d/stat"):format(pid)) or ""
  return not stat:find "^%d+ %b() [^Z]"
end

--- Starts the program of the server again.
function run:revive()
  os.execute(("rm -f %s/uploads/*.part"):format(self.folder))
  if self.watch then
    self:await_quiet_start()
    self.server:signal "HUP"
  else
    self.server:wait(5)
    self:start_server()
  end
  self:await_server()
end

-- Uses up the descriptors while both workers have connections to accept: each then keeps a timer for its pauses. So the
-- states before and after the faults can be compared.
function run:exhaust()
  local pid, held = self.server:program(), {}
  processes.run("prlimit --pid %d --nofile=%d:", pid, (processes.descriptors(pid)))
  for i = 1, 40 do held[i] = net.connect(SERVER, PORTS.server, { timeout = 2 }) end
  loop.sleep(0.3)
  processes.run("prlimit --pid %d --nofile=1024:", pid)
  for _, c in ipairs(held) do c:close() end
end

function run:kill_server()
  local pid = self.server:program()
  if not pid then return end
  self.server:signal("KILL", pid)
  while not self.has_died(pid) do loop.sleep(0.02) end
  self:revive()
end

-- Returns how often the server has printed its address.
local function servings(server) return select(2, server:output():gsub("lio: serving", "")) end

-- A previous process must end after its SIGTERM: its grace period is 3 s.
local function await_end(pid)
  local stop_at = loop.now() + 15
  while not run.has_died(pid) and loop.now() < stop_at do loop.sleep(0.1) end
  check(run.has_died(pid), "the previous process has not ended 15 s after SIGHUP")
end

-- Stops the server gracefully and starts it again. Under --watch, the new process serves before the old one stops.
function run:restart_server()
  local pid = self.server:program()
  if self.watch then
    local before, stop_at = servings(self.server), loop.now() + 15
    self:await_quiet_start()
    self.server:signal "HUP"
    while servings(self.server) == before and loop.now() < stop_at do loop.sleep(0.05) end
    if pid then loop.fork(await_end, pid) end
  else
    self.server:signal "TERM"
    check(self.server:wait(10) == 0, "the server ended with %s after SIGTERM", self.server:code())
    self:start_server()
  end
  self:await_server()
end

-- The round ------------------------------------------------------------------------------------------------

local function prepare()
  run.server_shim = require("shim").new(run.folder .. "/server.shim")
  run.client_shim = require("shim").new(run.folder .. "/client.shim")
  io.open(run.folder .. "/journal", "w"):close()
  run.upstream = processes.start("upstream", ("%s %s/upstream.lua %s:%d"):format(lio, here, SERVER, PORTS.upstream),
    { namespace = spaces .. "s" })
  run.proxy = processes.start("proxy", ("%s %s/proxy.lua %d %s/proxy.counts %s:%d %s:%d %s:%d %s:%d"):format(lio, here,
    seed, run.folder, PROXY_IN, PORTS.proxy, SERVER, PORTS.server, PROXY_OUT, PORTS.upstream_proxy, SERVER,
    PORTS.upstream), { namespace = spaces .. "p" })
  run:start_server()
  run:await_server()
end

-- Watches that no process ends unless a fault ended it.
local function watch_processes()
  while not run.over do
    loop.sleep(0.2)
    if run.upstream:code() or run.proxy:code() then return report("the upstream server or the proxy has ended") end
  end
end

local function inject()
  run.faults_end = loop.now() + seconds
  run.proxy:signal "USR2"
  for i = 1, 3 do run.clients[i] = run:start_client() end
  loop.sleep(0.3)
  local left = 2
  if options.sabotage ~= "none" then schedule.keep_server() end
  for _, deck in ipairs { schedule.processes, schedule.surroundings } do
    loop.fork(function()
      schedule.deal(run, deck)
      left = left - 1
    end)
  end
  while left > 0 do loop.sleep(0.05) end
  run.server_shim:quiet()
  run.client_shim:quiet()
  run.proxy:signal "USR1"
  run:log "the faults have ended"
  for _, client in ipairs(run.clients) do
    check(client:wait(45) == 0, "the client %s ended with %s: %s", client.name, client:code(),
      client:output():sub(-2000))
  end
end

local function get_json(path)
  local res, message = http.get(run.direct .. path, { timeout = 10 })
  http.close_idle()
  if not res or res.status ~= 200 then
    report("%s: %s", path, message or res.body)
    return {}
  end
  return res:json()
end

local function compare(before, speed)
  local now, found = state.compare(run, before)
  for _, text in ipairs(found) do report("%s", text) end
  if not now then
    print(("the server ended with %s; its log:\n%s"):format(run.server:code(), run.server:output():sub(-3000)))
  end
  if now and #found > 0 then
    print("descriptors: " .. state.kinds_that_differ(before, now))
    for name, count in pairs(now.services) do
      if count ~= before.services[name] then print("services: " .. name, before.services[name], count) end
    end
    for _, worker in ipairs(get_json "/tasks") do
      for _, one in ipairs(worker) do print("task: " .. one) end
    end
  end
  check(#found == 0, "the server is not as it was before the faults")
  local after = state.speed(run)
  print(("memory of the workers %d → %d KiB, resident %d → %d KiB, a request %.0f → %.0f µs"):format(before.memory,
    now and now.memory or -1, before.rss, now and now.rss or -1, speed * 1e6, after * 1e6))
  check(options.timed ~= "1" or after < speed * 5 + 0.002, "the server has become slow")
end

-- The server must not print an error that no injected fault explains.
local function check_log()
  for line in run.server:output():gmatch "[^\n]+" do
    -- Without memory, Rust cannot start a thread: it has no alternative stack for the thread's signals.
    local is_panic = line:find "panicked" and not line:find "stack_overflow.rs"
    if is_panic or line:find "attempt to" or line:find "is looping" then report("server: %s", line) end
  end
end

-- Each kind of fault must have happened.
local function check_kinds()
  if options.sabotage ~= "none" then return end
  for _, deck in ipairs { schedule.processes, schedule.surroundings } do
    for name in pairs(deck) do check(run.injected[name], "no fault of the kind '%s' was injected", name) end
  end
end

local function print_figures(summary, errors)
  local function line(title, counts)
    local list, sum = {}, 0
    for name, count in pairs(counts) do
      if count ~= 0 then list[#list + 1] = ("%s %d"):format(name, count) end
      sum = sum + count
    end
    table.sort(list)
    print(("%s (%d): %s"):format(title, sum, table.concat(list, ", ")))
    return sum
  end
  for kind, counts in pairs(summary) do line("operations " .. kind, counts) end
  line("failures of operations", errors)
  line("faults of processes and surroundings", run.injected)
  line("faults of system calls, server", run.server_shim:counts())
  line("faults of system calls, clients", run.client_shim:counts())
  local connections = {}
  for kind, count in processes.read(run.folder .. "/proxy.counts"):gmatch "(%S+) (%d+)" do
    connections[kind] = math.tointeger(count)
  end
  line("connections of the proxy", connections)
end

local function round()
  prepare()
  loop.fork(watch_processes)
  faultless_client("before", ("%s:%d"):format(SERVER, PORTS.server), "s", 1.5)
  run:exhaust()
  local speed = state.speed(run)
  local before = state.settled(run)
  inject()
  faultless_client("after", ("%s:%d"):format(PROXY_IN, PORTS.proxy), "c", 1.5)
  faultless_client("direct", ("%s:%d"):format(SERVER, PORTS.server), "s", 1.5)
  run:exhaust()
  compare(before, speed)
  local summary, errors = verify.check(run, run.names, get_json "/counts", report)
  check(next(summary), "no operation was performed")
  check_kinds()
  print_figures(summary, errors)
  if run.aborted > 0 then print(("the server ended %d times because it got no memory"):format(run.aborted)) end
  run.over = true
  run.server:signal "TERM"
  check(run.server:wait(10) == 0, "the server ended with %s after SIGTERM", run.server:code())
  check_log()
  run.proxy:signal "KILL"
  run.upstream:signal "KILL"
end

print(("chaos: seed %d, %g s of faults, %s%s%s"):format(seed, seconds,
  spaces == "" and "loopback" or "network namespaces", run.watch and ", lio --watch" or "",
  options.sabotage ~= "none" and ", sabotage " .. options.sabotage or ""))
local ok, problem = pcall(loop.run, round)
check(ok, "the round failed: %s", problem)
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
