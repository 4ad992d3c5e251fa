-- `app:listen`, `app:server` and `app:run`: read an address, listen on it, and serve an app in one worker or in
-- several. Called by webserver.lua.

local app_servers = require "lio.web.app_server"
local defer = require "lio.defer"
local drivers = require "lio.net.driver"
local misuse = require "lio.misuse"
local networks_of = require "lio.web.networks"
local options = require "lio.options"
local servers = require "lio.net.server"

local M = {}

-- `proxy_protocol`: true or "required": each connection begins with a header of the PROXY protocol; "optional": it may
-- begin with one; or a table with `required` (default true) and `proxies` (the addresses that send a header).
local LISTEN_OPTIONS <const> = {
  addr = options.string,
  proxy_protocol = options.either(options.boolean, options.one_of("required", "optional"), options.table),
  backlog = options.integer(0, 2147483647),
  reuseport = options.boolean,
  v6only = options.boolean,
  mode = options.integer(0, 511),
  tls = options.any,
}

-- `lio serve` passes `module` and `args`.
local RUN_OPTIONS <const> = {
  workers = options.integer(1, 1024),
  watchdog = options.seconds_from_0,
  max_run_time = options.seconds_from_0,
  module = options.internal(options.string),
  args = options.internal(options.table),
}
for name, rule in pairs(LISTEN_OPTIONS) do RUN_OPTIONS[name] = rule end

local PROXY_OPTIONS <const> = { required = options.boolean, proxies = options.table }

-- Checks the option `proxy_protocol`. Returns a function that makes a native server read headers of the PROXY protocol;
-- nil if the server shall read none. `call` is the name of the method.
local function proxy_protocol_of(call, wanted)
  if not wanted then return nil end
  if type(wanted) ~= "table" then wanted = { required = wanted ~= "optional" } end
  options.check(("app:%s: option 'proxy_protocol'"):format(call), 2, wanted, PROXY_OPTIONS, "field")
  local proxies = wanted.proxies and networks_of("app:" .. call, wanted.proxies)
  return function(server) server:expect_proxy_header(wanted.required ~= false, proxies) end
end

-- Addresses --------------------------------------------------------------------------------------------

-- Parses `where`: a port, `"addr:port"`, `"[v6]:port"`, `"unix:/path"` or a socket. Returns an address and a port (nil
-- for a unix socket); or the socket.
local function parse_address(call, where, opts)
  if type(where) == "userdata" then
    misuse.check_kind(call, where, "port or address")
    return where
  end
  if type(where) == "number" then
    misuse.check_port(call, 1, where)
    return opts.addr or "127.0.0.1", where
  end
  if type(where) ~= "string" then misuse.argument(call, 1, "port or address", where) end
  if opts.addr then
    misuse.raise(("app:%s: option 'addr' needs a port, but the address is '%s'"):format(call, where))
  end
  if where:match "^unix:." then return where, nil end
  local addr, port = where:match("^%[([%x:.%%]+)%]:(%d+)$")
  if not addr then addr, port = where:match("^([^:]+):(%d+)$") end
  port = math.tointeger(tonumber(port))
  if not addr or port > 65535 then
    misuse.raise(("app:%s: cannot parse the address '%s'; an example is 127.0.0.1:8080"):format(call, where))
  end
  return addr, port
end

-- Returns the IP address, the port and the family of the address that `listening`, a listener or a socket, is bound to.
local function bound_to(listening)
  local where = listening.address and { listening:address() } or { listening:info("socket"):value() }
  return table.unpack(where, 1, 3)
end

-- Returns the URL of the address that `listening` is bound to, or `"unix:/path"`. The default of `scheme` is "http".
local function url_of(listening, scheme)
  local ip, port, family = bound_to(listening)
  if family == "unix" then return "unix:" .. tostring(ip) end
  local host = ip:find(":", 1, true) and "[" .. ip .. "]" or ip
  return ("%s://%s:%d/"):format(scheme or "http", host, port)
end

local function is_loopback(listening)
  local ip, _, family = bound_to(listening)
  return family == "unix" or ip == "::1" or ip:find "^127%." ~= nil or ip:find "^::ffff:127%." ~= nil
