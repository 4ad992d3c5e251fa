-- lio's server for the suite `http`. The server uses only the public API: lio bench/servers/http.lua PORT FOLDER
-- [workers = 1]. FOLDER contains the static files, which the suite creates.

local web = require "lio.webserver"

local port, folder, workers = ...
local app = web.new { connections = 20000, keep_alive_time = 3600 }
local large, piece = ("x"):rep(100 * 1024), ("x"):rep(127) .. "\n"

app:get("/", function() return "Hello, World!\n" end)

-- Like most handlers, this handler has parameters, so the server creates the request and response objects.
app:get("/request", function(_req, _res) return "Hello, World!\n" end)

app:get("/users/:id/posts/:post", function(req)
  return { user = req.params.id, post = req.params.post }
end)

app:post("/echo", function(req, res)
  res:header("Content-Type", "application/octet-stream")
  return req:body()
end)

app:get("/large", function() return large end)

app:get("/stream", function(_, res)
  for _ = 1, 8 do res:write(piece) end
end)

app:static("/static", folder)

app:run(tonumber(port), { workers = tonumber(workers) })
