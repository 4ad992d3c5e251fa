-- A server that consists of several services: `lio examples/multi/main.lua`, then http://127.0.0.1:8080/ in a browser.
-- With another port and number of workers: `… main.lua 8081 4`.
--
-- web.lua answers the requests, with its own loop and thread. It passes long work to services of worker.lua, which the
-- scheduler runs on all cores: one request is spread over all of them.

local folder = arg[0]:match "^(.*/)" or "./"
local port, workers = arg[1] or "8080", arg[2] or "4"

os.exit(require "ltask.start" {
  service_path = folder .. "?.lua",
  lua_path = package.path,
  lua_cpath = package.cpath,
  bootstrap = { { name = "lio", label = "web", args = { folder .. "web.lua", port, workers } } },
}, true)
