-- Listeners: `listen`, `accept`. Part of `lio.net`, which calls this with its API table and what it runs
-- on. A listener is a table with its socket; accepted connections are streams. Invariant: a unix socket's
-- file is removed by who made it, and never while somebody listens on it or when it is no socket.

local stream = require "lio.stream"
local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"
local misuse = require "lio.misuse"
local options = require "lio.options"
local now <const> = require("lio").now
-- Under `lio --watch`: where sockets outlive the program; else false.
local watched <const> = require "lio.watched"

-- How long accepting pauses when the process is out of descriptors or the system out of memory, and how
-- long the next complaint about it waits.
local PAUSE <const>, COMPLAIN_AGAIN <const> = 0.1, 60
local EXHAUSTED <const> = { EMFILE = true, ENFILE = true, ENOBUFS = true, ENOMEM = true }

-- So many bytes the system takes for a peer beyond those that can leave for it. Without a bound, a thousand peers
-- that read slowly fill all memory that the system has for TCP, and nobody else's packets get through.
local UNSENT_MOST <const> = 256 * 1024

local OPTIONS <const> = {
  backlog = options.integer(0, 2147483647),
  reuseport = options.boolean,
  v6only = options.boolean,
  mode = options.rule("permission bits from 0 to 511, such as tonumber('660', 8)", function(value)
    return math.type(value) == "integer" and value >= 0 and value <= 511
  end),
}

-- "unix:/path" → the path; "unix:@name" → the abstract name, which begins with NUL.
local function unix_path(addr)
  local path = addr:match("^unix:(.+)$")
  if path and path:sub(1, 1) == "@" then path = "\0" .. path:sub(2) end
  return path
end

local function is_file(path)
  return path and path:sub(1, 1) ~= "\0"
end

local function make_unix_socket(path)
  local endpoint, message, code = lio_socket.endpoint("unix", path)
  if not endpoint then return nil, message, code end
  local s
  s, message, code = lio_socket.create("unix")
  if not s then return nil, message, code end
  return s, endpoint
end

-- The socket for an IP address, with its options set but not bound yet, and what to bind it to.
local function make_tcp_socket(ip, family, port, opts)
  local endpoint, message, code = lio_socket.endpoint(family, ip, port)
  if not endpoint then return nil, message, code end
  local s
  s, message, code = lio_socket.create(family == "inet6" and "tcp6" or "tcp")
  if not s then return nil, message, code end
  s:option("reuseaddr", true)
  -- Both are inherited by the accepted sockets, so they cost nothing per connection.
  s:option("nodelay", true)
  s:option("notsent_lowat", UNSENT_MOST)
  if opts.reuseport then s:option("reuseport", true) end
  if family == "inet6" then s:option("v6only", opts.v6only or false) end
  return s, endpoint
end

-- Binds, under `lio --watch` also while the program before this one still leaves the address.
local function bind_free(s, endpoint, key)
  local ok, message, code = s:bind(endpoint)
  while not ok and code == "in use" and key and watched.is_taken(key) do
    ok, message, code = s:bind(endpoint)
  end
  return ok, message, code
end

-- Takes over a socket that listens already; its permissions and backlog may be others now.
local function resume(s, path, opts)
  local ok, message, code = true, nil, nil
  if opts.mode and is_file(path) then
    ok, message, code = lio_socket.chmod(path, opts.mode)
  end
  if ok then ok, message, code = s:listen(opts.backlog or 1024) end
  if not ok then s:close() end
  return ok, message, code
end

-- Binds and listens. On failure nothing is left behind.
local function bind(s, endpoint, path, opts, key)
  local ok, message, code = bind_free(s, endpoint, key)
  if not ok and code == "in use" and is_file(path) and resolver.is_stale(path) then
    -- Left by a process that died.
    os.remove(path)
    ok, message, code = s:bind(endpoint)
  end
  local bound = ok
  -- Before listening: nobody gets in while the permissions are the wider ones.
  if ok and opts.mode and is_file(path) then
    ok, message, code = lio_socket.chmod(path, opts.mode)
  end
  if ok then ok, message, code = s:listen(opts.backlog or 1024) end
  if not ok then
    s:close()
    if bound and is_file(path) then os.remove(path) end
  end
  return ok, message, code
