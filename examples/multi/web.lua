-- The web service of main.lua: a page, and JSON at /primes/LIMIT.

local ltask = require "ltask"
local web = require "lio.webserver"

local port, workers = ...
local MOST <const> = 5000000
local PARTS <const> = 16 -- parts of a job: larger numbers take longer, so workers that finish early take the next part

local services, idle = {}, {}
for i = 1, tonumber(workers) do
  services[i] = ltask.spawn "worker"
  idle[i] = services[i]
end

-- The tokens of the tasks that wait for an idle worker.
local waiting = {}

local function take()
  local id = table.remove(idle)
  if id then return id end
  local token = {}
  waiting[#waiting + 1] = token
  return ltask.wait(token)
end

local function give_back(id)
  local token = table.remove(waiting, 1)
  if token then ltask.wakeup(token, id) else idle[#idle + 1] = id end
end

-- Counts a part of a job on the next idle worker.
local function count_part(first, last)
  local id = take()
  local ok, count = pcall(ltask.call, id, "count", first, last)
  give_back(id)
  if not ok then error(count, 0) end
  return { first = first, last = last, count = count, worker = id }
end

-- Returns the parts of the job and the sum of their counts.
local function count_primes(limit)
  local jobs, parts, sum = {}, {}, 0
  for i = 1, PARTS do
    local first, last = limit * (i - 1) // PARTS + 1, limit * i // PARTS
    if first <= last then jobs[#jobs + 1] = { count_part, first, last } end
  end
  for _, result in ltask.parallel(jobs) do
    if result.error then error(result.error, 0) end
    local part = result[1]
    parts[#parts + 1] = part
    sum = sum + part.count
  end
  table.sort(parts, function(a, b) return a.first < b.first end)
  return parts, sum
end

local app = web.new()

app:get("/primes/:limit<%d+>", function(req, res)
  local limit = math.tointeger(tonumber(req.params.limit))
  if not limit or limit > MOST then return 400, { error = "a number up to " .. MOST .. ", please" } end
  local parts, sum = count_primes(limit)
  return { limit = limit, count = sum, parts = parts }
end)

local PAGE <const> = [[
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Primes</title>
<style>body { font: 16px sans-serif; margin: 2em } td { padding: 0 1em; text-align: right }</style>
<h1>Primes</h1>
<form>
<label>up to <input name="limit" type="number" min="0" max="5000000" value="1000000"></label>
<button>Count</button>
</form>
<p id="answer"></p>
<table id="parts"></table>
<script>
const form = document.querySelector("form"), answer = document.querySelector("#answer");
const table = document.querySelector("#parts");
form.onsubmit = async event => {
  event.preventDefault();
  answer.textContent = "The workers count …";
  table.replaceChildren();
  const began = performance.now();
  const result = await (await fetch("/primes/" + form.limit.value)).json();
  answer.textContent = result.error ||
    `${result.count} primes, in ${Math.round(performance.now() - began)} ms`;
  for (const part of result.parts || []) {
    const row = table.insertRow();
    for (const text of [part.first, "to", part.last, part.count, "by worker", part.worker]) {
      row.insertCell().textContent = text;
    }
  }
};
</script>
</html>
]]

app:get("/", function(req, res)
  return 200, PAGE, { ["Content-Type"] = "text/html; charset=utf-8" }
end)

app:run(assert(tonumber(port))) -- until SIGINT or SIGTERM
ltask.send(1, "quit_ltask") -- otherwise the workers keep the system running
