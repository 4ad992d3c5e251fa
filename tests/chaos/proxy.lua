-- A TCP proxy that injects faults: `lio tests/chaos/proxy.lua SEED COUNTS FROM TO [FROM TO …]`. Forwards each address
-- ADDR:PORT `FROM` to `TO`. Each connection gets a plan from the random generator; see plan.lua. SIGUSR2 begins the
-- faults. SIGUSR1 ends them: later connections get none, and those with a plan are reset. Every 0.2 s, writes the
-- number of connections for each plan to the file COUNTS.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path

local loop = require "lio.loop"
local net = require "lio.net"
local plan = require "plan"
local random = require("random").new(math.tointeger(arg[1]), "proxy")

local quiet = true
local counts = {}
local planned = {} -- a set of the connections whose plan has a fault

local function reset(c)
  c:option("linger", 0)
  c:close()
end

local function split(address)
  local host, port = address:match "^(.*):(%d+)$"
  return host, math.tointeger(port)
end

-- Forwards one direction until its end. `faults` are the faults of this direction, see plan.lua.
local function forward(from, to, faults, pair)
  local seen = 0
  while true do
    local data, message = from:recv()
    if not data then
      if message then reset(to) else to:shutdown "w" end
      return
    end
    local stop = faults.after and seen + #data >= faults.after
    local piece = stop and data:sub(1, faults.after - seen) or data
    seen = seen + #data
    if not plan.deliver(to, piece, faults, random) then return reset(from) end
    if stop then return faults.finish(pair) end
  end
end

local FINISH <const> = {
  reset = function(pair)
    reset(pair.client)
    reset(pair.server)
  end,
  close = function(pair)
    pair.client:close()
    pair.server:close()
  end,
  half_up = function(pair) pair.server:shutdown "w" end,
  half_down = function(pair)
    pair.client:shutdown "w"
    while pair.server:recv() do end
  end,
  hang = function() loop.sleep(12) end,
}

local function serve(client, target)
  local kind, up, down = "none", {}, {}
  if not quiet then kind, up, down = plan.draw(random) end
  counts[kind] = (counts[kind] or 0) + 1
  if kind == "refuse" then return reset(client) end
  if kind == "reorder" then plan.hold() end
  local server = net.connect(target.host, target.port, { timeout = 3 })
  if not server then return reset(client) end
  local pair <close> = setmetatable({ client = client, server = server }, { __close = function(pair)
    planned[pair] = nil
    pair.client:close()
    pair.server:close()
  end })
  if kind ~= "none" then planned[pair] = true end
  up.finish, down.finish = FINISH[up.finish], FINISH[down.finish]
  local ended = 0
  local function direction(...)
    forward(...)
    ended = ended + 1
    loop.wakeup(pair)
  end
  loop.fork(direction, client, server, up, pair)
  loop.fork(direction, server, client, down, pair)
  while ended < 2 do loop.wait(pair) end
end

local function write_counts()
  while true do
    local file <close> = assert(io.open(arg[2], "w"))
    for kind, count in pairs(counts) do file:write(kind, " ", count, "\n") end
    file:close()
    loop.sleep(0.2)
  end
end

loop.run(function()
  for i = 3, #arg, 2 do
    local target = {}
    target.host, target.port = split(arg[i + 1])
    net.serve(assert(net.listen(split(arg[i]))), function(c) serve(c, target) end)
  end
  loop.signal("SIGUSR1", function()
    quiet = true
    for pair in pairs(planned) do FINISH.reset(pair) end
  end)
  loop.signal("SIGUSR2", function() quiet = false end)
  loop.fork(write_counts)
  print "proxy ready"
end)
