-- `lio.webservice`: a service with the interface of ant.webserver, implemented with `lio.webserver`. This file defines
-- the service's requests; `spawn` runs webservice/service.lua; webservice/cgi.lua loads the CGI modules, and
-- webservice/tunnel.lua implements the redirect mode. Invariant: `state` is "off", "starting", "on" or "stopping";
-- after a failed start it is "off".

local cgi = require "lio.webservice.cgi"
local ltask = require "ltask"
local misuse = require "lio.misuse"
local options = require "lio.options"
local tunnels = require "lio.webservice.tunnel"
local web = require "lio.webserver"

local without_position <const> = misuse.without_position

local M = {}

local state = "off"
local server -- the running server or tunnel; `server:stop(grace)` ends it
local tunnel -- the tunnel in redirect mode
local shown_address -- for messages
local grace = 0

-- Checking ---------------------------------------------------------------------------------------------

local strings_by_path <const> = options.rule("a table of strings by path, as in { [\"/x\"] = \"…\" }", function(value)
  if type(value) ~= "table" then return false end
  for path, text in pairs(value) do
    if type(path) ~= "string" or type(text) ~= "string" then return false end
  end
  return true
end)

local FIELDS <const> = {
  addr = options.string,
  port = options.integer(0, 65535),
  mode = options.one_of("direct", "redirect"),
  home = options.string,
  route = strings_by_path,
  cgi = strings_by_path,
  tunnel = options.either(options.string, options.integer(1)),
  options = options.table,
}

local function check_fields(call, conf)
  misuse.check(call:match "%w+$", 1, conf, "table")
  options.check(call, 1, conf, FIELDS, "field")
end

local function check(conf)
  check_fields("start", conf)
  if conf.tunnel and conf.mode ~= "redirect" then
    misuse.raise "start: field 'tunnel' needs mode = \"redirect\""
  end
  local is_unix = conf.addr and conf.addr:find "^unix:"
  if is_unix and #conf.addr == #"unix:" then misuse.raise "start: field 'addr' has no path after 'unix:'" end
  if not (is_unix or conf.port) then misuse.raise "start: field 'port' is missing" end
end

-- The app ----------------------------------------------------------------------------------------------

-- The functions below raise messages without a position and without the name of the call, which their caller adds.

-- Returns the prefix for a path of the table `field`: "/x" for "/x", "x" and "/x/"; "" for the root.
local function prefix_of(field, path)
  local prefix = path:gsub("^/*", "/"):gsub("/+$", "")
  if prefix:find "[:*{}%z%?#]" then
    error(("%s['%s']: a path without ':', '*', '{', '}', '?' or '#' expected"):format(field, path), 0)
  end
  return prefix
end

-- Records the owner of a prefix in `owners`. Raises if the prefix already has an owner. An owner is the name of an
-- entry in the configuration, such as `cgi['/x']`.
local function claim(owners, prefix, owner)
  if owners[prefix] then
    error(("%s and %s are for the same path"):format(owners[prefix], owner), 0)
  end
  owners[prefix] = owner
end

-- Serves a folder below a prefix. `text` is "localfs:path", or a path.
local function add_folder(app, prefix, owner, text)
  local folder = text:gsub("^localfs:", "")
  local ok, message = pcall(app.static, app, prefix == "" and "/" or prefix, folder, { list = true })
  if not ok then error(("%s: %s"):format(owner, without_position(message)), 0) end
end

local function add_cgi(app, prefix, module)
  local handler = cgi.handler(module)
  if prefix ~= "" then app:any(prefix, handler) end
  app:any(prefix .. "/", handler)
  app:any(prefix .. "/*rest", handler)
end

