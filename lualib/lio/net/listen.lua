-- Listening sockets: `listen`, `bind`. Part of `lio.net`. Invariant: the file of a unix socket is removed by the VM
-- that has created it, or by the supervisor of `lio --watch`. A file is never removed while another process listens on
-- it, or if it is not a socket.

local listener = require "lio.net.listener"
local lio_socket = require "lio.socket"
local misuse = require "lio.misuse"
local options = require "lio.options"
local resolver = require "lio.resolver"
-- Under `lio --watch`, the functions that keep sockets open from one program to the next; otherwise false.
local supervisor <const> = require "lio.supervisor"

-- The maximum number of bytes that the system queues for a peer and has not sent yet. Without this bound, a thousand
-- peers that read slowly can fill all the memory that the system has for TCP; then packets of all connections are
-- dropped.
local MAX_UNSENT <const> = 256 * 1024

local OPTIONS <const> = {
  backlog = options.integer(0, 2147483647),
  reuseport = options.boolean,
  v6only = options.boolean,
  mode = options.rule("permission bits from 0 to 511, such as tonumber('660', 8)", function(value)
    return math.type(value) == "integer" and value >= 0 and value <= 511
  end),
}

-- The options of `listen`: those of `bind`, and `tls`.
local LISTEN_OPTIONS <const> = { tls = options.any }
for name, rule in pairs(OPTIONS) do LISTEN_OPTIONS[name] = rule end

local M = {}

-- Addresses ------------------------------------------------------------------------------------------

-- Returns the path from "unix:/path", or the abstract name from "unix:@name" with a leading NUL; nil for any other
-- address.
local function unix_path(addr)
  local path = addr:match("^unix:(.+)$")
  if path and path:sub(1, 1) == "@" then path = "\0" .. path:sub(2) end
  return path
end

local function is_file(path)
  return path and path:sub(1, 1) ~= "\0"
end

local function check_address(call, addr, port)
  misuse.check_address(call, addr)
  if not unix_path(addr) then misuse.check_port(call, 2, port) end
end

-- Returns the IP address and the family of an address or host name; or nil, message, code. If the caller can yield,
-- another thread resolves a name; otherwise, for example before the loop runs, this thread blocks.
local function find_address(driver, addr)
  local ip, family = resolver.is_numeric(addr)
  if ip then return ip, family end
  if not coroutine.isyieldable() then
    local endpoint, message, code = lio_socket.endpoint("hostname", addr, 0)
    if not endpoint then return nil, message, code end
    local found, _, its_family = endpoint:value()
    return found, its_family
  end
  local list, message, code = driver.net.resolve(addr)
  if not list then return nil, message, code end
  return resolver.is_numeric(list[1])
end

-- Opening --------------------------------------------------------------------------------------------

-- Creates a socket for an address without binding it. Returns a table: `socket`, `endpoint` (the address to bind),
-- `path` (for a unix socket), and under `lio --watch` the `key` by which the supervisor identifies the socket; or nil,
-- message, code.
local function new_unix_socket(path)
  local endpoint, message, code = lio_socket.endpoint("unix", path)
  if not endpoint then return nil, message, code end
  local socket
  socket, message, code = lio_socket.create("unix")
  if not socket then return nil, message, code end
  return { socket = socket, endpoint = endpoint, path = path, key = supervisor and "unix " .. path }
end

local function new_tcp_socket(ip, family, port, opts)
  local endpoint, message, code = lio_socket.endpoint(family, ip, port)
  if not endpoint then return nil, message, code end
  local socket
  socket, message, code = lio_socket.create(family == "inet6" and "tcp6" or "tcp")
  if not socket then return nil, message, code end
  socket:option("reuseaddr", true)
  -- Accepted sockets inherit both options, so no system calls are needed for each connection.
  socket:option("nodelay", true)
  socket:option("notsent_lowat", MAX_UNSENT)
  if opts.reuseport then socket:option("reuseport", true) end
  if family == "inet6" then socket:option("v6only", opts.v6only or false) end
  local key = supervisor
    and ("%s %s %d %s %s"):format(family, ip, port, opts.reuseport or false, opts.v6only or false)
  return { socket = socket, endpoint = endpoint, key = key }
end

-- Binds the socket. Under `lio --watch`, tries again while the previous program still uses the address.
local function bind_when_free(opening)
  local socket, key = opening.socket, opening.key
  local ok, message, code = socket:bind(opening.endpoint)
  while not ok and code == "in use" and key and supervisor.may_become_free(key) do
    ok, message, code = socket:bind(opening.endpoint)
  end
  return ok, message, code
end

