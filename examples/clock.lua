-- A page with a clock that the server updates by server-sent events: lio examples/clock.lua [port]
--
-- Open it in a browser, stop the server and start it again: the page reconnects and shows its state.

local lio = require "lio"
local loop = require "lio.loop"
local web = require "lio.webserver"

local PAGE <const> = [[
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Clock</title>
<style>
:root { color-scheme: light dark; --ink: #1c2230; --dim: #5f6878; --ground: #f4f5f8; --on: #1f9d61; --off: #d9822b }
@media (prefers-color-scheme: dark) { :root { --ink: #eef1f6; --dim: #8d97a8; --ground: #12151b } }
body { margin: 0; min-height: 100vh; display: grid; place-content: center; text-align: center;
  background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif }
h1 { margin: 0; font-size: 1.25rem; font-weight: 500 }
time { font-size: clamp(3.5rem, 20vw, 10rem); font-weight: 200; line-height: 1.1; font-variant-numeric: tabular-nums }
p { margin: 0; color: var(--dim) }
#state::before { content: ""; display: inline-block; width: .6em; height: .6em; margin-right: .5em;
  border-radius: 50%; background: var(--off) }
#state.on::before { background: var(--on) }
</style>
<main>
<h1>Clock</h1>
<p id="date">&nbsp;</p>
<time id="clock">--:--:--</time>
<p id="state" role="status"><noscript>This page needs JavaScript.</noscript></p>
</main>
<script>
const at = id => document.getElementById(id)
const events = new EventSource("/events")
const say = (text, on) => { at("state").textContent = text; at("state").className = on ? "on" : "" }
say("connecting")
events.onopen = () => say("live", true)
events.onerror = () => say("connection lost, trying again", false)
events.addEventListener("tick", event => {
  const tick = JSON.parse(event.data)
  at("clock").textContent = tick.time
  at("date").textContent = tick.date
})
</script>
</html>
]]

local app = web.new()
app:use(web.compress())

app:get("/", function() return 200, PAGE, { ["Content-Type"] = "text/html; charset=utf-8" } end)

app:get("/events", function(req, res)
  local events = res:sse { retry = 1000 }
  -- When a browser reconnects, this is the last id that it received.
  local number = math.tointeger(tonumber(req:header "last-event-id" or 0)) or 0
  repeat
    number = number + 1
    local sent = events:send({ time = os.date "%H:%M:%S", date = os.date "%A, %d %B %Y" }, "tick", number)
    if sent then loop.sleep(1 - lio.wall() % 1) end
  until not sent
end)

app:run(tonumber((...)) or 8080, { addr = "127.0.0.1" })
