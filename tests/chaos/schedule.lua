-- The faults of processes and of their surroundings, in random order. director.lua runs both decks at the same time;
-- each deck contains every kind once and is then shuffled again, so a run of bounded length contains all kinds.
-- A fault is a function that begins it, waits, and ends it. Its argument `run` is the table of director.lua.

local loop = require "lio.loop"
local processes = require "processes"

local M = {}

local function pause_process(process, pid, seconds)
  process:signal("STOP", pid)
  loop.sleep(seconds)
  process:signal("CONT", pid)
end

M.processes = {
  ["stop server"] = function(run)
    local pid = run.server:program()
    if pid then pause_process(run.server, pid, run.random:draw() * 1.2) end
  end,
  ["stop client"] = function(run)
    local client = run.clients[run.random:draw(1, #run.clients)]
    pause_process(client, client.pid, run.random:draw() * 1.5)
  end,
  ["stop proxy"] = function(run) pause_process(run.proxy, run.proxy.pid, run.random:draw() * 0.8) end,
  ["kill client"] = function(run)
    local index = run.random:draw(1, #run.clients)
    run.killed[run.clients[index].name] = true
    run.clients[index]:signal "KILL"
    run.clients[index]:wait(5)
    run.clients[index] = run:start_client()
  end,
  -- No memory: the address space of the server cannot grow. Rust ends a process that needs memory and gets none; then
  -- the server is started again, and the ledger must be as complete as after kill -9.
  ["memory"] = function(run)
    local pid = run.server:program()
    if not pid then return end
    os.execute(("prlimit --pid %d --as=%d: 2>/dev/null"):format(pid,
      processes.status(pid, "VmSize") * 1024 + run.random:draw(0, 2000000)))
    loop.sleep(0.3 + run.random:draw())
    os.execute(("prlimit --pid %d --as=unlimited: 2>/dev/null"):format(pid))
    if run.has_died(pid) then
      run.aborted = run.aborted + 1
      run:revive()
    end
  end,
  ["kill server"] = function(run) run:kill_server() end,
  ["restart server"] = function(run) run:restart_server() end,
}

M.surroundings = {
  ["system calls"] = function(run)
    local rates, random = {}, run.random
    for _, name in ipairs { "accept", "socket", "connect", "recv", "send", "open", "write", "short", "sendfile",
      "epoll", "descriptor", "thread" } do
      rates[name] = random:draw() < 0.6 and random:draw(5000, 200000) or 0
    end
    run.server_shim:set(rates)
    rates.open, rates.write = 0, 0 -- the journal of a client must be complete
    run.client_shim:set(rates)
    loop.sleep(0.5 + random:draw() * 1.5)
    for name in pairs(rates) do rates[name] = 0 end
    run.server_shim:set(rates)
    run.client_shim:set(rates)
  end,
  ["signals"] = function(run)
    local rate = run.random:draw(50, 800)
    run.server_shim:set { storm = rate }
    run.client_shim:set { storm = rate // 4 }
    loop.sleep(0.5 + run.random:draw())
    run.server_shim:set { storm = 0 }
    run.client_shim:set { storm = 0 }
  end,
  ["clock"] = function(run)
    for _ = 1, 3 do
      run.server_shim:set { clock = run.random:draw(-100000, 100000) }
      run.client_shim:set { clock = run.random:draw(-400000000, 400000000) }
      loop.sleep(0.2 + run.random:draw() * 0.3)
    end
    run.server_shim:set { clock = 0 }
    run.client_shim:set { clock = 0 }
  end,
  ["descriptors"] = function(run)
    local pid = run.server:program()
    if not pid then return end
    local limit = processes.descriptors(pid) + run.random:draw(0, 3)
    os.execute(("prlimit --pid %d --nofile=%d: 2>/dev/null"):format(pid, limit))
    loop.sleep(0.5 + run.random:draw() * 1.5)
    os.execute(("prlimit --pid %d --nofile=1024: 2>/dev/null"):format(pid))
  end,
  ["disk full"] = function(run)
    local uploads = run.folder .. "/uploads"
    -- Fails if uploads have used the space in the meantime.
    local command = "mount -o remount,size=$(( $(df -k --output=used %s | tail -n 1) + %d ))k %s 2>/dev/null"
    for extra = 100, 1000, 300 do
      if os.execute(command:format(uploads, extra + run.random:draw(0, 300), uploads)) then break end
    end
    loop.sleep(0.5 + run.random:draw() * 1.5)
    processes.run("mount -o remount,size=1g %s", uploads)
  end,
  ["link down"] = function(run)
    if processes.loopback then return end
    local link = run.random:draw(1, 2) == 1 and "toclient" or "toserver"
    processes.run("ip -n %s link set %s down", run.proxy_namespace, link)
    loop.sleep(0.1 + run.random:draw() * 0.9)
    processes.run("ip -n %s link set %s up", run.proxy_namespace, link)
  end,
}

--- Leaves out the faults that end the server, for sabotages that show only after a while.
function M.keep_server()
  for _, name in ipairs { "memory", "kill server", "restart server" } do M.processes[name] = nil end
end

--- Injects the faults of a deck until `run.faults_end`, and each kind at least once. Counts them in `run.injected`.
function M.deal(run, deck)
  local pass = 0
  while true do
    pass = pass + 1
    local names = {}
    for name in pairs(deck) do names[#names + 1] = name end
    table.sort(names)
    for i = #names, 2, -1 do
      local j = run.random:draw(1, i)
      names[i], names[j] = names[j], names[i]
    end
    for _, name in ipairs(names) do
      while run.is_loading do loop.sleep(0.05) end
      if loop.now() > run.faults_end and pass > 1 then return end
      run.injected[name] = (run.injected[name] or 0) + 1
      run:log(name)
      deck[name](run)
      loop.sleep(0.1 + run.random:draw() * 0.3)
    end
  end
end

return M
