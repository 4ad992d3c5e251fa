-- The other lio server, which the application calls through the proxy: `lio tests/chaos/upstream.lua ADDR:PORT`.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path

local content = require "content"
local loop = require "lio.loop"
local app = require("lio.webserver").new { keep_alive_time = 2, write_time = 4, grace = 1 }

app:get("/echo/:id", function(req)
  loop.sleep(0.005)
  return content.of(req.params.id, math.tointeger(req.query.size)), { ["X-Id"] = req.params.id }
end)
app:run(arg[1])
