-- The settings and addresses of connections: time limits, shutdown, addresses, socket options. Part of `lio.net`.
-- Listeners and datagram sockets also have some of these calls.

local driver_of <const> = require("lio.net.connection").driver_of
local misuse = require "lio.misuse"
local stream = require "lio.stream"

local methods <const> = stream.methods
-- Lua's message about an invalid argument contains the name of the local `shutdown`.
local is_closed <const>, shutdown <const> = methods.is_closed, methods.shutdown_now

local SIDES <const> = { r = true, w = true, rw = true }

local M = {}

local function check_limit(index, seconds)
  misuse.check_optional_seconds("timeout", index, seconds)
  if seconds and seconds < 0 then
    misuse.bad("timeout", index, ("a number of seconds of at least 0, or nil, expected, got %s"):format(seconds))
  end
end

-- `timeout(x, read_seconds, write_seconds)`: limits how long each wait for reading and each wait for writing may last;
-- nil: no limit. When the time has passed, the waiting call fails with "timeout"; `x` stays usable.
function M.timeout(x, read_seconds, write_seconds)
  misuse.check_kind("timeout", x, "connection, listener or datagram socket")
  check_limit(2, read_seconds)
  check_limit(3, write_seconds)
  if x:is_closed() then return nil, "closed", "closed" end
  local driver
  if type(x) == "table" then
    driver, x = x.driver, x.socket
  else
    driver = driver_of(x)
  end
  driver.read_queue:set_limit(x, read_seconds)
  driver.write_queue:set_limit(x, write_seconds)
  return true
end

local function end_sending(net, c, how)
  if how ~= nil and not SIDES[how] then misuse.bad("shutdown", 2, "'r', 'w' or 'rw' expected") end
  if is_closed(c) then return nil, "closed", "closed" end
  if how ~= "r" then
    local done, message, _, code = net.send(c)
    if not done then return nil, message, code end
  end
  local done, message, code = shutdown(c, how)
  if done and how ~= "r" and c:queued() > 0 then
    -- TLS could not send its last bytes.
    local _
    done, message, _, code = net.send(c)
  end
  if done then return true end
  return nil, message, code
end

-- `peer(c)` returns the ip, the port and the family of the peer's address, `sock(c)` those of the local address; for a
-- unix socket, the path, the kind and "unix". On failure, they return `nil, message, code`.
local function peer(c)
  misuse.check_kind("peer", c, "connection")
  if c:is_closed() then return nil, "closed", "closed" end
  return c:address("peer")
end

local function sock(c)
  misuse.check_kind("sock", c, "connection")
  if c:is_closed() then return nil, "closed", "closed" end
  return c:address("socket")
end

-- `option(c, name [, value])`: sets a socket option if a value is given; otherwise returns the option's value.
-- `lio.socket` lists the names.
function M.option(c, ...)
  misuse.check_kind("option", c, "connection or datagram socket")
  if c:is_closed() then return nil, "closed", "closed" end
  if type(c) == "table" then return misuse.rename("option", c.socket.option, c.socket, ...) end
  return misuse.rename("option", c.set_option, c, ...)
end

-- `install(driver)`: adds the functions of this file to `driver.net`.
function M.install(driver)
  local net <const> = driver.net
  net.timeout, net.peer, net.sock, net.option = M.timeout, peer, sock, M.option

  -- `shutdown(c [, "r"|"w"|"rw"])`: shuts down one direction or both (default). Bytes that other tasks are sending are
  -- sent first. Returns true, or `nil, message, code`.
  function net.shutdown(c, how)
    misuse.check_kind("shutdown", c, "connection")
    return end_sending(net, c, how)
  end
end

return M
