--- A second implementation of ltask, for tests: a small scheduler in plain Lua, whose services have only the documented
-- functions of ltask. In generation 1 there are exclusive services; in generation 2 there are event descriptors and
-- idle handlers. Used by the programs of tests/net_plain_ltask_test.lua. All services share one VM and one thread. A
-- real system has a thread that wakes a blocked service when a timer expires; this system bounds the waits of the
-- selector instead.
-- Invariant: no part of lio's scheduler is loaded.

local lio = require "lio"
local socket = require "lio.socket"

local REFUSED <const> = {
  "ltask", "ltask.core", "ltask.bootstrap", "ltask.root", "ltask.exclusive", "ltask.callbacks", "ltask.start",
  "lio.task", "lio.task.core", "lio.coroutine", "lio.thread", "lio.loop",
}
for _, name in ipairs(REFUSED) do
  package.preload[name] = function() error(name .. " is not for a service of another ltask", 0) end
end

local host = {}

-- Returns the copy of `value` that the receiver of a message gets. `seen` maps tables to their copies.
local function copy(value, seen)
  local kind = type(value)
  if kind == "function" or kind == "thread" or kind == "userdata" and not tostring(value):find "^userdata: " then
    error("Unsupport type " .. kind .. " to serialize", 0)
  end
  if kind ~= "table" then return value end
  if seen[value] then return seen[value] end
  local new = {}
  seen[value] = new
  for k, v in pairs(value) do new[copy(k, seen)] = copy(v, seen) end
  return new
end

