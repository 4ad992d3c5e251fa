-- The first service of main.lua. It starts the web service, and ends the system when a signal arrives.

local loop = require "lio.loop"
local ltask = require "ltask"

local folder, port, mode = ...

loop.run(function()
  local tunnel
  if mode == "redirect" then
    tunnel = ltask.spawn_service { name = "lio", label = "tunnel", args = { folder .. "tunnel.lua" } }
  end
  local web = ltask.spawn "lio.webservice"
  local ok, url = pcall(ltask.call, web, "start", {
    addr = "127.0.0.1",
    port = math.tointeger(tonumber(port)),
    mode = mode,
    tunnel = tunnel,
    home = "localfs:" .. folder .. "home",
    route = { ["/source"] = "localfs:" .. folder },
    cgi = { ["/clock"] = "app|clock" },
  })
  if not ok then
    io.stderr:write(tostring(url), "\n")
    ltask.call(1, "exit_code", 1)
    return ltask.send(1, "quit_ltask") -- otherwise the other services keep the system running
  end
  print("serving " .. url)
  io.stdout:flush()
  loop.wait "a signal"
end)
