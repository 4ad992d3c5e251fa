-- Sockets that listen: `listen`, `bind`. Part of `lio.net`. Invariant: the file of a unix socket is removed by the VM
-- that made it, and never while another process listens on it or when it is not a socket.

local listener = require "lio.net.listener"
local lio_socket = require "lio.socket"
local misuse = require "lio.misuse"
local options = require "lio.options"
local resolver = require "lio.resolver"
-- Under `lio --watch`, the functions that keep sockets open from one program to the next; else false.
local supervisor <const> = require "lio.supervisor"

-- How many unsent bytes the system queues for a peer in addition to those that it can send. Without a bound, a thousand
-- peers that read slowly fill all memory that the system has for TCP, and the packets of all other connections are
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

local M = {}

-- Addresses ------------------------------------------------------------------------------------------

-- The path in "unix:/path", or the abstract name in "unix:@name", which begins with NUL; else nil.
local function unix_path(addr)
  local path = addr:match("^unix:(.+)$")
  if path and path:sub(1, 1) == "@" then path = "\0" .. path:sub(2) end
  return path
end

local function is_file(path)
  return path and path:sub(1, 1) ~= "\0"
end

local function check_address(call, addr, port)
  if type(addr) ~= "string" then misuse.argument(call, 1, "address", addr) end
  if not unix_path(addr) then misuse.check_port(call, 2, port) end
end

-- An address as ip and family; nil, message, code. A name is resolved off the thread if the caller can wait; before the
-- loop runs, the thread waits.
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

-- A socket for an address that is not bound yet: `socket`, `endpoint` to bind it to, `path` of a unix socket, and under
-- `lio --watch` the `key` by which the supervisor identifies it. Else nil, message, code.
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
  -- Accepted sockets inherit both, so they cost nothing per connection.
  socket:option("nodelay", true)
  socket:option("notsent_lowat", MAX_UNSENT)
  if opts.reuseport then socket:option("reuseport", true) end
  if family == "inet6" then socket:option("v6only", opts.v6only or false) end
  local key = supervisor
    and ("%s %s %d %s %s"):format(family, ip, port, opts.reuseport or false, opts.v6only or false)
  return { socket = socket, endpoint = endpoint, key = key }
end

-- Binds, under `lio --watch` even while the previous program is leaving the address.
local function bind_when_free(opening)
  local socket, key = opening.socket, opening.key
  local ok, message, code = socket:bind(opening.endpoint)
  while not ok and code == "in use" and key and supervisor.may_become_free(key) do
    ok, message, code = socket:bind(opening.endpoint)
  end
  return ok, message, code
end

-- Binds and listens. On failure nothing is left behind.
local function bind_and_listen(opening, opts)
  local socket, path = opening.socket, opening.path
  local ok, message, code = bind_when_free(opening)
  if not ok and code == "in use" and is_file(path) and resolver.is_stale(path) then
    -- Left by a process that died.
    os.remove(path)
    ok, message, code = socket:bind(opening.endpoint)
  end
  local bound = ok
  -- Before listening, so that no client connects while the permissions are wider.
  if ok and opts.mode and is_file(path) then ok, message, code = lio_socket.chmod(path, opts.mode) end
  if ok then ok, message, code = socket:listen(opts.backlog or 1024) end
  if not ok then
    socket:close()
    if bound and is_file(path) then os.remove(path) end
  end
  return ok, message, code
end

-- Takes over a socket that listens already, with the permissions and backlog of the options.
local function resume(socket, path, opts)
  local ok, message, code = true, nil, nil
  if opts.mode and is_file(path) then ok, message, code = lio_socket.chmod(path, opts.mode) end
  if ok then ok, message, code = socket:listen(opts.backlog or 1024) end
  if not ok then socket:close() end
  return ok, message, code
end

-- Opens a socket that listens, or under `lio --watch` takes the previous program's socket, if there is one. Returns the
-- socket, the file that its owner removes, and its key; or nil, message, code.
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
  -- The supervisor removes the file when no program listens any longer.
  return opening.socket, not key and is_file(path) and path or nil, key or nil
end

-- Calls ----------------------------------------------------------------------------------------------

-- Whether a userdata is an open socket. Accepted sockets inherit the option, as with sockets opened here.
local function is_open_socket(value)
  return pcall(function() return value:option("nodelay", true) end)
end

local function listen_on_socket(driver, socket, opts)
  options.check("net.listen", 3, opts, OPTIONS)
  if not is_open_socket(socket) then misuse.bad("listen", 1, "address or open socket expected") end
  return listener.new(driver, socket)
end

-- `install(driver)`: makes the calls of this file, and `accept`.
function M.install(driver)
  local net <const> = driver.net
  listener.install(driver)

  -- `listen(addr, port [, opts])` returns a listener, or `false, message, code`. `addr`: an IP address or host name,
  -- `"unix:/path"` (or `"unix:@name"` for an abstract one; `port` nil), or a `lio.socket` that listens already. `port`
  -- 0: the system chooses, see `listener:address()`. `opts`: `backlog` (1024), `reuseport`, `v6only`, `mode`
  -- (permission bits of the unix socket).
  function net.listen(addr, port, opts)
    if type(addr) == "userdata" then return listen_on_socket(driver, addr, opts) end
    check_address("listen", addr, port)
    opts = options.check("net.listen", 3, opts, OPTIONS)
    local socket, file, key = open_socket(driver, addr, port, opts)
    if not socket then return false, file, key end
    return listener.new(driver, socket, file, key)
  end

  -- `bind(addr, port [, opts])` returns a `lio.socket` that listens, or `nil, message, code`. Its connections wait
  -- until it is given to `listen`, of this VM or, by its descriptor, of another one. Under `lio --watch` the third
  -- result is the key by which the supervisor identifies it.
  function net.bind(addr, port, opts)
    check_address("bind", addr, port)
    opts = options.check("net.bind", 3, opts, OPTIONS)
    local socket, file, key = open_socket(driver, addr, port, opts)
    if not socket then return nil, file, key end
    return socket, nil, key
  end
end

return M
