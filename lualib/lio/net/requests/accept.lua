-- Requests that accept connections: `accept`, `put_back`, `take_waiting`. Part of lio/net/requests. Every service may
-- accept from a listener; the connection belongs to the service that accepted it.
--
-- A listener's entry has `waiters`, the waiting requests in order, and `accepted`, connections that no request has
-- taken. Invariant: while requests wait, one task of this service accepts (`is_accepting`), so that no connection is
-- lost when a request ends early.

local M = {}

-- Gives a result of `net.accept` to the oldest waiting request whose service is alive. If there is no such request,
-- stores the connection in `accepted`, or closes it if the listener is closed.
local function give_to_waiter(context, entry, c, message, code)
  while entry.waiters[1] do
    local waiter = table.remove(entry.waiters, 1)
    if not waiter.owner.dead and context.ltask.wakeup(waiter, c, message, code) then return end
  end
  if not c then return end
  if context.handles.entries[entry.handle] == entry then
    table.insert(entry.accepted, c)
  else
    c:close()
  end
end

-- Accepts while requests wait.
local function accept_for_waiters(accepting)
  local context, entry = accepting.context, accepting.entry
  while entry.waiters[1] do
    local c, message, code = context.net.accept(entry.object)
    if c or code ~= "timeout" then give_to_waiter(context, entry, c, message, code) end
    if code == "closed" then
      while entry.waiters[1] do give_to_waiter(context, entry, c, message, code) end
    end
  end
end

local function end_accepting(accepting)
  accepting.entry.is_accepting = false
end

local function start_accepting(context, entry)
  entry.is_accepting = true
  local owners = context.handles.owners
  context.ltask.fork(owners.run_internal, owners, accept_for_waiters, end_accepting,
    { context = context, entry = entry })
end

local function remove_waiter(entry, waiter)
  for at, other in ipairs(entry.waiters) do
    if other == waiter then return table.remove(entry.waiters, at) end
  end
end

local function wait_for_connection(context, entry, owner)
  local ltask, timers = context.ltask, context.driver.timers
  local waiter = { owner = owner }
  function waiter.expired() ltask.wakeup(waiter, false, "timeout", "timeout") end
  table.insert(entry.waiters, waiter)
  owner:add(waiter, function() ltask.wakeup(waiter, false, "closed", "closed") end)
  local timer = entry.accept_limit and timers:add(entry.accept_limit, waiter)
  if not entry.is_accepting then start_accepting(context, entry) end
  local c, message, code = ltask.wait(waiter)
  owner:remove(waiter)
  if timer then timers:cancel(timer) end
  if not c then remove_waiter(entry, waiter) end
  return c, message, code
end

-- `install(S, context)`: adds the requests of this file to `S`.
function M.install(S, context)
  local handles <const> = context.handles

  -- `accept(listener)` returns a handle, or `false, message, code`.
  function S.accept(handle)
    local owner = handles:owner()
    local entry, message, code = handles:find("accept", handle, "listener")
    if not entry then return false, message, code end
    entry.waiters, entry.accepted = entry.waiters or {}, entry.accepted or {}
    local c = table.remove(entry.accepted, 1)
    if not c then c, message, code = wait_for_connection(context, entry, owner) end
    if not c then return false, message, code end
    if owner.dead then
      give_to_waiter(context, entry, c)
      return false, "closed", "closed"
    end
    return handles:register(owner, c, "connection")
  end

  -- `put_back(listener, h)`: gives the connection `h` to the next `accept` request. Sent when the task that accepted
  -- the connection was killed.
  function S.put_back(listener, handle)
    local entry = handles:find("accept", listener, "listener")
    local c = handles:find("accept", handle, "connection", handles.caller())
    if not c then return false end
    handles:unregister(c)
    if entry then give_to_waiter(context, entry, c.object) else c.object:close() end
    return true
  end

  -- `take_waiting(listener)` returns a handle for a connection that has already arrived, or nil. Does not wait.
  function S.take_waiting(handle)
    local owner = handles:owner()
    local entry = handles:find("take_waiting", handle, "listener", handles.caller())
    local c = entry and (entry.accepted and table.remove(entry.accepted, 1) or entry.object:take_waiting())
    if c then return (handles:register(owner, c, "connection")) end
  end
end

return M
