-- The scheduler under random load: services that spawn, send, call, kill, quit, sleep, fork, set timers and raise
-- errors. The mailboxes are small; about half of the services wait when a mailbox is full, and some services have their
-- own threads. The caller and the called service both log each request. At the end no request may be lost, answered
-- twice or executed twice, all mailboxes must be empty, and no service may still be waiting. Called by tests/run.sh
-- --long, by ltask_memcheck.sh, or by hand:
--   lio tests/long/ltask_stress.lua [seconds (60) [seed [workers (1,2,8) [actors (16)]]]]

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local seconds = tonumber(arg[1]) or 60
local seed = tonumber(arg[2]) or os.time() % 100000
local workers = arg[3] or "1,2,8"
local actors = tonumber(arg[4]) or 16
-- A stopped system must become idle within this number of seconds. Under memcheck the number is higher.
local patience = tonumber(os.getenv "LIO_STRESS_PATIENCE") or 60

print(("seed %d, %g s with each of %s workers"):format(seed, seconds, workers))
io.stdout:flush()

local main <const> = [[
local ltask = require "ltask"
local dir, actors, seconds, seed, patience = ...
local random <const> = math.random
math.randomseed(seed)

local function say(...)
  io.stdout:write(table.concat({ ... }, " ") .. "\n")
  io.stdout:flush()
end

local spawned, living = 0, {}

local function spawn()
  spawned = spawned + 1
  local me = {
    number = tostring(spawned), seed = random(1 << 30), dir = dir, full = random(2) == 1 and "wait" or "error",
    event = random(5) == 1, pause = random(16) > 1 and random(8) or nil,
  }
  local peers = { ltask.self() + 100000 } -- the address of no service
  for _, addr in pairs(living) do peers[#peers + 1] = addr end
  return ltask.spawn("ltask_stress_server", me, peers)
end

local function stat(why)
  say(why)
  for id, one in pairs(ltask.call(1, "stat")) do
    say(("  %d %s: %d messages, %d queued (most %d), %d resumes"):format(
      id, one.label, one.messages, one.queue, one.queue_max, one.resumes))
  end
end

-- Prints the requests that the actor at `addr` waits for. Called if the actor does not become idle.
local function show_left(addr)
  local ok, open, loops = pcall(ltask.call, addr, "left")
  if not ok then return say("  ", addr, tostring(open)) end
  for id, what in pairs(open) do say(("  service %d waits for %s (%s)"):format(addr, id, what)) end
  say(("  service %d has %d loops left"):format(addr, loops))
end

local function all_actors()
  local list = {}
  for id, one in pairs(ltask.call(1, "stat")) do
    if one.label == "ltask_stress_server" then list[#list + 1] = id end
  end
  return list
end

-- Calls the handler `what` of all actors. If the mailbox of an actor is full, calls it again. An actor may have ended;
-- an actor that does not answer in time is a fault.
local function ask_all(what)
  local list, left = all_actors(), {}
  local over, waiting = {}, #list
  for _, addr in ipairs(list) do
    left[addr] = true
    ltask.fork(function()
      repeat
        local ok, err = pcall(ltask.call, addr, what)
        local busy = not ok and tostring(err):find("is busy", 1, true)
        if busy then ltask.sleep(1) end
      until not busy
      left[addr], waiting = nil, waiting - 1
      if waiting == 0 then ltask.wakeup(over) end
    end)
  end
  ltask.timeout(patience * 100, function() ltask.wakeup(over) end)
  if waiting > 0 then ltask.wait(over) end
  if waiting == 0 then return end
  stat("HUNG: " .. waiting .. " services do not answer to " .. what)
  for addr in pairs(left) do ltask.fork(show_left, addr) end
  ltask.sleep(300)
  os.exit(3, false)
end

local function run()
  for i = 1, actors do living[i] = spawn() end
  local deadline, kills = ltask.counter() + seconds, 0
  while ltask.counter() < deadline do
    ltask.sleep(random(1, 5))
    local i = random(actors)
    ltask.call(1, "kill", living[i])
    kills = kills + 1
    living[i] = spawn()
  end
  -- While an actor runs it may spawn children, so a second call stops the actors that the first call has missed.
  ask_all "stop"
  ask_all "stop"
  ask_all "flush"
  local queued = 0
  for id, one in pairs(ltask.call(1, "stat")) do
    if id ~= 1 and id ~= ltask.self() then queued = queued + one.queue end
  end
  if queued > 0 then stat("QUEUED: unread messages") end
  say("spawned", spawned, "kills", kills)
end

ltask.fork(function()
  local ok, err = xpcall(run, function(e) return debug.traceback(tostring(e)) end)
  if not ok then say("FAILED", err) end
  ltask.send(1, "quit_ltask")
end)
return {}
]]

local program <const> = [[
local dir, worker, queue, here, actors, seconds, seed, patience = table.unpack(arg)
local code = require "ltask.start" {
  core = { worker = tonumber(worker), queue = tonumber(queue), full = "wait" },
  service_path = dir .. "/?.lua;" .. here .. "/?.lua",
  bootstrap = { { name = "main", args = { dir .. "/log", tonumber(actors), tonumber(seconds), tonumber(seed),
    tonumber(patience) } } },
}
os.exit(code, true)
]]

-- A shell script that runs a process. If the process does not end in time, prints the stacks of its threads and kills
-- it.
local guard <const> = [[
"$@" & p=$!
if ! timeout "$LIMIT" tail -s 0.2 --pid=$p -f /dev/null; then
  echo "HUNG: the process"
  if command -v gdb >/dev/null; then gdb -p $p -batch -ex "thread apply all bt 14" 2>/dev/null; fi
  kill -9 $p
fi
wait $p
]]

-- The ledger ----------------------------------------------------------------------------------

local Ledger = {}
Ledger.__index = Ledger

function Ledger:fault(...)
  self.faults = self.faults + 1
  if self.faults <= 20 then self.list[#self.list + 1] = string.format(...) end
end

local function lines(dir, who)
  local f <close> = assert(io.open(dir .. "/" .. who))
  return f:read "a":gmatch "(%l)(%S+) ?([^\n]*)\n"
end

-- From the log of the actor `who`, reads the requests that the actor executed, and whether it became idle.
local function read_answered(ledger, dir, who)
  local ran = ledger.ran
  for letter, id, more in lines(dir, who) do
    if letter == "t" then
      if ran[id] then ledger:fault("%s was executed twice, in %s and %s", id, ran[id], who) end
      ran[id] = who
    elseif letter == "z" then
      ledger.rests[id], ledger.drained[who] = true, true
    elseif letter == "x" then
      ledger:fault("%s: %s: %s", who, id, more)
    end
  end
end

-- Checks that the result `letter` of the request `id` is consistent with the executed requests.
local function judge(ledger, id, what, letter, more)
  local ran = ledger.ran[id]
  if letter == "s" and not ran and ledger.rests[more] then
    ledger:fault("%s was accepted by service %s and not executed", id, more)
  elseif letter == "a" and not ran and what ~= "spawn" and what ~= "kill" then
    ledger:fault("%s (%s) was answered and not executed", id, what)
  elseif letter == "e" and more == "busy" and ran then
    ledger:fault("%s (%s) was refused and executed", id, what)
  elseif letter == "e" and more == "boom" and (what ~= "boom" or not ran) then
    ledger:fault("%s (%s) has the error of another request", id, what)
  end
end

-- From the log of the actor `who`, reads the requests that the actor made, and checks their results.
local function read_asked(ledger, dir, who)
  local begun, by = {}, ledger.by
  for letter, id, more in lines(dir, who) do
    if letter == "c" or letter == "b" or letter == "w" then
      begun[id], ledger.asked = more ~= "" and more or letter, ledger.asked + 1
    elseif letter == "a" or letter == "e" or letter == "s" or letter == "f" then
      local what = begun[id]
      local outcome = letter == "e" and more or letter
      by[outcome] = (by[outcome] or 0) + 1
      if not what then ledger:fault("%s has a second result (%s)", id, outcome) end
      begun[id] = nil
      judge(ledger, id, what, letter, more)
    end
  end
  if not ledger.drained[who] then return end
  for id, what in pairs(begun) do ledger:fault("%s (%s) was lost", id, what) end
end

local function read_ledger(dir)
  local ledger = setmetatable({
    ran = {}, rests = {}, drained = {}, by = {}, list = {}, faults = 0, asked = 0,
  }, Ledger)
  local files = {}
  for who in t.run("ls " .. t.quote(dir)).out:gmatch "[^\n]+" do files[#files + 1] = who end
  for _, who in ipairs(files) do read_answered(ledger, dir, who) end
  for _, who in ipairs(files) do read_asked(ledger, dir, who) end
  return ledger
end

local function totals(by)
  local names = {}
  for name in pairs(by) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = name .. " " .. by[name] end
  return table.concat(names, ", ")
end

-- Runs ----------------------------------------------------------------------------------------

for worker in workers:gmatch "%d+" do
  local queue = worker == "8" and 64 or 16
  t.test(("%s workers, mailboxes of %d messages"):format(worker, queue), function()
    local dir = t.tmp()
    os.execute("mkdir " .. t.quote(dir .. "/log"))
    t.write(dir .. "/main.lua", main)
    t.write(dir .. "/program.lua", program)
    t.write(dir .. "/guard.sh", guard)
    local r = t.run(("LIMIT=%d exec bash %s %s %s %s %s %d %s %d %g %d %d"):format(
      seconds + 4 * patience + 10, t.quote(dir .. "/guard.sh"), kit.host(), t.quote(dir .. "/program.lua"),
      t.quote(dir), worker, queue, t.quote(t.root .. "tests/long"), actors, seconds, seed, patience))
    local text = r.out .. (r.err:gsub("[^\n]*expected: no caller[^\n]*\n", ""))
    if #text > 20000 then text = text:sub(1, 10000) .. "\n…\n" .. text:sub(-10000) end
    t.eq(r.code, 0, "exit code; it printed\n" .. text)
    t.is_nil(r.out:match "HUNG[^\n]*" or r.out:match "QUEUED[^\n]*" or r.out:match "FAILED[^\n]*", text)
    local ledger = read_ledger(dir .. "/log")
    local summary = totals(ledger.by)
    print(("%s workers: %d requests (%s); %s"):format(worker, ledger.asked, summary, r.out:match "spawned[^\n]*"))
    io.stdout:flush()
    t.eq(ledger.list, {}, ledger.faults .. " faults")
    for _, kind in ipairs { "a", "s", "f", "boom", "dead" } do
      t.ok((ledger.by[kind] or 0) > 0, "no result of kind " .. kind)
    end
  end)
end

t.finish()