end

-- Warns if other machines can reach error pages with tracebacks.
local function warn_of_debug(app, listening)
  if not app.settings.debug or is_loopback(listening) then return end
  io.stderr:write("lio: warning: debug = true shows tracebacks and source lines to every client that reaches ",
    url_of(listening), "\n")
end

local function cannot_listen(addr, port, message)
  return ("cannot listen on %s: %s"):format(port and tostring(addr) .. ":" .. port or tostring(addr), message)
end

-- Listening --------------------------------------------------------------------------------------------

-- Returns the driver of `lio.net`. Raises if no loop runs the driver; `call` is the name of the method for the message.
local function driver_for(call)
  local driver = drivers.of(require("lio.net").instance)
  driver:take_loop("app:" .. call)
  driver:check_loop("app:%s", call)
  return driver
end

-- Serves an app on a listener. Returns the server, and the app server that is its backend. `prepare(app_server)` is
-- called before the first connection is accepted, which may already wait in the system's queue.
local function serve(app, driver, listener, prepare)
  local app_server, server
  local is_complete = false
  -- An error, such as a lack of memory, must not leave behind a server that the caller cannot stop.
  local _ <close> = defer(function()
    if is_complete then return end
    if server then servers.abandon(server) elseif app_server then app_server:abort() end
  end)
  app_server = app_servers.new(app, driver)
  if prepare then prepare(app_server) end
  server = driver:serve(listener, app_server)
  server.grace = app.grace
  table.insert(app.servers, server)
  is_complete = true
  return server, app_server
end

-- Returns those options of `app:listen` or `app:run` that `net.listen` takes.
local function net_options(opts)
  return { backlog = opts.backlog, reuseport = opts.reuseport, v6only = opts.v6only, mode = opts.mode }
end

-- Returns the result of `tls.server` for the option `tls`; nil if there is none. Raises if a certificate cannot be
-- read.
local function tls_of(call, option)
  if not option then return nil end
  local tls = require "lio.tls"
  -- Clients with ALPN know that the server speaks HTTP/1.1.
  if type(option) == "table" and option.alpn == nil then
    local all = { alpn = { "http/1.1" } }
    for name, value in pairs(option) do all[name] = value end
    option = all
  end
  local object, message = tls.server_of("app:" .. call, option)
  if not object then misuse.raise(("app:%s: %s"):format(call, message)) end
  return object
end

local function listen(app, call, where, opts)
  local driver = driver_for(call)
  local addr, port = parse_address(call, where, opts)
  local expect_proxy_header = proxy_protocol_of(call, opts.proxy_protocol)
  local tls = tls_of(call, opts.tls)
  local listener, message, server, app_server
  local is_complete = false
  -- An error, such as a lack of memory, must not leave behind a listener that the caller cannot close.
  local _ <close> = defer(function()
    if is_complete or not listener then return end
    if server then servers.abandon(server) end
    listener:close()
  end)
  listener, message = driver.net.listen(addr, port, net_options(opts))
  if not listener then return nil, cannot_listen(addr, port, message) end
  server, app_server = serve(app, driver, listener, function(backend)
    if expect_proxy_header then expect_proxy_header(backend.server) end
    if tls then backend:use_tls(tls) end
  end)
  server.tls = tls
  listener.on_exhausted = function() app_server:close_some_idle() end
  server.url = url_of(listener, tls and "https")
  -- A worker does not warn: the VM that started the workers has already warned.
  if not M.worker() then warn_of_debug(app, listener) end
  is_complete = true
  return server
end

-- `listen(app, where, opts)` implements `app:listen`.
function M.listen(app, where, opts)
  return listen(app, "listen", where, options.check("app:listen", 2, opts, LISTEN_OPTIONS))
end

-- `server(app)` implements `app:server`.
function M.server(app)
  return (serve(app, driver_for "server"))
end

-- Running ----------------------------------------------------------------------------------------------

-- `worker()` implements `web.worker`.
function M.worker()
  local workers = package.loaded["lio.web.workers"]
  local assignment = workers and workers.assignment
  if not assignment then return nil end
  return assignment.index, assignment.count
