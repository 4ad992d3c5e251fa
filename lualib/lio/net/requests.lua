-- `lio.net` as requests with integer handles, for services that have no loop: what `lio.service` answers.
--
-- A handle belongs to the service that made it, accepted it, or was given it; that service alone may use it.
-- A listener may be accepted from by every service, and what comes out belongs to who accepted. Results are
-- those of `lio.net`; misuse raises in the caller. Invariant: a handle is never used again for something
-- else, and when its service dies it is closed, which ends the requests that wait on it.

local lio_socket = require "lio.socket"
local new_owners = require "lio.net.owners"

-- `requests(api, ltask)` → the handlers by name, and the set of tasks that are no request's.
return function(api, ltask)
  local S = {}
  local owner_of, tasks = new_owners(ltask)
  local handles, last = {}, 0

  -- The service that asks; nil when it does not want an answer, and the scheduler does not tell then.
  local core = package.loaded["ltask.core"]
  local asking = core and core.current or function()
    return ltask.current_session().from
  end

  local function close_entry(entry)
    handles[entry.handle] = nil
    entry.owner:drop(entry)
    entry.x:close()
    if entry.ready then
      for _, c in ipairs(entry.ready) do c:close() end
    end
  end

  -- → the handle that `x` gets. An owner that has died meanwhile gets none, and `x` is closed.
  local function register(owner, x, kind)
    if owner.dead then
      x:close()
      return nil, "closed", "closed"
    end
    last = last + 1
    local entry = { handle = last, x = x, kind = kind, owner = owner }
    handles[last] = entry
    owner:keep(entry, close_entry)
    return last
  end

  local function unregister(entry)
    handles[entry.handle] = nil
    entry.owner:drop(entry)
  end

  local function misuse(call, index, text)
    error(("bad argument #%d to '%s' (%s)"):format(index, call, text), 0)
  end

  -- The caller's entry of a handle: `kind` "connection", "listener", "udp", or nil for any. → entry; or
  -- nil, message, code.
  local function find(call, handle, kind, shared)
    if math.type(handle) ~= "integer" then
      misuse(call, 1, (kind or "handle") .. " expected, got " .. type(handle))
    end
    local entry = handles[handle]
    if not entry then return nil, "closed", "closed" end
    local from = asking()
    if not shared and from and entry.owner.id ~= from then
      return nil, call .. ": the handle belongs to another service", "denied"
    end
    if kind and entry.kind ~= kind then
      misuse(call, 1, kind .. " expected, got " .. entry.kind)
    end
    return entry
  end

  -- Making ---------------------------------------------------------------------------------------

  -- `listen(addr, port [, opts])` → handle, or `false, message, code`. `addr` may be the descriptor of a
  -- listening socket (a lightuserdata), which is taken over.
  function S.listen(addr, ...)
    local owner = owner_of(asking())
    if type(addr) == "userdata" then addr = assert(lio_socket.fd(addr)) end
    local listener, message, code = api.listen(addr, ...)
    if not listener then return false, message, code end
    local handle
    handle, message, code = register(owner, listener, "listener")
    return handle or false, message, code
  end

  local function cancel(attempt) attempt:close() end

  -- `connect(addr, port [, opts])` → handle, or `false, message, code`. `opts.attempt`: a name by which the
  -- caller can `cancel` it.
  function S.connect(addr, port, opts)
    local owner = owner_of(asking())
    local attempt = api.attempt()
    local name = opts and opts.attempt
    owner:keep(attempt, cancel)
    owner.attempts = owner.attempts or {}
    if name then owner.attempts[name] = attempt end
    local opened = { attempt = attempt, timeout = opts and opts.timeout }
    local ok, c, message, code = pcall(api.connect, addr, port, opened)
    owner:drop(attempt)
    if name then owner.attempts[name] = nil end
    if not ok then error(c, 0) end
    if not c then return false, message, code end
    local handle
    handle, message, code = register(owner, c, "connection")
    return handle or false, message, code
  end

  -- `cancel(name)`: the caller's `connect` with that `opts.attempt` ends in "closed".
  function S.cancel(name)
    local attempts = owner_of(asking()).attempts
    local attempt = attempts and attempts[name]
    if attempt then attempt:close() end
    return attempt ~= nil
  end

  -- `udp([addr, port])` → handle, or `false, message, code`.
  function S.udp(...)
    local owner = owner_of(asking())
    local u, message, code = api.udp(...)
    if not u then return false, message, code end
    local handle
    handle, message, code = register(owner, u, "udp")
    return handle or false, message, code
  end

  -- `wrap(descriptor)` → handle of the connected socket (a lightuserdata), which is taken over.
  function S.wrap(descriptor)
    local owner = owner_of(asking())
    local c, message, code = api.wrap(assert(lio_socket.fd(descriptor)))
    if not c then return false, message, code end
    local handle
    handle, message, code = register(owner, c, "connection")
    return handle or false, message, code
  end

  -- Accepting ------------------------------------------------------------------------------------

  -- Hands a result of accept to who has waited longest and lives.
  local function hand(entry, c, message, code)
    while entry.waiting[1] do
      local ticket = table.remove(entry.waiting, 1)
      if not ticket.owner.dead and ltask.wakeup(ticket, c, message, code) then return end
    end
    if not c then return end
    if handles[entry.handle] == entry then table.insert(entry.ready, c) else c:close() end
  end

  -- Accepts as long as somebody waits. One that comes when its asker is dead waits for the next one.
  local function pump(entry)
    local co = coroutine.running()
    tasks[co], tasks.count = true, tasks.count + 1
    local _ <close> = setmetatable({}, { __close = function()
      tasks[co], tasks.count = nil, tasks.count - 1
      entry.pumping = false
    end })
    while entry.waiting[1] do
      local c, message, code = api.accept(entry.x)
      if c or code ~= "timeout" then hand(entry, c, message, code) end
      if code == "closed" then
        while entry.waiting[1] do hand(entry, c, message, code) end
      end
    end
  end

  local function give_up(ticket)
    ltask.wakeup(ticket, false, "closed", "closed")
  end

  local function wait_for_connection(entry, owner)
    local ticket = { owner = owner }
    ticket.expired = function() ltask.wakeup(ticket, false, "timeout", "timeout") end
    table.insert(entry.waiting, ticket)
    owner:keep(ticket, give_up)
    local timer = entry.limit and api.timers:add(entry.limit, ticket)
    if not entry.pumping then
      entry.pumping = true
      ltask.fork(pump, entry)
    end
    local c, message, code = ltask.wait(ticket)
    owner:drop(ticket)
    if timer then api.timers:cancel(timer) end
    if not c then
      for at, one in ipairs(entry.waiting) do
        if one == ticket then
          table.remove(entry.waiting, at)
          break
        end
      end
    end
    return c, message, code
  end

  -- `accept(listener)` → handle, or `false, message, code`. Any service may.
  function S.accept(handle)
    local owner = owner_of(asking())
    local entry, message, code = find("accept", handle, "listener", true)
    if not entry then return false, message, code end
    entry.waiting, entry.ready = entry.waiting or {}, entry.ready or {}
    local c = table.remove(entry.ready, 1)
    if not c then c, message, code = wait_for_connection(entry, owner) end
    if not c then return false, message, code end
    if owner.dead then
      hand(entry, c)
      return false, "closed", "closed"
    end
    return register(owner, c, "connection")
  end

  -- `put_back(listener, h)`: the next who accepts gets the connection that nobody was there to take.
  function S.put_back(listener, handle)
    local entry, c = find("accept", listener, "listener", true), find("accept", handle, "connection")
    if not c then return false end
    unregister(c)
    if entry then hand(entry, c.x) else c.x:close() end
    return true
  end

  -- `take_waiting(listener)` → handle of a connection that the system has accepted already, or nil.
  function S.take_waiting(handle)
    local owner = owner_of(asking())
    local entry = find("take_waiting", handle, "listener")
    local c = entry and (entry.ready and table.remove(entry.ready, 1) or entry.x:take_waiting())
    if c then return (register(owner, c, "connection")) end
  end

  -- Using ----------------------------------------------------------------------------------------

  -- `recv(h, …)`: as `net.recv`.
  function S.recv(handle, ...)
    local entry, message, code = find("recv", handle, "connection")
    if not entry then return nil, message, nil, code end
    return api.recv(entry.x, ...)
  end

  -- `send(h, data, …)`: as `net.send`.
  function S.send(handle, ...)
    local entry, message, code = find("send", handle, "connection")
    if not entry then return nil, message, 0, code end
    return api.send(entry.x, ...)
  end

  -- `put(h, …)`: as `send`, for `lio.net.remote`. → true and the number of the connection's outlet.
  function S.put(handle, ...)
    local entry, message, code = find("send", handle, "connection")
    if not entry then return nil, message, 0, code end
    local c = entry.x
    local done, sent
    done, message, sent, code = api.send(c, ...)
    if not done then return nil, message, sent, code end
    return true, c:outlet()
  end

  -- `read(h, unread, …)`: as `recv`, for `lio.net.remote`, which reads ahead. `unread` is what it was given
  -- beyond its need and could not use; what is there beyond the result now comes as the second value.
  function S.read(handle, unread, ...)
    local entry, message, code = find("recv", handle, "connection")
    if not entry then return nil, message, unread, code end
    local c = entry.x
    if unread then c:unread(unread) end
    local value, partial
    value, message, partial, code = api.recv(c, ...)
    if value == nil then return nil, message, partial, code end
    return value, not c:is_closed() and c:buffered() > 0 and c:take() or nil
  end

  -- `stop_read(h)`: a `read` of the caller's that waits ends in "timeout", and what came stays buffered.
  function S.stop_read(handle)
    local entry = find("recv", handle, "connection")
    return entry ~= nil and api.wake_reader(entry.x, "timeout")
  end

  -- `close(h)` → true. Idempotent; requests that wait on it end with "closed".
  function S.close(handle)
    local entry, message, code = find("close", handle)
    if not entry then
      if code == "closed" then return true end
      return nil, message, code
    end
    close_entry(entry)
    return true
  end

  -- The calls whose failures are `nil, message, code`, by what they are for.
  local CALLS <const> = {
    connection = { "shutdown", "peer", "wait_readable", "wait_closed" },
    udp = { "recvfrom", "sendto" },
  }

  for kind, names in pairs(CALLS) do
    for _, name in ipairs(names) do
      S[name] = function(handle, ...)
        local entry, message, code = find(name, handle, kind)
        if not entry then return nil, message, code end
        return api[name](entry.x, ...)
      end
    end
  end

  -- `sendfile(h, path [, offset [, length]])`: as `net.sendfile`.
  if api.sendfile then
    function S.sendfile(handle, ...)
      local entry, message, code = find("sendfile", handle, "connection")
      if not entry then return nil, message, 0, code end
      return api.sendfile(entry.x, ...)
    end
  end

  -- `timeout(h, read_seconds, write_seconds)`, `option(h, name [, value])`: as in `lio.net`.
  function S.timeout(handle, ...)
    local entry, message, code = find("timeout", handle)
    if not entry then return nil, message, code end
    if entry.kind == "listener" then entry.limit = (...) end
    return api.timeout(entry.x, ...)
  end

  function S.option(handle, ...)
    local entry, message, code = find("option", handle)
    if not entry then return nil, message, code end
    return api.option(entry.x, ...)
  end

  -- `sock(h)` → address, port, family of this side; of a listener too, for every service.
  function S.sock(handle)
    local entry, message, code = find("sock", handle, nil, true)
    if not entry then return nil, message, code end
    if entry.kind == "connection" then return api.sock(entry.x) end
    return entry.x:address()
  end

  -- `is_over(h)`, `buffered(h)`: as the methods of a connection; a closed one is over.
  function S.is_over(handle)
    local entry = find("is_over", handle, "connection")
    return not entry or entry.x:is_over()
  end

  function S.buffered(handle)
    local entry = find("buffered", handle, "connection")
    return entry and entry.x:buffered() or 0
  end

  -- `resolve(name [, seconds])`: as `net.resolve`.
  function S.resolve(...)
    return api.resolve(...)
  end

  -- Moving ---------------------------------------------------------------------------------------

  -- `give(h, service [, unread])` → true: from now on the handle is that service's. Requests that wait on it
  -- go on.
  function S.give(handle, service, unread)
    local entry, message, code = find("give", handle)
    if not entry then return nil, message, code end
    if math.type(service) ~= "integer" then misuse("give", 2, "service expected, got " .. type(service)) end
    if unread then entry.x:unread(unread) end
    entry.owner:drop(entry)
    entry.owner = owner_of(service)
    entry.owner:keep(entry, close_entry)
    return true
  end

  local function move(handle, service, unread, ...)
    local entry, message, code = find("transfer", handle, "connection")
    if not entry then return nil, message, code end
    if math.type(service) ~= "integer" then
      misuse("transfer", 2, "service expected, got " .. type(service))
    end
    local c = entry.x
    if unread then c:unread(unread) end
    if service == ltask.self() then
      if not api.receive(c, ...) then return handle end
      unregister(entry)
      return true
    end
    local moved
    moved, message, code = api.send_off(c, service, entry.owner.id, ...)
    if moved or c:is_closed() then close_entry(entry) end
    if moved then return moved end
    return nil, message, code
  end

  -- `transfer(h, service, …)`: as `net.transfer`; the handle that it becomes there is the caller's.
  function S.transfer(handle, service, ...)
    return move(handle, service, nil, ...)
  end

  -- `move(h, service, unread, …)`: the same for `lio.net.remote`.
  S.move = move

  -- `adopt(number, owner, read_seconds, write_seconds, …)`: takes a connection that another loop's
  -- `net.transfer` has sent off. → true when `on_transfer` has it, else its handle, which is `owner`'s.
  function S.adopt(number, owner, read_seconds, write_seconds, ...)
    owner = owner_of(owner or asking())
    local c, message, code = api.adopt(number)
    if not c then return nil, message, code end
    api.timeout(c, read_seconds, write_seconds)
    if api.receive(c, ...) then return true end
    return register(owner, c, "connection")
  end

  return S, tasks
end
