-- What is asked of a connection besides its bytes: time limits, shutdown, addresses, options. Part of
-- `lio.net`. Listeners and datagram sockets have these calls too, as far as they mean something there.

local misuse = require "lio.misuse"
local stream = require "lio.stream"

local methods <const>, limit <const>, book <const> = stream.methods, stream.limit, stream.book
-- Named as the call whose argument it checks.
local is_closed <const>, shutdown <const> = methods.is_closed, methods.cut

local SIDES <const> = { r = true, w = true, rw = true }

return function(api, host)
  local reads <const>, writes <const> = host.turns.reads, host.turns.writes
  local timers <const> = host.timers

  -- `recv` of a connection is native: it has to know of the limit and of its timer.
  local function limit_native(c, seconds)
    local alarm = reads.alarms[c]
    if seconds and not alarm then
      alarm = timers:create(c)
      reads.alarms[c] = alarm
    end
    limit(c, seconds, alarm)
  end

  -- `timeout(c, read_seconds, write_seconds)`: how long a wait in recv and send may last; nil: for ever.
  -- Over it: `nil, "timeout"`, and the connection stays usable.
  function api.timeout(c, read_seconds, write_seconds)
    misuse.check_kind("timeout", c, "connection, listener or datagram socket")
    misuse.check_optional_seconds("timeout", 2, read_seconds)
    misuse.check_optional_seconds("timeout", 3, write_seconds)
    local x = c
    if type(c) == "table" then x = c.socket end
    if c:is_closed() then return nil, "closed", "closed" end
    book(x)
    reads.limits[x] = read_seconds
    writes.limits[x] = write_seconds
    if host.native and getmetatable(x) == stream.metatable then limit_native(x, read_seconds) end
    return true
  end

  -- `shutdown(c [, "r"|"w"|"rw"])`: ends one direction or both, after what is being sent. → true, or
  -- `nil, message, code`.
  function api.shutdown(c, how)
    misuse.check_kind("shutdown", c, "connection")
    if how ~= nil and not SIDES[how] then misuse.bad("shutdown", 2, "'r', 'w' or 'rw' expected") end
    if is_closed(c) then return nil, "closed", "closed" end
    if how ~= "r" then
      local done, message, _, code = api.send(c)
      if not done then return nil, message, code end
    end
    local done, message, code = shutdown(c, how)
    if done then return true end
    return nil, message, code
  end

  -- `peer(c)`, `sock(c)` → ip, port, family of the other side and of this one; for unix: path, kind,
  -- "unix". `nil, message, code` on failure.
  function api.peer(c)
    misuse.check_kind("peer", c, "connection")
    if c:is_closed() then return nil, "closed", "closed" end
    return c:address("peer")
  end

  function api.sock(c)
    misuse.check_kind("sock", c, "connection")
    if c:is_closed() then return nil, "closed", "closed" end
    return c:address("socket")
  end

  -- `option(c, name [, value])`: sets or gets a socket option (the names of `lio.socket`).
  function api.option(c, ...)
    misuse.check_kind("option", c, "connection or datagram socket")
    if c:is_closed() then return nil, "closed", "closed" end
    if type(c) == "table" then return misuse.rename("option", c.socket.option, c.socket, ...) end
    return misuse.rename("option", c.set_option, c, ...)
  end
end
