-- Moves connections to the loop of another service: `transfer`, `on_transfer`. Part of `lio.net`; the service that owns
-- the loop (lio/service.lua, net/requests.lua) uses the other functions. Invariant: a connection has exactly one owner,
-- because its socket and bytes are sent as a parcel, which can be taken only once (src/stream/parcel.rs).

local debug <const> = debug or require "lio.debug"
local connection = require "lio.net.connection"
local misuse = require "lio.misuse"
local report = require "lio.net.report"
local stream = require "lio.stream"

local is_closed <const> = stream.methods.is_closed

local M = {}

-- The field `call_service` of a driver whose loop belongs to a service is the function that sends requests to other
-- services, `call_service(service, name, …)`.

-- Returns the message and the code for the error of a request.
local function failure(err, service)
  local text = type(err) == "table" and err.message or tostring(err)
  text = text:gsub("has no handler for request 'adopt'", "has not called net.on_transfer", 1)
  local dead = text:find(("{service:%d} is dead"):format(service), 1, true)
  return "transfer: " .. text, dead and "dead" or "refused"
end

-- Returns whether a request failed because a message cannot contain one of the arguments.
local function is_misuse(err)
  return tostring(err):find("Unsupport type", 1, true) ~= nil
end

-- `transfer_as(driver, service, owner, c, …)`: does the work of `transfer` on behalf of the service `owner`, or of this
-- service if `owner` is nil.
function M.transfer_as(driver, service, owner, c, ...)
  if is_closed(c) then return nil, "closed", "closed" end
  local state = {
    owner = owner,
    read_limit = driver.read_queue.limits[c],
    write_limit = driver.write_queue.limits[c],
  }
  driver:forget(c)
  local number = c:make_parcel()
  local result = table.pack(pcall(driver.call_service, service, "adopt", number, state, ...))
  if result[1] and result[2] then
    driver.net.close(c)
    return result[2]
  end
  local message, code = result[3], result[4]
  if not result[1] then message, code = failure(result[2], service) end
  if stream.take_back(driver.selector, c) then driver.net.timeout(c, state.read_limit, state.write_limit) end
  if not result[1] and is_misuse(result[2]) then error(message, 0) end
  return nil, message, code
end

-- `adopt(driver, number)` returns the connection in the parcel with the id `number`, or `nil, message, code`.
function M.adopt(driver, number)
  local c, message, code = stream.from_parcel(driver.selector, number)
  if not c then return nil, message, code end
  return connection.adopt(driver, c)
end

local function run_receiver(net, receiver, c, ...)
  local ok, message = xpcall(receiver, debug.traceback, c, ...)
  if ok then return end
  report("error in the receiver of a connection: " .. tostring(message))
  net.close(c)
end

-- `deliver(driver, c, …)`: starts a task that runs the function set by `on_transfer`. Returns whether there is such a
-- function.
function M.deliver(driver, c, ...)
  local receiver = driver.receiver
  if not receiver then return false end
  driver.scheduler.fork(run_receiver, driver.net, receiver, c, ...)
  return true
end

-- `install(driver, calls)`: adds the functions of this file to `calls`.
function M.install(driver, calls)
  -- `on_transfer(f)`: makes `f(c, …)` run as a task for each connection that another service transfers to this one. The
  -- arguments after `c` are those that the other service has passed. `f` owns `c`; the library closes `c` only if `f`
  -- raises. If `f` is nil, the connections become handles that belong to the services that send them.
  function calls.on_transfer(f)
    if f ~= nil then misuse.check("on_transfer", 1, f, "function") end
    driver.receiver = f
    if driver.set_receiving then driver.set_receiving(f ~= nil) end
  end

  -- `transfer(c, service, …)`: moves a connection to the loop of another service, which must be a `lio.service`, with
  -- its unread bytes and its queued bytes. Waits of other tasks on `c` end with "closed". Returns true if the other
  -- service's `on_transfer` function gets the connection and the further arguments; otherwise a handle in the other
  -- service, which belongs to this service. On failure, returns `nil, message, code`; unless the code is "closed", `c`
  -- is unchanged.
  function calls.transfer(c, service, ...)
    misuse.check_kind("transfer", c, "connection")
    if math.type(service) ~= "integer" then misuse.argument("transfer", 2, "service", service) end
    if service < 1 then misuse.bad("transfer", 2, ("service expected, got %d"):format(service)) end
    if is_closed(c) then return nil, "closed", "closed" end
    if not driver.call_service then misuse.raise "transfer: the loop does not belong to a service" end
    return M.transfer_as(driver, service, nil, c, ...)
  end
end

return M