local function new_app(conf)
  local ok, app = pcall(web.new, conf.options)
  if not ok then error("field 'options': " .. without_position(app), 0) end
  local owners = {}
  for path, text in pairs(conf.cgi or {}) do
    local prefix = prefix_of("cgi", path)
    claim(owners, prefix, ("cgi['%s']"):format(path))
    add_cgi(app, prefix, cgi.load(path, text))
  end
  for path, text in pairs(conf.route or {}) do
    local prefix, owner = prefix_of("route", path), ("route['%s']"):format(path)
    claim(owners, prefix, owner)
    add_folder(app, prefix, owner, text)
  end
  if conf.home then
    claim(owners, "", "home")
    add_folder(app, "", "home", conf.home)
  end
  return app
end

-- `app(conf)` returns the `lio.webserver` app that `start` serves. For programs that open the listener themselves.
function M.app(conf)
  check_fields("webservice.app", conf)
  local ok, app = pcall(new_app, conf)
  if not ok then misuse.raise("webservice.app: " .. tostring(app)) end
  return app
end

-- Requests ---------------------------------------------------------------------------------------------

-- Returns the address of the tunnel's service. The field `tunnel` is the address or a registered name; by default, it
-- is the service that sent the request.
local function tunnel_address(conf)
  local where = conf.tunnel
  if type(where) == "string" then return ltask.queryservice(where) end
  return where or ltask.current_session().from
end

local function on_end()
  state, server, tunnel = "off", nil, nil
end

local function start_redirect(app, conf)
  local opened, message = tunnels.open(app, tunnel_address(conf), conf.addr, conf.port, on_end)
  if not opened then return nil, message end
  server, tunnel = opened, opened
  shown_address = ("the tunnel of service %d"):format(opened.address)
  return opened.url or shown_address, opened.public_port
end

local function start_direct(app, conf)
  local addr = conf.addr or "127.0.0.1"
  local where, opts = conf.port, { addr = addr }
  if addr:find "^unix:" then where, opts = addr, nil end
  local message
  server, message = app:listen(where, opts)
  if not server then return nil, message end
  shown_address = server.url
  return server.url, math.tointeger(tonumber(server.url:match ":(%d+)/$"))
end

local function start(conf)
  check(conf)
  local ok, app = pcall(new_app, conf)
  if not ok then error("start: " .. tostring(app), 0) end
  grace = app.settings.grace
  local run = conf.mode == "redirect" and start_redirect or start_direct
  local url, port = run(app, conf)
  if not url then error("start: " .. tostring(port), 0) end
  return url, port
end

-- The request `start(conf)` returns the URL and the port; see docs/webservice.md for the fields of `conf`. Raises if a
-- field is invalid, if the service cannot listen on the address, or if it is already serving.
function M.start(conf)
  if state == "on" then error("start: the service is already serving at " .. shown_address, 0) end
  if state ~= "off" then error("start: the service is " .. state, 0) end
  state = "starting"
  local ok, url, port = pcall(start, conf)
  if state ~= "starting" then
    -- The service has received `quit` meanwhile.
    if ok then server:stop(0) end
    on_end()
    error("start: the service has quit", 0)
  end
  if not ok then
    on_end()
    error(url, 0)
  end
  state = "on"
  return url, port
end

-- The request `quit`: stops the server gracefully. Waits for the requests in progress, for at most `options.grace`
-- seconds.
function M.quit()
  state = "stopping"
  if server then server:stop(grace) end
  on_end()
end

-- The request `tunnel_data(session, data)` of a tunnel returns true when the server has accepted the data; or false and
-- a message if the session has ended or cannot be opened.
function M.tunnel_data(session, data)
  if not tunnel then return false, "closed" end
  return tunnel:data(session, data)
end

-- The request `tunnel_close(session)` of a tunnel: reports that the client has closed. Returns whether the session
-- existed.
function M.tunnel_close(session)
  if not tunnel then return false end
  return tunnel:close(session)
end

-- The request `tunnel_shutdown(session)` of a tunnel: reports that the client will send no further bytes, but continues
-- to read. Returns whether the session existed.
function M.tunnel_shutdown(session)
  if not tunnel then return false end
  return tunnel:shutdown(session)
end

return M