end

local function check_address(addr, port, call)
  if type(addr) ~= "string" then misuse.argument(call, 1, "address", addr) end
  if not unix_path(addr) then misuse.check_port(call, 2, port) end
end

-- Whether a userdata is a socket that is open. What it sets is inherited by what is accepted, as for those made here.
local function is_socket(s)
  return pcall(function() return s:option("nodelay", true) end)
end

return function(api, host)
  local selector, turns = host.selector, host.turns
  local reads <const>, pass_on <const> = turns.reads, turns.pass_on
  local accept_stream <const>, adopt_stream <const> = stream.accept, host.adopt

  local Listener = {}
  Listener.__index = Listener
  Listener.__name = "lio.listener"

  function Listener:__tostring()
    return "listener (" .. (self.closed and "closed" or self.text) .. ")"
  end

  local function adopt(s, path, key)
    local ok, message, code = stream.watch(selector, s)
    if not ok then
      s:close()
      return false, message, code
    end
    local here = s:info("socket")
    return setmetatable({ socket = s, path = path, key = key, text = here and tostring(here) or "?" }, Listener)
  end

  -- An address as ip and family. A name is looked up off-thread where the caller can wait; before the
  -- loop runs, the thread waits.
  local function find_address(addr)
    local ip, family = resolver.is_numeric(addr)
    if ip then return ip, family end
    if not coroutine.isyieldable() then
      local endpoint, message, code = lio_socket.endpoint("hostname", addr, 0)
      if not endpoint then return nil, message, code end
      local found, _, its_family = endpoint:value()
      return found, its_family
    end
    local list, message, code = api.resolve(addr)
    if not list then return nil, message, code end
    return resolver.is_numeric(list[1])
  end

  -- Opens a socket that listens, under `lio --watch` that of the program before this one if there is one. → the
  -- socket, the path of a file to be removed, and the key of who watches; or nil, message, code.
  local function open_socket(addr, port, opts)
    local path = unix_path(addr)
    local s, endpoint, code, message, ok, key
    if path then
      s, endpoint, code = make_unix_socket(path)
      key = watched and "unix " .. path
    else
      local ip, family, why = find_address(addr)
      if not ip then return nil, family, why end
      s, endpoint, code = make_tcp_socket(ip, family, port, opts)
      key = watched and ("%s %s %d %s %s"):format(family, ip, port, opts.reuseport or false, opts.v6only or false)
    end
    if not s then return nil, endpoint, code end
    local kept = key and watched.wants(key)
    if kept then
      s:close()
      s = kept
      ok, message, code = resume(s, path, opts)
    else
      ok, message, code = bind(s, endpoint, path, opts, key)
      if ok and key then watched.made(key, s) end
    end
    if not ok then return nil, message, code end
    -- Who watches removes the file, when nobody listens any more.
    if key then return s, nil, key end
    return s, path
  end

  -- `listen(addr, port [, opts])` → listener, or `false, message, code`. `addr`: an IP address or host
  -- name, `"unix:/path"` (or `"unix:@name"` for an abstract one; `port` nil), or a `lio.socket` that
  -- listens already. `port` 0: the system chooses, see `listener:address()`. `opts`: `backlog` (1024),
  -- `reuseport`, `v6only`, `mode` (permission bits of the unix socket).
  function api.listen(addr, port, opts)
    if type(addr) == "userdata" then
      options.check("net.listen", 3, opts, OPTIONS)
      if not is_socket(addr) then misuse.bad("listen", 1, "address or open socket expected") end
      return adopt(addr)
    end
    check_address(addr, port, "listen")
    opts = options.check("net.listen", 3, opts, OPTIONS)
    local s, path, key = open_socket(addr, port, opts)
    if not s then return false, path, key end
    return adopt(s, path, key)
  end

  -- `bind(addr, port [, opts])` → a `lio.socket` that listens, or `nil, message, code`; as for `listen`. Nobody
  -- accepts from it until it is given to `listen`, of this VM or, by its descriptor, of another one. Under
  -- `lio --watch` the third result is the key by which the supervisor knows it.
  function api.bind(addr, port, opts)
    check_address(addr, port, "bind")
    opts = options.check("net.bind", 3, opts, OPTIONS)
    local s, message, code = open_socket(addr, port, opts)
    if not s then return nil, message, code end
    return s, nil, code
  end

  local function exhausted(listener, message)
    listener.paused = true
    if not listener.complained or now() - listener.complained > COMPLAIN_AGAIN then
      listener.complained = now()
      io.stderr:write("lio: ", message, "; accepting pauses until descriptors are free\n")
    end
    if listener.on_exhausted then listener.on_exhausted() end
  end

  -- Accepts with the turn, waiting as long as nobody is there. With a keeper it is that which accepts.
  local function accept_in_turn(listener, keeper)
    local s = listener.socket
    while not listener.closed do
      local c, message, code
      if keeper then c, message, code = keeper.accept(selector) else c, message, code = accept_stream(selector, s) end
      if c then
        listener.paused = nil
        return c
      end
      if EXHAUSTED[code] then
        exhausted(listener, message)
      elseif c == nil then
        return false, message, code
      else
        listener.paused = nil
      end
      local reason = turns.await(reads, s, listener.paused and PAUSE)
      if reason == "timeout" and not listener.paused then return false, "timeout", "timeout" end
    end
    return false, "closed", "closed"
  end

  local function accept(listener, keeper)
    if listener.closed then return false, "closed", "closed" end
    local s = listener.socket
    if reads.turn[s] then
      local problem = turns.queue_up(reads, s)
      if problem then return false, problem, problem end
    end
    local c, message, code = accept_in_turn(listener, keeper)
    pass_on(reads, s)
    if not c then return false, message, code end
    return c
  end

  -- `accept(listener)` → connection; `false, "closed"` when the listener is closed. When the process is
  -- out of descriptors it is logged once, and accepting goes on a moment later.
  function api.accept(listener)
    if getmetatable(listener) ~= Listener then misuse.argument("accept", 1, "listener", listener) end
    local c, message, code = accept(listener)
    if not c then return false, message, code end
    if adopt_stream then adopt_stream(c) end
    return c
  end

  -- As `api.accept`, with the keeper of a server (serve.lua) in the place of who accepts. → true when that has some.
  host.accept_for = accept

  -- `listener:take_waiting()` → a connection that the system has accepted already, or nil. Does not wait.
  function Listener:take_waiting()
    misuse.check_kind("take_waiting", self, "listener")
    if self.closed then return nil end
    local c = accept_stream(selector, self.socket)
    if not c then return nil end
    if adopt_stream then adopt_stream(c) end
    return c
  end

  -- `listener:address()` → ip, port, family; for unix: path, kind, "unix".
  function Listener:address()
    misuse.check_kind("address", self, "listener")
    if self.closed then return nil, "closed", "closed" end
    local here, message, code = self.socket:info("socket")
    if not here then return nil, message, code end
    return here:value()
  end

  function Listener:is_closed()
    misuse.check_kind("is_closed", self, "listener")
    return self.closed == true
  end

  -- `listener:close()` → true. Idempotent; who waits in accept gets `false, "closed"`.
  function Listener:close()
    misuse.check_kind("close", self, "listener")
    if self.closed then return true end
    self.closed = true
    -- Who watches, or another worker, has it open as well, so that the system would go on with events.
    if watched or self.is_twin then selector:event_del(self.socket) end
    if self.key then watched.closed(self.key) end
    self.socket:close()
    turns.forget(self.socket)
    if is_file(self.path) then os.remove(self.path) end
    return true
  end

  Listener.__close = Listener.close
  Listener.accept = api.accept
  Listener.timeout = api.timeout
end
