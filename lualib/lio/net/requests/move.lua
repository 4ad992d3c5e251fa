-- Requests that move a connection to another service: `give`, `transfer`, `remote_transfer`, `adopt`. Part of
-- lio/net/requests.

local bad_argument <const> = require("lio.net.requests.handles").bad_argument
local transfer = require "lio.net.transfer"

local M = {}

local function check_service(call, service)
  if math.type(service) ~= "integer" then bad_argument(call, 2, "service expected, got " .. type(service)) end
end

-- `install(S, context)`: see net/requests.lua.
function M.install(S, context)
  local handles <const>, driver <const> = context.handles, context.driver

  -- `give(h, service [, unread])` returns true: from now on the handle belongs to that service. Requests that wait on
  -- it continue.
  function S.give(handle, service, unread)
    local entry, message, code = handles:find("give", handle, nil, handles.caller())
    if not entry then return nil, message, code end
    check_service("give", service)
    if unread then entry.object:unread(unread) end
    handles:give(entry, service)
    return true
  end

  -- `remote_transfer(h, service, unread, …)`: `transfer` for `lio.net.remote`, which gives back the bytes that it has
  -- read ahead.
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

  -- `transfer(h, service, …)`: as `net.transfer`; the new handle in the other service belongs to the caller.
  function S.transfer(handle, service, ...)
    return S.remote_transfer(handle, service, nil, ...)
  end

  -- `adopt(number, state, …)`: takes a connection that another loop's `net.transfer` has sent off. `state` has `owner`
  -- and the time limits. Returns true if the function of `on_transfer` has taken it, else its handle, which belongs to
  -- the owner.
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
