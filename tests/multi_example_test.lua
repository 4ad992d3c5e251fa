-- examples/multi: one request is distributed over several services, while other requests are answered.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"

local function with_server(f)
  local words = { t.lio(), t.quote(t.root .. "examples/multi/main.lua"), "0", "3" }
  local child <close> = t.spawn("timeout --foreground -k 1 60 " .. table.concat(words, " "))
  local port = math.tointeger(tonumber((child:expect "127%.0%.0%.1:(%d+)")))
  local ok, problem = xpcall(loop.run, debug.traceback, f, port)
  child:kill()
  local rest = child:all()
  local code = child:close()
  if not ok then error(problem .. "\n" .. rest, 0) end
  t.eq(code, 0, rest)
end

t.test("a job is distributed over all workers, and their results are added up", function()
  with_server(function(port)
    local c <close> = http.open(port)
    local r = json.decode(c:request("GET", "/primes/300000").body)
    t.eq({ r.limit, r.count, #r.parts, r.parts[1].first, r.parts[16].last }, { 300000, 25997, 16, 1, 300000 })
    local workers, sum = {}, 0
    for _, part in ipairs(r.parts) do
      workers[part.worker] = true
      sum = sum + part.count
    end
    local count = 0
    for _ in pairs(workers) do count = count + 1 end
    t.eq({ sum, count }, { 25997, 3 })
    t.eq(json.decode(c:request("GET", "/primes/3").body).count, 2)
    r = c:request("GET", "/primes/0").body
    t.ok(r:find('"parts":[]', 1, true), r)
    t.eq(json.decode(r).count, 0)
  end)
end)

t.test("if there are more jobs than workers, jobs wait for their turn, and pages are served meanwhile", function()
  with_server(function(port)
    local left = 8
    for i = 1, 8 do
      loop.fork(function()
        local c <close> = http.open(port)
        t.eq(json.decode(c:request("GET", "/primes/" .. 1000 * i).body).limit, 1000 * i)
        left = left - 1
        if left == 0 then loop.wakeup "done" end
      end)
    end
    local c <close> = http.open(port)
    local r = c:request("GET", "/")
    t.eq({ r.status, r.headers["content-type"] }, { 200, "text/html; charset=utf-8" })
    t.ok(r.body:find "</html>")
    if left > 0 then loop.wait "done" end
  end)
end)

t.test("a request without a number, or with a number that is too large, is refused", function()
  with_server(function(port)
    local c <close> = http.open(port)
    t.eq(c:request("GET", "/primes/5000001").status, 400)
    t.eq(c:request("GET", "/primes/99999999999999999999").status, 400)
    -- The page shows the reason, which is JSON in each case.
    local r = c:request("GET", "/primes/many", { "Accept: application/json" })
    t.eq({ r.status, json.decode(r.body).error }, { 404, "Not Found" })
  end)
end)

t.finish()
