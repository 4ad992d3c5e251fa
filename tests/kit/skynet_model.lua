-- A model of skynet's order of coroutines, on plain coroutines: woken coroutines run when the running one suspends,
-- forks when no coroutine is woken. A plan of random actions runs on the model and on skynet; for
-- tests/skynet_order_test.lua.

local M = {}

-- Runs the plan by the functions of `api` (fork, wait, wakeup). `log` gets a line per action.
local function play(plan, api, log)
  local function run(number)
    local actions = plan[number]
    log(number .. " begins")
    for _, action in ipairs(actions) do
      local what, value = action[1], action[2]
      if what == "fork" then
        api.fork(run, value)
      elseif what == "wakeup" then
        log(("%d wakes %d: %s"):format(number, value, api.wakeup(value) and "taken" or "nobody"))
      else
        api.wait(value)
        log(("%d goes on from %d"):format(number, value))
      end
    end
    log(number .. " ends")
  end
  run(1)
end
M.play = play

-- Returns a plan of coroutines 1 to `count`, each forked at most once. Tokens are numbers above `base`, below
-- `base` + 1000; at most one coroutine waits on each.
function M.plan(random, count, base)
  local plan = {}
  local next_one, next_token = 2, base + 1
  for number = 1, count do
    local actions = {}
    for _ = 1, random(0, 6) do
      local dice = random(10)
      if dice <= 4 and next_one <= count then
        actions[#actions + 1] = { "fork", next_one }
        next_one = next_one + 1
      elseif dice <= 6 then
        actions[#actions + 1] = { "wait", next_token }
        next_token = next_token + 1
      else
        actions[#actions + 1] = { "wakeup", random(math.max(base + 1, next_token - 6), next_token + 2) }
      end
    end
    plan[number] = actions
  end
  return plan
end

-- Runs the plan on the model. Returns the list of log lines.
function M.expected(plan)
  local lines = {}
  local waiting, woken, forks = {}, {}, {}
  local function suspend(co)
    local ok, problem = coroutine.resume(co)
    if not ok then error(problem, 0) end
    -- One after the other, each followed by the coroutines that it has woken.
    while #woken > 0 do
      local token = table.remove(woken, 1)
      co = waiting[token]
      if co then
        waiting[token] = nil
        return suspend(co)
      end
    end
  end
  local api = {
    fork = function(f, ...)
      local args = table.pack(...)
      forks[#forks + 1] = coroutine.create(function() f(table.unpack(args)) end)
    end,
    wait = function(token)
      waiting[token] = coroutine.running()
      coroutine.yield()
    end,
    wakeup = function(token)
      if not waiting[token] then return end
      woken[#woken + 1] = token
      return true
    end,
  }
  forks[1] = coroutine.create(function()
    play(plan, api, function(line) lines[#lines + 1] = line end)
  end)
  while #forks > 0 do suspend(table.remove(forks, 1)) end
  return lines
end

return M
