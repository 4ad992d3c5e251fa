-- The files of `lio new service`: a gate that serves a line protocol, and a service that it calls.

return {
  ["main.lua"] = [[
-- Starts the system: `lio main.lua`. Try it with `nc 127.0.0.1 8080`: each line is a name to greet.

local ltask = require "ltask.start"

local folder = arg[0]:match "^.*/" or ""

os.exit(ltask.start {
  service_path = folder .. "service/?.lua",
  bootstrap = { { name = "gate", args = { os.getenv "ADDR" or "127.0.0.1", tonumber(os.getenv "PORT") or 8080 } } },
}, true)
]],

  ["service/counter.lua"] = [[
-- Counts by name. Each service has its own Lua state, so no other service can reach `counts`.

local counts = {}

local S = {}

-- Adds 1 to a count, and returns it.
function S.add(name)
  counts[name] = (counts[name] or 0) + 1
  return counts[name]
end

return S
]],

  ["service/gate.lua"] = [[
-- Accepts connections, and answers each line, a name, with a greeting. The service `counter` counts the greetings.

local loop = require "lio.loop"
local ltask = require "ltask"
local net = require "lio.net"

local addr, port = ...

local IDLE <const> = 60 -- seconds after which a silent client loses its connection
local LONGEST_LINE <const> = 200 -- bytes

local counter = ltask.uniqueservice "counter"
local listener = assert(net.listen(addr, port))

-- Serves one client until it leaves. Other clients are served while this one waits.
local server = net.serve(listener, function(connection)
  connection:timeout(IDLE, IDLE)
  for name in function() return connection:recv("line", LONGEST_LINE) end do
    local times = ltask.call(counter, "add", name)
    local answer = ("Hello %s, for the %s time\n"):format(name, times == 1 and "first" or times .. ".")
    if not connection:send(answer) then return end
  end
end)

-- Ctrl-C and SIGTERM stop the system gracefully: each service runs its handler `quit`.
for _, name in ipairs { "SIGINT", "SIGTERM" } do
  loop.signal(name, function() ltask.send(1, "quit_ltask") end)
end

local S = {}

-- Returns the port, for the test.
function S.port()
  return select(2, listener:address())
end

-- Runs when the system ends. Other services end at the same time, so names can no longer be counted.
function S.quit()
  server:stop()
  ltask.log.info "the gate is closed"
end

ltask.log.info(("serving on %s:%d"):format(listener:address()))

return S
]],

  ["service/probe.lua"] = [[
-- The service that `service_test.lua` starts: it is a client of the gate, and sends the answers to the standard output.

local ltask = require "ltask"
local net = require "lio.net"

ltask.fork(function()
  local gate = ltask.spawn("gate", "127.0.0.1", 0)
  local client <close> = assert(net.connect("127.0.0.1", ltask.call(gate, "port"), { timeout = 5 }))
  client:timeout(5, 5)
  client:send "Ada\nAda\n"
  io.stdout:write(client:recv "line", "\n", client:recv "line", "\n")
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

testing.test("the gate greets and the counter counts", function()
  local pipe = assert(io.popen(("'%s' '%sprobe.lua'"):format(lio(), folder)))
  local output = pipe:read "a"
  testing.ok(pipe:close(), output)
  testing.ok(output:find("Hello Ada, for the first time\nHello Ada, for the 2. time\n", 1, true), output)
end)
]],

  ["README.md"] = [[
# $name$

Services of the scheduler of lio: a gate that serves clients over TCP, and a service that it calls.

| command | what it does |
|---|---|
| `lio main.lua` | serves on 127.0.0.1:8080 (`ADDR` and `PORT` in the environment change the address) |
| Ctrl-C, SIGTERM | stops the program gracefully: each service runs its handler `quit` |
| `nc 127.0.0.1 8080` | a client: each line is a name to greet |
| `lio test` | runs the test in `service_test.lua` |
| `lio check` | reports syntax errors and undefined globals |

| file | content |
|---|---|
| `service/counter.lua` | a service with a state: counts |
| `service/gate.lua` | accepts connections, and calls `counter` |
| `service/probe.lua`, `probe.lua` | the system of the test |
| `main.lua` | the configuration and the start |
| `Dockerfile`, `$name$.service` | for Docker and for systemd |
]],
}
