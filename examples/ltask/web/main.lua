-- A web server whose handlers call other services, which work on all cores:
-- `lio --service examples/ltask/web/main.lua`, then `curl http://127.0.0.1:8080/primes/1000000`.
-- Another port: `… main.lua 8081`.
--
-- While a service counts, only the calling handler waits. The server handles other requests.

local ltask = require "ltask"
local web = require "lio.webserver"

local SERVICES <const> = 4

local services = {} ---@type ltask.Address[]
for i = 1, SERVICES do services[i] = ltask.spawn "primes" end
local turn = 0

local app = web.new()

app:get("/primes/:limit", function(req, res)
  local limit = math.tointeger(tonumber(req.params.limit))
  if not limit or limit < 0 or limit > 10000000 then
    return res:status(400):send "a whole number up to 10000000, please\n"
  end
  turn = turn % SERVICES + 1
  local service = services[turn] -- `turn` may change while this handler waits for the answer
  return { limit = limit, count = ltask.call(service, "count", limit), service = service }
end)

-- Returns the scheduler's statistics of each service.
app:get("/stat", function(req, res)
  local list = {}
  for id, figures in pairs(ltask.call(1, "stat")) do
    figures.id = id
    list[#list + 1] = figures
  end
  return list
end)

app:run(tonumber((...)) or 8080) -- until SIGINT or SIGTERM
ltask.send(1, "quit_ltask") -- otherwise the other services keep the system running