end

local function announce(url)
  io.stdout:write("lio: serving ", url, "\n")
  io.stdout:flush()
end

-- Returns whether the option `tls` names a file. Text never changes; an object may have been made of files.
local function has_files(option)
  if type(option) ~= "table" then return true end
  local texts = { option.cert, option.key }
  for _, identity in ipairs(option.certs or {}) do
    texts[#texts + 1], texts[#texts + 2] = identity.cert, identity.key
  end
  for _, text in ipairs(texts) do
    if not text:find("-----BEGIN ", 1, true) then return true end
  end
  return false
end

-- Returns the signals that a server handles. SIGHUP makes it read its certificates again, if they are in files.
local function signals_of(option)
  if option and has_files(option) then return { "SIGINT", "SIGTERM", "SIGHUP" } end
  return { "SIGINT", "SIGTERM" }
end

local function start_workers(app, where, opts)
  local loop = require "lio.loop"
  if loop.drives() then
    misuse.raise "app:run: several workers can be started only in a program's main chunk, not in a loop or a service"
  end
  local addr, port = parse_address("run", where, opts)
  -- The workers share the keys of session tickets as long as this value exists.
  local tls = tls_of("run", opts.tls)
  local ok, message = require("lio.web.workers").start {
    addr = addr,
    port = port,
    listen = net_options(opts),
    count = opts.workers,
    module = opts.module,
    args = opts.args,
    grace = app.grace or loop.grace,
    watchdog = opts.watchdog,
    max_run_time = opts.max_run_time,
    signals = signals_of(opts.tls),
    on_listening = function(socket)
      announce(url_of(socket, tls and "https"))
      warn_of_debug(app, socket)
    end,
  }
  if not ok then misuse.raise(cannot_listen(addr, port, message)) end
end

-- Makes SIGHUP read the certificates of a server again, if they are in files. Returns a value to close when the server
-- has stopped.
local function reload_on_hangup(loop, server, option)
  if not (server.tls and has_files(option)) then return nil end
  local report = require "lio.net.report"
  return defer(loop._on_signal("SIGHUP", function()
    local ok, message = server.tls:reload()
    if not ok then report("SIGHUP: cannot read the certificates again: " .. message) end
  end))
end

-- Serves an app in this VM until its server has stopped. Calls `on_listening(server)` when the app listens.
local function run_here(app, where, opts, on_listening)
  local loop = require "lio.loop"
  local server, message
  local is_left = false
  -- After an error, or if the task is killed, the caller cannot stop the server.
  local _ <close> = defer(function()
    if server and not (is_left or server.ended) then servers.abandon(server) end
  end)
  server, message = listen(app, "run", where, opts)
  if not server then misuse.raise(message) end
  -- Another program may read the address from standard output and send a signal before the loop runs.
  local _ <close> = not loop.is_running() and assert(require("lio.signal").hold("SIGINT", "SIGTERM")) or nil
  local _ <close> = reload_on_hangup(loop, server, opts.tls)
  loop.watchdog, loop.max_run_time = opts.watchdog or loop.watchdog, opts.max_run_time or loop.max_run_time
  if loop.is_running() and (opts.watchdog or opts.max_run_time) then loop._limit_run_time() end
  on_listening(server)
  if loop.is_running() then return server:wait() end
  is_left = true
  loop.grace = app.grace or loop.grace
  return loop.run(server.wait, server)
end

-- `run(app, where, opts)` implements `app:run`.
function M.run(app, where, opts)
  opts = options.check("app:run", 2, opts, RUN_OPTIONS)
  driver_for "run"
  if (opts.workers or 1) == 1 then
    return run_here(app, where, opts, function(server) announce(server.url) end)
  end
  local workers = require "lio.web.workers"
  local is_worker, socket = workers.next_socket()
  if not is_worker then return start_workers(app, where, opts) end
  -- If there is no socket, the worker was started for another call of `run`, and this call does nothing.
  if socket then return run_here(app, socket, opts, workers.serve_with) end
end

return M
