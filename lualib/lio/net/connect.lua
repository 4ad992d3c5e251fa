-- Outgoing connections: `connect`, `attempt`. Part of `lio.net`. A host name is resolved first; then its addresses
-- race, as described in net/happy_eyeballs.lua.

local check_options <const> = require "lio.net.connect_options"
local happy_eyeballs = require "lio.net.happy_eyeballs"
local lio_socket = require "lio.socket"
local misuse = require "lio.misuse"
local resolve = require "lio.net.resolve"
local resolver = require "lio.resolver"

local now <const> = require("lio").now

local M = {}

-- The object with which another task can cancel a `connect`. While the `connect` waits, `token` is the token on which
-- it waits; during a handshake of TLS, `connection` is the connection.
local Attempt = {}
Attempt.__index = Attempt
Attempt.__name = "lio.attempt"

-- `attempt:close()` cancels the `connect`, which then returns `false, "closed"`. Returns true. Idempotent.
function Attempt:close()
  misuse.check_kind("close", self, "attempt")
  self.closed = true
  if self.token then self.driver.scheduler.wakeup(self.token, "closed") end
  if self.connection then self.connection:close() end
  return true
end

Attempt.__close = Attempt.close

local function connect_unix(driver, path, opts)
  if path:sub(1, 1) == "@" then path = "\0" .. path:sub(2) end
  local endpoint, message, code = lio_socket.endpoint("unix", path)
  if not endpoint then return nil, message, code end
  local race <close> = happy_eyeballs.race(driver, {}, nil, opts.timeout)
  local s = race:start("unix", endpoint)
  if s then return s end
  return race:run(opts.attempt)
end

local function connect_ip(driver, addr, port, opts)
  local started = now()
  local addresses, message, code
  if resolver.is_numeric(addr) then
    addresses = { addr }
  else
    addresses, message, code = driver.resolver:look_up(addr, opts.timeout, opts.attempt)
    if not addresses then return nil, message, code end
    addresses = happy_eyeballs.alternate(addresses)
  end
  local seconds = opts.timeout and opts.timeout - (now() - started)
  local race <close> = happy_eyeballs.race(driver, addresses, port, seconds)
  return race:run(opts.attempt)
end

-- Puts TLS on a connected socket. Returns a connection, or false, message, code.
local function secure(driver, s, tls, host, opts, started)
  local c, message, code = driver.net.wrap(s)
  if not c then return false, message, code end
  local attempt <const>, seconds = opts.attempt, opts.timeout
  if seconds then seconds = math.max(seconds - (now() - started), 0) end
  if attempt then attempt.connection = c end
  local ok
  ok, message, code = require("lio.net.tls").shake_hands(driver, c, tls, host, seconds)
  if attempt then attempt.connection = nil end
  if not ok then return false, message, code end
  return c
end

local function connect(driver, addr, port, opts)
  misuse.check_address("connect", addr)
  local path = addr:match("^unix:(.+)$")
  if not path then misuse.check_port("connect", 2, port) end
  opts = check_options(opts)
  local attempt = opts.attempt
  if attempt and attempt.closed then return false, "closed", "closed" end
  local tls, s, message, code
  if opts.tls then
    tls, message, code = require("lio.tls").client_of("net.connect", opts.tls)
    if not tls then return false, message, code end
  end
  local started = now()
  if path then
    s, message, code = connect_unix(driver, path, opts)
  else
    s, message, code = connect_ip(driver, addr, port, opts)
  end
  if attempt then attempt.token = nil end
  if attempt and attempt.closed then
    if s then s:close() end
    return false, "closed", "closed"
  end
  if not s then return false, message, code end
  if not tls then return driver.net.wrap(s) end
  return secure(driver, s, tls, not path and addr or nil, opts, started)
end

-- `install(driver, calls)`: adds the functions of this file, and `resolve`, to `calls`.
function M.install(driver, calls)
  resolve.install(driver, calls)

  -- `attempt()` returns a value for the option `attempt` of one `connect`.
  function calls.attempt()
    return setmetatable({ driver = driver }, Attempt)
  end

  -- `connect(addr, port [, opts])` returns a connection, or `false, message, code`. `addr` is an IP address, a host
  -- name, or `"unix:/path"`. `opts.timeout` is in seconds, and includes the time for resolving a name. `opts.attempt`
  -- is a result of `attempt()`: if another task closes the attempt meanwhile, `connect` returns `false, "closed"`.
  -- `opts.tls` is true for an encrypted connection; or the options of `tls.client`, or its result. The time for the
  -- handshake is part of `timeout`.
  function calls.connect(addr, port, opts)
    return connect(driver, addr, port, opts)
  end
end

return M