local function packed(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = copy(list[i], {}) end
  return list
end

local function unpacked(list) return table.unpack(list, 1, list.n) end

function host.new(generation)
  local system = { generation = generation }
  local services, last, timers = {}, 0, {}
  local bound

  local function post(to, message)
    local service = services[to]
    if not service then return false end
    table.insert(service.mailbox, message)
    if service.trigger and not service.triggered then
      service.triggered = true
      service.trigger:send "x"
    end
    return true
  end

  local function answer(service, co, ok, ...)
    local request = service.requests[co]
    if not request then return end
    service.requests[co] = nil
    if request.session == 0 then
      if not ok then io.stderr:write("service ", service.id, ": ", tostring((...)), "\n") end
      return
    end
    local fine, values = pcall(packed, ...)
    if not fine then ok, values = false, table.pack(values) end
    post(request.from, { answer = request.session, ok = ok, values = values })
  end

  local function resume(service, co, ...)
    local before = service.current
    service.current = co
    local result = table.pack(coroutine.resume(co, ...))
    service.current = before
    if coroutine.status(co) ~= "dead" then return end
    if not result[1] and not service.requests[co] then
      io.stderr:write(debug.traceback(co, tostring(result[2])), "\n")
    end
    answer(service, co, table.unpack(result, 1, result.n))
  end

  local function new_ltask(service)
    local ltask = { log = { info = print, error = print } }
    local id = service.id
    function ltask.self() return id end
    function ltask.counter() return lio.now() end
    function ltask.running() return service.current end
    function ltask.dispatch(handlers)
      for name, f in pairs(handlers or {}) do service.handlers[name] = f end
      return service.handlers
    end
    function ltask.current_session()
      local request = service.requests[service.current] or {}
      return { from = request.from, session = request.session }
    end
    function ltask.fork(f, ...)
      local co = coroutine.create(f)
      table.insert(service.ready, table.pack(co, ...))
      return co
    end
    function ltask.wait(token)
      token = token == nil and service.current or token
      service.waiting[token] = service.current
      local list = table.pack(coroutine.yield())
      if list[1] == service then error(list[2], 0) end
      return table.unpack(list, 2, list.n)
    end
    function ltask.wakeup(token, ...)
      local co = service.waiting[token]
      if not co then return end
      service.waiting[token] = nil
      table.insert(service.ready, table.pack(co, true, ...))
      return true
    end
    function ltask.interrupt(token, err)
      local co = service.waiting[token]
      if not co then return end
      service.waiting[token] = nil
      table.insert(service.ready, table.pack(co, service, err))
      return true
    end
    function ltask.timeout(centiseconds, f)
      table.insert(timers, { at = lio.now() + centiseconds / 100, service = service, f = f })
    end
    function ltask.sleep(centiseconds)
      local token = {}
      ltask.timeout(centiseconds, function() ltask.wakeup(token) end)
      ltask.wait(token)
    end
    local function ask(kind, to, ...)
      service.session = service.session + 1
      local session = service.session
      local message = { kind = kind, from = id, session = session, values = packed(...) }
      if not post(to, message) then error(("{service:%d} is dead"):format(to), 0) end
      service.asked[session] = to
      local ok, values = ltask.wait(session)
      if not ok then error(setmetatable({ message = tostring(values[1]) }, { __tostring = function(e)
        return e.message .. "\n(from service " .. to .. ")"
      end }), 0) end
      return unpacked(values)
    end
    function ltask.call(...) return ask("request", ...) end
    function ltask.syscall(...) return ask("system", ...) end
    function ltask.send(to, ...) return post(to, { kind = "request", from = id, session = 0, values = packed(...) }) end
    function ltask.quit() service.quitting = true end
    function ltask.kill(to) return system.kill(to) end
    local function eventinit()
      local near, far = socket.pair()
      service.trigger, service.near = far, near
      far:send "x"
      service.triggered = true
      return function()
        while near:recv() == false do lio.create():close() end
        service.triggered = false
        return true
      end, near:handle()
    end
    if generation == 1 then
      function ltask.is_exclusive() return service.exclusive end
      package.loaded["ltask.exclusive"] = { eventinit = eventinit }
      function ltask.dispatch_wakeup() error "called from within" end
    else
      ltask.eventinit = eventinit
      function ltask.idle_handler(f) service.idle = f end
    end
    return ltask
  end

  -- `system.spawn(main, exclusive)` starts a service. `main(ltask)` returns its handlers. Returns the service's id.
  function system.spawn(main, exclusive)
    last = last + 1
    local service = {
      id = last, mailbox = {}, handlers = {}, ready = {}, waiting = {}, requests = {}, asked = {}, session = 0,
      exclusive = exclusive,
    }
    services[last] = service
    service.ltask = new_ltask(service)
    package.loaded.ltask = service.ltask
    service.ltask.dispatch(main(service.ltask) or {})
    return last
  end

  -- `system.kill(id)` removes a service, and answers all requests that it has received with errors. Returns false if
  -- there is no such service.
  function system.kill(id)
    local service = services[id]
    if not service then return false end
    services[id] = nil
    for co in pairs(service.requests) do answer(service, co, false, "Service has been quit.") end
    for _, message in ipairs(service.mailbox) do
      if message.from and message.session ~= 0 then
        local dead = ("{service:%d} is dead"):format(id)
        post(message.from, { answer = message.session, ok = false, values = table.pack(dead) })
      end
    end
    return true
  end

  local function take(service, message)
    if message.answer then
      service.asked[message.answer] = nil
      return service.ltask.wakeup(message.answer, message.ok, message.values)
    end
    local co = coroutine.create(function(name, ...)
      local f = message.kind == "request" and service.handlers[name]
      if not f then error(("no %s %s"):format(message.kind, tostring(name)), 0) end
      return f(...)
    end)
    service.requests[co] = message
    resume(service, co, unpacked(message.values))
  end

  local function run_slice(service)
    local worked = false
    while true do
      local message = not service.ready[1] and table.remove(service.mailbox, 1)
      local entry = not message and table.remove(service.ready, 1)
      if message then take(service, message) elseif entry then resume(service, unpacked(entry)) else break end
      worked = true
    end
    if service.quitting then
      local quit = service.handlers.quit
      service.handlers.quit = nil
      service.quitting = false
      service.ltask.fork(function()
        if quit then quit() end
        system.kill(service.id)
      end)
      worked = true
    end
    return worked
  end

  local function fire()
    local now, worked, nearest = lio.now(), false, nil
    for at = #timers, 1, -1 do
      local timer = timers[at]
      if timer.at <= now then
        table.remove(timers, at)
        if services[timer.service.id] == timer.service then timer.service.ltask.fork(timer.f) end
        worked = true
      elseif not nearest or timer.at < nearest then
        nearest = timer.at
      end
    end
    bound = nearest
    return worked
  end

  -- Bounds each wait of a selector by the time of the next timer, because there is no timer thread.
  local probe = lio.create()
  local methods = getmetatable(probe).__index
  local wait = methods.wait
  probe:close()
  function methods.wait(selector, seconds)
    local most = math.max(0, (bound or lio.now() + 1) - lio.now())
    return wait(selector, seconds and math.min(seconds, most) or most)
  end

  local function run_idle(service)
    if generation == 1 then
      local f = service.ltask.on_idle
      if f then f() end
      return f ~= nil
    end
    if not service.idle then return false end
    resume(service, coroutine.create(service.idle))
    return true
  end

  -- `system.run(is_done)` runs the services until `is_done()` returns true. Raises an error after 15 s.
  function system.run(is_done)
    local deadline = lio.now() + 15
    while not is_done() do
      assert(lio.now() < deadline, "the deadline passed")
      local worked = fire()
      for id = 1, last do
        if services[id] then worked = run_slice(services[id]) or worked end
      end
      if not worked then
        for id = 1, last do
          if services[id] and run_idle(services[id]) then break end
        end
      end
    end
    for _, service in pairs(services) do
      if service.trigger then
        service.trigger:close()
        service.near:close()
      end
    end
  end

  function system.is_alive(id) return services[id] ~= nil end

  return system
end

return host
