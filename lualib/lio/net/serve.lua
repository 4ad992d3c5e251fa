-- The accept loop that people would otherwise write. Part of `lio.net`. Invariant: a connection is in
-- `connections` from its accept until its handler has ended, in whatever way, or gave it away.

-- How long accepting rests after a failure that is not about descriptors, so that it cannot spin.
local PAUSE <const> = 0.1

return function(api, host)
  local sched, timers = host.sched, host.timers

  local Server = {}
  Server.__index = Server
  Server.__name = "lio.server"

  local function traceback(message)
    if type(message) == "string" then return debug.traceback(message, 2) end
    return message
  end

  local function log_error(message)
    io.stderr:write("lio: error in a connection's handler: ", tostring(message), "\n")
  end

  -- The end of a handler: it returned, it raised, or it was killed. A connection that was released
  -- belongs to somebody else.
  local Ending = {}
  function Ending.__close(ending)
    local server, c = ending[1], ending[2]
    if not server.connections[c] then return end
    api.close(c)
    server:release(c)
  end

  local function handle(server, c)
    local ending <close> = setmetatable({ server, c }, Ending)
    local ok, message = xpcall(server.handler, traceback, c)
    if not ok then server.on_error(message, c) end
    return ending
  end

  -- The handler looks after the connection itself, and closes and releases it.
  local function attend(server, c)
    local ok, message = xpcall(server.handler, traceback, c)
    if ok then return end
    server.on_error(message, c)
    api.close(c)
    server:release(c)
  end

  local function admit(server, c)
    server.connections[c] = true
    server.count = server.count + 1
    if server.attended then attend(server, c) else sched.fork(handle, server, c) end
  end

  local function accept_loop(server)
    local most = server.max_connections
    while not server.stopping do
      if most and server.count >= most then
        sched.wait(server)
      else
        local c, message, code = api.accept(server.listener)
        if c then
          admit(server, c)
        elseif code == "closed" then
          return
        else
          io.stderr:write("lio: ", message, "\n")
          api.rest(PAUSE)
        end
      end
    end
  end

  -- `server:admit(c)` → true: serves a connection that was not accepted, as if it had been; false when the
  -- server stops or is full.
  function Server:admit(c)
    local most = self.max_connections
    if self.stopping or most and self.count >= most then return false end
    admit(self, c)
    return true
  end

  -- `server:release(c)`: the server forgets a connection, which somebody else has taken over.
  function Server:release(c)
    if not self.connections[c] then return end
    self.connections[c] = nil
    self.count = self.count - 1
    -- The accept loop waits on the server when that is full.
    if self.max_connections then sched.wakeup(self) end
    if self.count == 0 and self.drained then sched.wakeup(self.drained) end
  end

  -- Waits until the handlers have ended, `grace` seconds at most.
  local function drain(server, grace)
    local token = {}
    server.drained = token
    local id = timers:add(grace, { expired = function() sched.wakeup(token) end })
    sched.wait(token)
    timers:cancel(id)
    server.drained = nil
  end

  -- `server:stop([grace_seconds = 0])`: stops accepting, waits that long for the handlers to end, then
  -- closes what is left. Called from a task. A second call does nothing.
  function Server:stop(grace)
    if self.stopping then return end
    self.stopping = true
    -- Who stands in the system's queue would be reset: they are served like the others.
    local listener = self.listener
    if listener then
      for c in listener.take_waiting, listener do admit(self, c) end
      listener:close()
    end
    if self.forget_stop then self.forget_stop() end
    sched.wakeup(self)
    if self.on_stop then self.on_stop() end
    if self.count > 0 and (grace or 0) > 0 then drain(self, grace) end
    local left = {}
    for c in pairs(self.connections) do left[#left + 1] = c end
    for _, c in ipairs(left) do api.close(c) end
    self.ended = true
    for token in pairs(self.waiters) do sched.wakeup(token) end
  end

  -- `server:wait()`: returns when the server has been stopped. Called from a task.
  function Server:wait()
    while not self.ended do
      local token = {}
      self.waiters[token] = true
      sched.wait(token)
      self.waiters[token] = nil
    end
  end

  -- `serve(listener, handler [, opts])` → server. Forks `handler(c)` per connection and closes it
  -- afterwards; a raised error is logged with its traceback. `opts.max_connections`: beyond it accepting
  -- pauses; `opts.on_error(message, c)` replaces the log; `opts.on_stop()` runs when a stop begins.
  -- With `opts.attended` the handler runs in the accept loop and must not wait; see `api.attend`. `listener`
  -- nil: connections come by `server:admit` alone.
  function api.serve(listener, handler, opts)
    opts = opts or {}
    if type(handler) ~= "function" then
      error("bad argument #2 to 'serve' (function expected, got " .. type(handler) .. ")", 2)
    end
    local server = setmetatable({
      listener = listener,
      handler = handler,
      max_connections = opts.max_connections,
      on_error = opts.on_error or log_error,
      on_stop = opts.on_stop,
      attended = opts.attended,
      connections = {},
      count = 0,
      waiters = {},
    }, Server)
    if sched.on_stop then
      server.forget_stop = sched.on_stop(function(grace) server:stop(grace) end)
    end
    if listener then sched.fork(accept_loop, server) end
    return server
  end
end
