-- The server for bench/torture: lio tests/long/torture_server.lua [address = 127.0.0.1:0]

local web = require "lio.webserver"

local app = web.new()
app:get("/", function() return "Hello, World!\n" end)
app:get("/users/:id", function(req)
  return 200, '{"id":"' .. req.params.id .. '"}', { ["Content-Type"] = "application/json" }
end)
app:post("/echo", function(req)
  return (req:body())
end)
app:run((...) or "127.0.0.1:0")
