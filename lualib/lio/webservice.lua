-- `lio.webservice`: ant.webserver's interface on `lio.webserver`, as requests of a service. Its file for `spawn`
-- is webservice/service.lua; CGI modules are the business of webservice/cgi.lua, tunnels that of
-- webservice/tunnel.lua. Invariant: `state` is "off", "starting", "on" or "stopping", and a start that fails
-- leaves nothing behind.

local cgi = require "lio.webservice.cgi"
local ltask = require "ltask"
local options = require "lio.options"
local tunnels = require "lio.webservice.tunnel"
local web = require "lio.webserver"

local M = {}

local FIELDS <const> = {
  addr = "string", port = "integer", mode = "string", home = "string", route = "table", cgi = "table",
  tunnel = "string or integer", options = "table",
}

local state = "off"
local server -- what `stop(grace)` ends
local tunnel -- in redirect mode
local shown -- the address, for messages
local grace = 0

local function is_kind(value, wanted)
  for kind in wanted:gmatch "%a+" do
    if type(value) == kind or math.type(value) == kind then return true end
  end
  return false
end

local function with_article(kind)
  return (kind:find "^[aeiou]" and "an " or "a ") .. kind
end

local function check_field(conf, name, value)
  local wanted = FIELDS[name]
  if not wanted then options.unknown("start", name, FIELDS, "field") end
  if not is_kind(value, wanted) then
    local got = math.type(value) or type(value)
    error(("start: field '%s' must be %s, not %s"):format(name, with_article(wanted), with_article(got)), 0)
  end
  if wanted ~= "table" or name == "options" then return end
  for key, one in pairs(conf[name]) do
    if type(key) ~= "string" or type(one) ~= "string" then
      error(("start: field '%s' must have strings by path, as in { [\"/x\"] = \"…\" }"):format(name), 0)
    end
  end
end

local function check(conf)
  if type(conf) ~= "table" then error("start: a table expected, not a " .. type(conf), 0) end
  for name, value in pairs(conf) do check_field(conf, name, value) end
  local mode = conf.mode
  if mode ~= nil and mode ~= "direct" and mode ~= "redirect" then
    error(("start: field 'mode' must be \"direct\" or \"redirect\", not \"%s\""):format(mode), 0)
  end
  if conf.tunnel and mode ~= "redirect" then
    error("start: field 'tunnel' is for mode = \"redirect\"", 0)
  end
  local unix = conf.addr and conf.addr:find "^unix:."
  if not unix and not (conf.port and conf.port >= 0 and conf.port <= 65535) then
    error("start: field 'port' must be from 0 to 65535, not " .. tostring(conf.port), 0)
  end
end

-- "/x", "x" and "/x/" are one; the root is "".
local function prefix_of(field, text)
  local prefix = text:gsub("^/*", "/"):gsub("/+$", "")
  if prefix:find "[:*{}%z%?#]" then
    error(("start: %s['%s']: a path without ':', '*', '{', '}', '?' and '#' expected"):format(field, text), 0)
  end
  return prefix
end

-- Every prefix belongs to one thing.
local function claim(taken, prefix, who)
  if taken[prefix] then
    error(("start: %s and %s are for one path"):format(taken[prefix], who), 0)
  end
  taken[prefix] = who
end

-- "localfs:path", or a path.
local function folder_of(text)
  return (text:gsub("^localfs:", ""))
end

local function add_folder(app, prefix, who, text)
  local folder = folder_of(text)
  local ok, message = pcall(app.static, app, prefix == "" and "/" or prefix, folder, { list = true })
  if not ok then error(("start: %s: %s"):format(who, tostring(message)), 0) end
end

local function add_cgi(app, prefix, module)
  local handler = cgi.handler(module)
  if prefix ~= "" then app:any(prefix, handler) end
  app:any(prefix .. "/", handler)
  app:any(prefix .. "/*rest", handler)
end

-- `app(conf)` → the `lio.webserver` app that `start` serves. For programs that listen themselves.
function M.app(conf)
  local ok, app = pcall(web.new, conf.options)
  if not ok then error("start: field 'options': " .. tostring(app), 0) end
  local taken = {}
  for path, text in pairs(conf.cgi or {}) do
    local prefix = prefix_of("cgi", path)
    claim(taken, prefix, ("cgi['%s']"):format(path))
    add_cgi(app, prefix, cgi.load(path, text))
  end
  for path, text in pairs(conf.route or {}) do
    local prefix, who = prefix_of("route", path), ("route['%s']"):format(path)
    claim(taken, prefix, who)
    add_folder(app, prefix, who, text)
  end
  if conf.home then
    claim(taken, "", "home")
    add_folder(app, "", "home", conf.home)
  end
  return app
end

-- Where the tunnel is: its address, the name it is registered under, or who asked.
local function tunnel_address(conf)
  local where = conf.tunnel
  if type(where) == "string" then return ltask.queryservice(where) end
  return where or ltask.current_session().from
end

local function over()
  state, server, tunnel = "off", nil, nil
end

local function start_redirect(app, conf)
  local started, message = tunnels.open(app, tunnel_address(conf), conf.addr, conf.port, over)
  if not started then return nil, message end
  server, tunnel = started, started
  shown = ("the tunnel of service %d"):format(started.address)
  local said = started.said
  if said[1] == nil or said[1] == true then return shown end
  return said[1], said[2]
end

local function start_direct(app, conf)
  local addr = conf.addr or "127.0.0.1"
  local where, opts = conf.port, { addr = addr }
  if addr:find "^unix:" then where, opts = addr, nil end
  local message
  server, message = app:listen(where, opts)
  if not server then return nil, message end
  shown = server.url
  return server.url, math.tointeger(tonumber(server.url:match ":(%d+)/$"))
end

local function start(conf)
  check(conf)
  local app = M.app(conf)
  grace = app.settings.grace
  local run = conf.mode == "redirect" and start_redirect or start_direct
  local url, port = run(app, conf)
  if not url then error("start: " .. tostring(port), 0) end
  return url, port
end

-- The request `start(conf)` → url, port; see docs/webservice.md for the fields. Raises for wrong ones, for an
-- address that cannot be had, and when the service serves already.
function M.start(conf)
  if state == "on" then error("start: the service serves already, at " .. shown, 0) end
  if state ~= "off" then error("start: the service is " .. state, 0) end
  state = "starting"
  local ok, url, port = pcall(start, conf)
  if state ~= "starting" then
    -- A `quit` came meanwhile.
    if ok then server:stop(0) end
    over()
    error("start: the service has quit", 0)
  end
  if not ok then
    over()
    error(url, 0)
  end
  state = "on"
  return url, port
end

-- The request `quit`: stops gracefully. Requests in work are answered, within the grace of `options`.
function M.quit()
  state = "stopping"
  if server then server:stop(grace) end
  over()
end

-- The request `tunnel_data(session, data)`, of a tunnel → true when it is taken; false and a message when the
-- session is over.
function M.tunnel_data(session, data)
  if not tunnel then return false, "closed" end
  return tunnel:data(session, data)
end

-- The request `tunnel_close(session)`, of a tunnel: the client is gone. → whether there was such a session.
function M.tunnel_close(session)
  if not tunnel then return false end
  return tunnel:close(session)
end

-- The request `tunnel_shutdown(session)`, of a tunnel: the client sends no more, but reads on. → whether there
-- was such a session.
function M.tunnel_shutdown(session)
  if not tunnel then return false end
  return tunnel:shutdown(session)
end

return M
