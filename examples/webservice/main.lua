-- A system with a web service: `lio examples/webservice/main.lua`, then http://127.0.0.1:8080/ in a browser.
-- Another port, or the redirect mode, where tunnel.lua beside it has the sockets: `… main.lua 8081 redirect`.
--
-- The folder home is served at /, the program's own files at /source, and app/clock.lua answers at /clock.

local folder = arg[0]:match "^(.*/)" or "./"

os.exit(require "ltask.start" {
  service_path = folder .. "?.lua",
  lua_path = folder .. "?.lua;" .. package.path,
  lua_cpath = package.cpath,
  bootstrap = { {
    name = "lio", label = "main", args = { folder .. "control.lua", folder, arg[1] or "8080", arg[2] },
  } },
}, true)
