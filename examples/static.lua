-- A static site: `lio examples/static.lua [port]`, then open the printed address. The pages are in examples/site;
-- `notes/` has no index.html and is listed. Missing files get a custom 404 page.

local web = require "lio.webserver"

local here = arg[0]:match "^(.*/)[^/]*$" or "./"
local site = here .. "site"
local app = web.new()

app:static("/", site, { max_age = 60 })
app:static("/notes", site .. "/notes", { list = true })
app:not_found(function(_, res)
  return res:status(404):file(site .. "/404.html")
end)

app:run(math.tointeger(tonumber(arg[1])) or 8080, { addr = "127.0.0.1" })
