-- The files of `lio new service`: two services of the scheduler.

return {
  ["main.lua"] = [[
-- Starts the system: `lio main.lua`. The first service is `greeter`, which starts the others.

local ltask = require "ltask.start"

local folder = arg[0]:match "^.*/" or ""

os.exit(ltask.start {
  service_path = folder .. "service/?.lua",
  bootstrap = { { name = "greeter", args = { table.unpack(arg) } } },
})
]],

  ["service/counter.lua"] = [[
-- Counts by name. Each service has its own Lua state, so no other service can reach `counts`.

local counts = {}

local S = {}

-- Adds `n` (default: 1) to a count, and returns it.
function S.add(name, n)
  counts[name] = (counts[name] or 0) + (n or 1)
  return counts[name]
end

-- Returns a count.
function S.get(name)
  return counts[name] or 0
end

return S
]],

  ["service/greeter.lua"] = [[
-- Greets each name in its arguments, and counts the greetings with the service `counter`.

local ltask = require "ltask"

local names = { ... }

local S = {}

-- Returns a greeting that says how often it has greeted this name.
function S.greet(name)
  local counter = ltask.uniqueservice "counter"
  local times = ltask.call(counter, "add", name)
  return ("Hello %s, for the %s time"):format(name, times == 1 and "first" or times .. ".")
end

-- A service ends when it calls `quit`; the system ends with its last service.
ltask.fork(function()
  for _, name in ipairs(names) do ltask.log.info(S.greet(name)) end
  if #names > 0 then ltask.send(1, "quit_ltask") end
end)

return S
]],

  ["service/probe.lua"] = [[
-- The service that `service_test.lua` starts: it calls the others, and sends what they answer to the standard output.

local ltask = require "ltask"

ltask.fork(function()
  local greeter = ltask.spawn "greeter"
  local counter = ltask.uniqueservice "counter"
  local lines = { ltask.call(greeter, "greet", "Ada"), ltask.call(greeter, "greet", "Ada") }
  lines[3] = "count " .. ltask.call(counter, "get", "Ada")
  io.stdout:write(table.concat(lines, "\n"), "\n")
  ltask.send(1, "quit_ltask")
end)

return {}
]],

  ["probe.lua"] = [[
-- Starts the system with the service `probe`, for `service_test.lua`.

local ltask = require "ltask.start"

local folder = arg[0]:match "^.*/" or ""

os.exit(ltask.start {
  service_path = folder .. "service/?.lua",
  bootstrap = { { name = "probe" } },
})
]],

  ["service_test.lua"] = [[
-- `lio test` runs this file. The system runs in a separate process, as in production.

local testing = require "lio.testing"

-- The path of the executable that runs the tests.
local function lio()
  local index = 0
  while arg[index - 1] do index = index - 1 end
  return arg[index]
end

local folder = arg[0]:match "^.*/" or ""

testing.test("the greeter greets and the counter counts", function()
  local pipe = assert(io.popen(("'%s' '%sprobe.lua'"):format(lio(), folder)))
  local output = pipe:read "a"
  testing.ok(pipe:close(), output)
  testing.eq(output, "Hello Ada, for the first time\nHello Ada, for the 2. time\ncount 2\n")
end)
]],

  ["README.md"] = [[
# $name$

Services of the scheduler of lio that send each other messages.

| command | what it does |
|---|---|
| `lio main.lua Ada Bob` | greets Ada and Bob, and ends |
| `lio main.lua` | runs until Ctrl-C |
| `lio test` | runs the test in `service_test.lua` |
| `lio check` | reports syntax errors and undefined globals |

| file | content |
|---|---|
| `service/counter.lua` | a service with a state: counts |
| `service/greeter.lua` | a service that calls `counter` |
| `service/probe.lua`, `probe.lua` | the system of the test |
| `main.lua` | the configuration and the start |
| `Dockerfile`, `$name$.service` | for Docker and for systemd |
]],
}
