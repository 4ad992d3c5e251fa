-- Requests that move a connection to another service: `give`, `transfer`, `remote_transfer`, `adopt`. Part of
-- lio/net/requests.

local bad_argument <const> = require("lio.net.requests.handles").bad_argument
local transfer = require "lio.net.transfer"

local M = {}

local function check_service(call, service)
  if math.type(service) ~= "integer" then bad_argument(call, 2, "service expected, got " .. type(service)) end
end

-- `install(S, context)`: adds the requests of this file to `S`.
function M.install(S, context)
  local handles <const>, driver <const> = context.handles, context.driver

  -- `give(h, service [, unread])`: gives the handle to another service, and returns true. `unread`: bytes that the
  -- caller has read ahead. Requests that wait on the handle continue.
  function S.give(handle, service, unread)
    local entry, message, code = handles:find("give", handle, nil, handles.caller())
    if not entry then return nil, message, code end
    check_service("give", service)
    if unread then entry.object:unread(unread) end
    handles:give(entry, service)
    return true
  end

  -- `remote_transfer(h, service, unread, …)`: like `transfer`, for `lio.net.remote`. `unread`: bytes that
  -- `lio.net.remote` has read ahead, or nil.
  function S.remote_transfer(handle, service, unread, ...)
    local entry, message, code = handles:find("transfer", handle, "connection", handles.caller())
    if not entry then return nil, message, code end
    check_service("transfer", service)
    local c = entry.object
    if unread then c:unread(unread) end
    if service == context.ltask.self() then
      if not transfer.deliver(driver, c, ...) then return handle end
      handles:unregister(entry)
      return true
    end
    local moved
    moved, message, code = transfer.transfer_as(driver, service, entry.owner.id, c, ...)
    if moved or c:is_closed() then handles.close(entry) end
    if moved then return moved end
    return nil, message, code
  end

  -- `transfer(h, service, …)`: like `net.transfer`. The new handle in the other service belongs to the caller.
  function S.transfer(handle, service, ...)
    return S.remote_transfer(handle, service, nil, ...)
  end

  -- `adopt(number, state, …)`: takes over a connection that `net.transfer` has sent from another loop. `number` is the
  -- id of its parcel; `state` contains `owner` (default: the caller) and the time limits. Returns true if the
  -- connection is passed to the function that `on_transfer` has set; otherwise a handle, which belongs to the owner.
  function S.adopt(number, state, ...)
    local owner = handles.owners:of(state.owner or handles.caller())
    local c, message, code = transfer.adopt(driver, number)
    if not c then return nil, message, code end
    context.net.timeout(c, state.read_limit, state.write_limit)
    if transfer.deliver(driver, c, ...) then return true end
    return handles:register(owner, c, "connection")
  end
end

return M
