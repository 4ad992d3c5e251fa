-- The files of `lio new app`: a web server with an HTML page and a JSON route.

return {
  ["main.lua"] = [[
-- Serves the app: `lio main.lua`. While you edit: `lio --watch main.lua`.

local app = require "app"

-- On Linux, add `max_run_time = 5`: a handler that computes for longer than 5 seconds then gets an error.
app:run(tonumber(os.getenv "PORT") or 8080, { addr = os.getenv "ADDR" or "127.0.0.1" })
]],

  ["app.lua"] = [[
-- The routes of $name$. `main.lua` serves them, and `app_test.lua` tests them without a socket.

local web = require "lio.webserver"

-- With DEBUG=1 in the environment, the response to an error shows the traceback. Never set it in production.
local app = web.new { debug = os.getenv "DEBUG" == "1" }

app:use(web.log())

local PAGE <const> = [=[
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$name$</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem; }
</style>
</head>
<body>
<main>
<h1>$name$</h1>
<p>The server works. <a href="/api/hello/world">/api/hello/world</a> answers with JSON.</p>
</main>
</body>
</html>
]=]

-- A returned table is sent as JSON, a string as plain text, and the result of `web.html` as HTML.
app:get("/", function()
  return web.html(PAGE)
end)

-- For health checks of Docker, systemd or a load balancer.
app:get("/healthz", function()
  return "ok\n"
end)

app:get("/api/hello/:name", function(req)
  return { hello = req.params.name }
end)

return app
]],

  ["app_test.lua"] = [[
-- `lio test` runs this file.

local app = require "app"
local testing = require "lio.testing"

testing.test("the page is HTML", function()
  local res = app:test():get("/")
  testing.eq(res.status, 200)
  testing.ok(res.body:find("<h1>$name$</h1>", 1, true), "the heading is missing")
end)

testing.test("the route answers with JSON", function()
  local res = app:test():get("/api/hello/world")
  testing.eq(res.status, 200)
  testing.eq(res:json(), { hello = "world" })
end)

testing.test("the health check answers", function()
  local res = app:test():get("/healthz")
  testing.eq({ res.status, res.body }, { 200, "ok\n" })
end)

testing.test("an unknown path is not found", function()
  testing.eq(app:test():get("/nothing").status, 404)
end)
]],

  ["README.md"] = [[
# $name$

A web server on lio.

| command | what it does |
|---|---|
| `lio main.lua` | serves on http://127.0.0.1:8080/ (`ADDR` and `PORT` in the environment change the address) |
| `DEBUG=1 lio --watch main.lua` | the same, restarts when a file changes, and shows errors in the browser |
| `lio test` | runs the tests in `app_test.lua` |
| `lio check` | reports syntax errors and undefined globals |

| file | content |
|---|---|
| `app.lua` | the routes |
| `main.lua` | the start |
| `Dockerfile`, `$name$.service` | for Docker and for systemd |
]],
}