-- Binds and listens. On failure, closes the socket and removes the file that `bind` has created.
local function bind_and_listen(opening, opts)
  local socket, path = opening.socket, opening.path
  local ok, message, code = bind_when_free(opening)
  if not ok and code == "in use" and is_file(path) and resolver.is_stale(path) then
    -- A process that has died left the file.
    os.remove(path)
    ok, message, code = socket:bind(opening.endpoint)
  end
  local bound = ok
  -- Done before `listen`, so that no client can connect while the permissions are wider.
  if ok and opts.mode and is_file(path) then ok, message, code = lio_socket.chmod(path, opts.mode) end
  if ok then ok, message, code = socket:listen(opts.backlog or 1024) end
  if not ok then
    socket:close()
    if bound and is_file(path) then os.remove(path) end
  end
  return ok, message, code
end

-- Takes over a socket that is already listening. Sets the permissions and the backlog from the options.
local function resume(socket, path, opts)
  local ok, message, code = true, nil, nil
  if opts.mode and is_file(path) then ok, message, code = lio_socket.chmod(path, opts.mode) end
  if ok then ok, message, code = socket:listen(opts.backlog or 1024) end
  if not ok then socket:close() end
  return ok, message, code
end

-- Opens a listening socket. Under `lio --watch`, takes the previous program's socket if there is one. Returns the
-- socket, the file that its owner must remove (or nil), and its key (or nil); or nil, message, code.
local function open_socket(driver, addr, port, opts)
  local path = unix_path(addr)
  local opening, message, code
  if path then
    opening, message, code = new_unix_socket(path)
  else
    local ip, family, problem = find_address(driver, addr)
    if not ip then return nil, family, problem end
    opening, message, code = new_tcp_socket(ip, family, port, opts)
  end
  if not opening then return nil, message, code end
  local key = opening.key
  local kept = key and supervisor.request_socket(key)
  local ok
  if kept then
    opening.socket:close()
    opening.socket = kept
    ok, message, code = resume(kept, path, opts)
  else
    ok, message, code = bind_and_listen(opening, opts)
    if ok and key then supervisor.report_socket(key, opening.socket) end
  end
  if not ok then return nil, message, code end
  -- If there is a key, the supervisor removes the file when no program listens any longer.
  return opening.socket, not key and is_file(path) and path or nil, key or nil
end

-- Calls ----------------------------------------------------------------------------------------------

-- Returns whether a userdata is an open socket. Sets `nodelay`, which accepted sockets inherit, as for the sockets that
-- this file opens.
local function is_open_socket(value)
  return pcall(function() return value:option("nodelay", true) end)
end

-- Returns TLS for the option `tls`; nil if there is none; or false, message, code.
local function tls_of(opts)
  if not opts.tls then return nil end
  local object, message, code = require("lio.tls").server_of("net.listen", opts.tls)
  if not object then return false, message, code end
  return object
end

local function listen_on_socket(driver, socket, opts)
  opts = options.check("net.listen", 3, opts, LISTEN_OPTIONS)
  if not is_open_socket(socket) then misuse.bad("listen", 1, "address or open socket expected") end
  local tls, message, code = tls_of(opts)
  if tls == false then return false, message, code end
  return listener.new(driver, socket, nil, nil, tls)
end

-- `install(driver, calls)`: adds the functions of this file, and `accept`, to `calls`.
function M.install(driver, calls)
  listener.install(driver, calls)

  -- `listen(addr, port [, opts])` returns a listener, or `false, message, code`. `addr` is an IP address, a host name,
  -- `"unix:/path"`, `"unix:@name"` for an abstract unix socket, or a `lio.socket` that is already listening. For a unix
  -- socket, `port` is nil. If `port` is 0, the system chooses it; see `listener:address()`. `opts`: `backlog` (1024),
  -- `reuseport`, `v6only`, `mode` (permission bits of the unix socket), `tls` (the options of `tls.server`, or its
  -- result).
  function calls.listen(addr, port, opts)
    if type(addr) == "userdata" then return listen_on_socket(driver, addr, opts) end
    check_address("listen", addr, port)
    opts = options.check("net.listen", 3, opts, LISTEN_OPTIONS)
    local tls, message, code = tls_of(opts)
    if tls == false then return false, message, code end
    local socket, file, key = open_socket(driver, addr, port, opts)
    if not socket then return false, file, key end
    return listener.new(driver, socket, file, key, tls)
  end

  -- `bind(addr, port [, opts])` returns a `lio.socket` that listens, or `nil, message, code`. Its connections wait
  -- until the socket is passed to `listen`, in this VM or, by its descriptor, in another VM. Under `lio --watch`, the
  -- third result is the key by which the supervisor identifies the socket.
  function calls.bind(addr, port, opts)
    check_address("bind", addr, port)
    opts = options.check("net.bind", 3, opts, OPTIONS)
    local socket, file, key = open_socket(driver, addr, port, opts)
    if not socket then return nil, file, key end
    return socket, nil, key
  end
end

return M
