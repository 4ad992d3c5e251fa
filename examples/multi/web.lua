-- The web service of main.lua: a page, and JSON at /primes/LIMIT.

local json = require "lio.json"
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
  local jobs, parts, sum = {}, json.array(), 0
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
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Primes</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 40rem; padding: 1rem }
form { display: flex; flex-wrap: wrap; gap: .5rem }
input, button { font: inherit; padding: .3rem .7rem }
input { width: 8rem }
table { border-collapse: collapse; width: 100% }
th, td { border-top: 1px solid #8886; padding: .2rem .4rem; text-align: right }
</style>
<main>
<h1>Primes</h1>
<form>
<label>up to <input name="limit" type="number" min="0" max="5000000" value="1000000" required></label>
<button>Count</button>
</form>
<noscript>
<p>The form needs JavaScript. Without it, see <a href="/primes/1000000">the count up to 1000000</a>.</p>
</noscript>
<p id="answer" role="status"></p>
<table aria-label="Parts of the job" hidden>
<thead><tr><th scope="col">from<th scope="col">to<th scope="col">primes<th scope="col">worker</thead>
<tbody></tbody>
</table>
</main>
<script>
const form = document.querySelector("form"), button = document.querySelector("button");
const answer = document.querySelector("#answer"), table = document.querySelector("table");
async function count(limit) {
  const began = performance.now();
  const response = await fetch(`/primes/${limit}`, { headers: { Accept: "application/json" } });
  const result = await response.json();
  if (!response.ok) throw new Error(result.error);
  answer.textContent = `${result.count} primes, in ${Math.round(performance.now() - began)} ms`;
  for (const part of result.parts) {
    const row = table.tBodies[0].insertRow();
    for (const number of [part.first, part.last, part.count, part.worker]) row.insertCell().textContent = number;
  }
  table.hidden = result.parts.length === 0;
}
form.onsubmit = async event => {
  event.preventDefault();
  button.disabled = true;
  answer.textContent = "The workers count …";
  table.hidden = true;
  table.tBodies[0].replaceChildren();
  try {
    await count(form.limit.valueAsNumber);
  } catch (error) {
    answer.textContent = `There is no count: ${error.message}`;
  }
  button.disabled = false;
};
</script>
</html>
]]

app:get("/", function(req, res)
  return 200, PAGE, { ["Content-Type"] = "text/html; charset=utf-8" }
end)

app:run(assert(tonumber(port))) -- until SIGINT or SIGTERM
ltask.send(1, "quit_ltask") -- otherwise the workers keep the system running
