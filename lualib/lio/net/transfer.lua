-- Connections that move to another loop: `transfer`, and what receives them. Part of `lio.net`; `join` is
-- called by the service that owns the loop. Invariant: a connection has one owner at each moment, as its
-- socket and bytes travel under a number that can be taken once (src/stream/parcel.rs).

local debug <const> = debug or require "lio.debug"
local misuse = require "lio.misuse"
local stream = require "lio.stream"

local is_closed <const> = stream.methods.is_closed

-- What an error of a request says, and the code for it.
local function problem_of(err, service)
  local text = type(err) == "table" and err.message or tostring(err)
  local dead = text:find(("{service:%d} is dead"):format(service), 1, true)
  return "transfer: " .. text, dead and "dead" or "refused"
end

-- Those of a sender's arguments that cannot be in a message.
local function is_misuse(err)
  return tostring(err):find("Unsupport type", 1, true) ~= nil
end

return function(api, host)
  local selector, turns = host.selector, host.turns
  local receiver, call

  -- `join(f)`: from now on `f(service, name, …)` makes requests to other services.
  function api.join(f) call = f end

  -- `on_transfer(f)`: `f(c, …)` runs as a task for each connection that another service transfers to this
  -- one, with what else it passed. `c` is f's own: nobody else closes it, unless `f` raises. nil: connections
  -- become handles of who sends them.
  function api.on_transfer(f)
    if f ~= nil then misuse.check("on_transfer", 1, f, "function") end
    receiver = f
  end

  local function receive(f, c, ...)
    local ok, message = xpcall(f, debug.traceback, c, ...)
    if ok then return end
    io.stderr:write("lio: error in the receiver of a connection: ", tostring(message), "\n")
    api.close(c)
  end

  -- `receive(c, …)` → whether there is a function of `on_transfer`, which runs as a task then.
  function api.receive(c, ...)
    if not receiver then return false end
    host.sched.fork(receive, receiver, c, ...)
    return true
  end

  -- `adopt(number)` → the connection that was sent off under it, or `nil, message, code`.
  function api.adopt(number)
    local c, message, code = stream.adopt(selector, number)
    if not c then return nil, message, code end
    if host.adopt then host.adopt(c) end
    return c
  end

  -- `send_off(c, service, owner, …)`: what `transfer` does, on behalf of service `owner` (nil: this one).
  function api.send_off(c, service, owner, ...)
    if is_closed(c) then return nil, "closed", "closed" end
    local read_limit, write_limit = turns.reads.limits[c], turns.writes.limits[c]
    host.forget(c)
    local number = c:send_off()
    local result = table.pack(pcall(call, service, "adopt", number, owner, read_limit, write_limit, ...))
    if result[1] and result[2] then
      api.close(c)
      return result[2]
    end
    local message, code = result[3], result[4]
    if not result[1] then message, code = problem_of(result[2], service) end
    if stream.take_back(selector, c) then api.timeout(c, read_limit, write_limit) end
    if not result[1] and is_misuse(result[2]) then error(message, 0) end
    return nil, message, code
  end

  -- `transfer(c, service, …)`: moves a connection to the loop of another service (one of `lio.service`), with
  -- what was received and not read, and what is queued. Waits of others on `c` end with "closed". → true when
  -- the service's `on_transfer` function has it, which gets the further arguments too; else the handle, of
  -- this service, that it has become there. `nil, message, code` on failure: `c` is as before then, but for
  -- code "closed".
  function api.transfer(c, service, ...)
    misuse.check_kind("transfer", c, "connection")
    if math.type(service) ~= "integer" then misuse.argument("transfer", 2, "service", service) end
    if is_closed(c) then return nil, "closed", "closed" end
    if not call then misuse.raise "transfer: the loop belongs to no service" end
    return api.send_off(c, service, nil, ...)
  end
end
