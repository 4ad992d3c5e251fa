-- The smallest web server: `lio examples/hello.lua`, then `curl -i http://127.0.0.1:8080/`.
-- Another port: `lio examples/hello.lua 8081`.

local web = require "lio.webserver"
local app = web.new()
app:get("/", function(req, res) return "Hello, World!\n" end)
app:get("/users/:id", function(req, res) return { id = req.params.id } end) -- a table is JSON
local port = assert(tonumber((...) or 8080), "the port must be a number")
app:run(port)
