-- The handles of a service that owns a loop: integers for connections, listeners and datagram sockets. Part of
-- lio/net/requests.
--
-- An entry has `handle`, `object`, `kind` ("connection", "listener" or "udp") and `owner`. Invariants: a handle is
-- never reused for another object. When the owner of a handle dies, the handle is closed, and the requests that wait on
-- it end.

local owners = require "lio.net.requests.owners"

local M = {}

local Handles = {}
Handles.__index = Handles

-- `bad_argument(call, index, text)`: raises an error for misuse, which the service library raises again in the caller.
-- The error has no position, because the program's line is in another service.
function M.bad_argument(call, index, text)
  error(("bad argument #%d to '%s' (%s)"):format(index, call, text), 0)
end

local function close_entry(entry)
  entry.handles.entries[entry.handle] = nil
  entry.owner:remove(entry)
  entry.object:close()
  if entry.accepted then
    for _, c in ipairs(entry.accepted) do c:close() end
  end
end

-- `new(ltask)` returns an empty table of handles. Its field `caller` is a function that returns the service that sent
-- the current request; nil if the sender expects no answer and the scheduler does not record the sender.
function M.new(ltask)
  local core = package.loaded["ltask.core"]
  return setmetatable({
    owners = owners.new(ltask),
    entries = {},
    last = 0,
    caller = core and core.current or function() return ltask.current_session().from end,
  }, Handles)
end

-- `handles:owner()` returns the record of the service that sent the current request.
function Handles:owner()
  return self.owners:of(self.caller())
end

-- `handles:register(owner, object, kind)` returns a new handle for an object. If the owner has died meanwhile, closes
-- the object and returns nil, "closed", "closed".
function Handles:register(owner, object, kind)
  if owner.dead then
    object:close()
    return nil, "closed", "closed"
  end
  local handle = self.last + 1
  self.last = handle
  local entry = { handles = self, handle = handle, object = object, kind = kind, owner = owner }
  self.entries[handle] = entry
  owner:add(entry, close_entry)
  return handle
end

-- `handles:unregister(entry)`: closes a handle, but not its object.
function Handles:unregister(entry)
  self.entries[entry.handle] = nil
  entry.owner:remove(entry)
end

-- `handles.close(entry)`: closes a handle and its object.
Handles.close = close_entry

-- `handles:give(entry, service)`: makes another service the owner of a handle.
function Handles:give(entry, service)
  entry.owner:remove(entry)
  entry.owner = self.owners:of(service)
  entry.owner:add(entry, close_entry)
end

-- `handles:find(call, handle, kind, caller)` returns the entry of a handle; or nil, message, code. If `kind` is given,
-- the object must be of this kind. If `caller` is given, the handle must belong to this service.
function Handles:find(call, handle, kind, caller)
  if math.type(handle) ~= "integer" then
    M.bad_argument(call, 1, (kind or "handle") .. " expected, got " .. type(handle))
  end
  local entry = self.entries[handle]
  if not entry then return nil, "closed", "closed" end
  if caller and entry.owner.id ~= caller then
    return nil, call .. ": the handle belongs to another service", "denied"
  end
  if kind and entry.kind ~= kind then M.bad_argument(call, 1, kind .. " expected, got " .. entry.kind) end
  return entry
end

return M
