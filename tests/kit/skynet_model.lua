-- A model of the order in which skynet runs coroutines, built on plain coroutines. When the running coroutine is
-- suspended, the woken coroutines run; if there are none, a fork runs. tests/skynet_order_test.lua runs a plan of
-- random actions on the model and on skynet.

local M = {}

-- Runs the plan with the functions of `api` (fork, wait, wakeup). Calls `log` with a line for each action.
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

-- Returns a plan: the lists of actions of the coroutines 1 to `count`. Each coroutine is forked at most once. Tokens
-- are numbers between `base` and `base` + 1000, and at most one coroutine waits on each of them.
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

-- Runs the plan on the model. Returns a list of the logged lines.
function M.expected(plan)
  local lines = {}
  local waiting, woken, forks = {}, {}, {}
  local function suspend(co)
    local ok, problem = coroutine.resume(co)
    if not ok then error(problem, 0) end
    -- The woken coroutines run in the order of the wakeups.
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
