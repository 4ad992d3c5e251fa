-- A system with a web service: `lio examples/webservice/main.lua`, then http://127.0.0.1:8080/ in a browser. With
-- another port and the redirect mode, in which tunnel.lua owns the sockets: `… main.lua 8081 redirect`.
--
-- The web service serves the folder home at /, the program's own files at /source, and app/clock.lua at /clock.

local folder = arg[0]:match "^(.*/)" or "./"

os.exit(require "ltask.start" {
  service_path = folder .. "?.lua",
  lua_path = folder .. "?.lua;" .. package.path,
  lua_cpath = package.cpath,
  bootstrap = { {
    name = "lio", label = "main", args = { folder .. "control.lua", folder, arg[1] or "8080", arg[2] },
  } },
}, true)
