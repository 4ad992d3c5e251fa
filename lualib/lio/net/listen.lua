-- Listeners: `listen`, `accept`. Part of `lio.net`, which calls this with its API table and what it runs
-- on. A listener is a table with its socket; accepted connections are streams.

local stream = require "lio.stream"
local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"

-- How long accepting pauses when the process is out of descriptors or the system out of memory.
local PAUSE <const> = 0.1
local EXHAUSTED <const> = { EMFILE = true, ENFILE = true, ENOBUFS = true, ENOMEM = true }

local Listener = {}
Listener.__index = Listener
Listener.__name = "lio.listener"

function Listener:__tostring()
  return "listener (" .. (self.closed and "closed" or self.text) .. ")"
end

-- The socket for an address, with its options set but not bound yet, and what to bind it to.
local function make_socket(addr, port, opts)
  local path = addr:match("^unix:(.+)$")
  if path then
    if path:sub(1, 1) == "@" then path = "\0" .. path:sub(2) end
    local endpoint, message, code = lio_socket.endpoint("unix", path)
    if not endpoint then return nil, message, code end
    return assert(lio_socket.create("unix")), endpoint, path
  end
  local ip, family = resolver.is_numeric(addr)
  local endpoint, message, code
  if ip then
    endpoint, message, code = lio_socket.endpoint(family, addr, port)
  else
    endpoint, message, code = lio_socket.endpoint("hostname", addr, port)
    if endpoint then family = select(3, endpoint:value()) end
  end
  if not endpoint then return nil, message, code end
  local s
  s, message, code = lio_socket.create(family == "inet6" and "tcp6" or "tcp")
  if not s then return nil, message, code end
  s:option("reuseaddr", true)
  -- Inherited by the accepted sockets, so it costs nothing per connection.
  s:option("nodelay", true)
  if opts.reuseport then s:option("reuseport", true) end
  if family == "inet6" then s:option("v6only", opts.v6only or false) end
  return s, endpoint
end

-- A socket file that nobody listens on any more is left by a process that died: it may go.
local function remove_stale(path)
  if path:sub(1, 1) == "\0" then return end
  local probe = lio_socket.create("unix")
  if not probe then return end
  local ok, _, code = probe:connect(path)
  probe:close()
  if ok == nil and code == "refused" then os.remove(path) end
end

local function set_mode(path, mode)
  if not mode or path:sub(1, 1) == "\0" then return true end
  if type(mode) ~= "number" then
    error("listen: mode must be an integer such as tonumber('660', 8)", 3)
  end
  return lio_socket.chmod(path, mode)
end

local function bind(s, endpoint, path, opts)
  if path then remove_stale(path) end
  local ok, message, code = s:bind(endpoint)
  if ok and path then ok, message, code = set_mode(path, opts.mode) end
  if ok then ok, message, code = s:listen(opts.backlog or 1024) end
  return ok, message, code
end

return function(api, host)
  local selector, sched = host.selector, host.sched

  local function adopt(s, path)
    local ok, message, code = selector:event_add(s, 0)
    if not ok then
      s:close()
      return false, message, code
    end
    local here = s:info("socket")
    return setmetatable({
      socket = s,
      path = path,
      text = here and tostring(here) or "?",
      waiting = {},
    }, Listener)
  end

  -- `listen(addr, port [, opts])` → listener, or `false, message, code`. `addr`: an IP address or host
  -- name, `"unix:/path"` (or `"unix:@name"` for an abstract one; `port` nil), or a `lio.socket` that
  -- listens already. `port` 0: the system chooses, see `listener:address()`. `opts`: `backlog` (1024),
  -- `reuseport`, `v6only`, `mode` (permission bits of the unix socket).
  function api.listen(addr, port, opts)
    opts = opts or {}
    if type(addr) == "userdata" then return adopt(addr) end
    if type(addr) ~= "string" then
      error("bad argument #1 to 'listen' (address expected, got " .. type(addr) .. ")", 2)
    end
    if math.type(port) ~= "integer" and not addr:match("^unix:") then
      error("bad argument #2 to 'listen' (port expected, got " .. type(port) .. ")", 2)
    end
    local s, endpoint, path = make_socket(addr, port, opts)
    if not s then return false, endpoint, path end
    local ok, message, code = bind(s, endpoint, path, opts)
    if not ok then
      s:close()
      return false, message, code
    end
    return adopt(s, path)
  end

  -- The wait of one accept: in turn, the first that came is the first to go on.
  local function wait_turn(listener)
    local token = sched.running()
    table.insert(listener.waiting, token)
    while listener.waiting[1] ~= token do
      if sched.wait(token) == "closed" then return "closed" end
      if not listener.waiting[1] then return "closed" end
    end
    local reason = host.wait_ready(host.readers, listener.socket, listener.paused and PAUSE)
    if listener.closed then return "closed" end
    table.remove(listener.waiting, 1)
    local next_one = listener.waiting[1]
    if next_one then sched.wakeup(next_one, true) end
    return reason
  end

  local function exhausted(listener, message)
    if not listener.paused then
      listener.paused = true
      io.stderr:write("lio: ", message, "; accepting pauses until descriptors are free\n")
    end
    if listener.on_exhausted then listener.on_exhausted() end
  end

  -- `accept(listener)` → connection; `false, "closed"` when the listener is closed. When the process is
  -- out of descriptors it is logged once, and accepting goes on a moment later.
  function api.accept(listener)
    while true do
      if listener.closed then return false, "closed", "closed" end
      if #listener.waiting == 0 then
        local c, message, code = stream.accept(selector, listener.socket)
        if c then
          listener.paused = nil
          return c
        end
        if c == nil then
          if not EXHAUSTED[code] then return false, message, code end
          exhausted(listener, message)
        elseif not c then
          listener.paused = nil
        end
      end
      if wait_turn(listener) == "closed" then return false, "closed", "closed" end
    end
  end

  -- `listener:address()` → ip, port, family; for unix: path, kind, "unix".
  function Listener:address()
    local here, message, code = self.socket:info("socket")
    if not here then return nil, message, code end
    return here:value()
  end

  -- `listener:close()` → true. Idempotent; who waits in accept gets `false, "closed"`.
  function Listener:close()
    if self.closed then return true end
    self.closed = true
    local waiting = self.waiting
    self.waiting = {}
    self.socket:close()
    host.forget(self.socket)
    for _, token in ipairs(waiting) do sched.wakeup(token, "closed") end
    if self.path and self.path:sub(1, 1) ~= "\0" then os.remove(self.path) end
    return true
  end

  Listener.__close = Listener.close
  Listener.accept = api.accept
end
