-- The accept loop that people would otherwise write. Part of `lio.net`. Invariant: a connection is in
-- `connections` from its accept until its handler has ended, in whatever way, or gave it away.
--
-- Protocol code that looks after many connections itself has a keeper in the place of `connections` and handler, a
-- table of functions: `listen(selector, socket)`, `accept(selector [, all])` → true when some came, false when nobody
-- is there and the socket is armed, else nil, message, code; `admit(selector, c)`; `release(c)`; `count()`;
-- `is_full()`; `watch()`: its `left` is called when the next connection leaves; `stop()` when a stop begins; `close()`.

local debug <const> = debug or require "lio.debug"
-- How long accepting rests after a failure that is not about descriptors, so that it cannot spin.
local PAUSE <const> = 0.1

local misuse = require "lio.misuse"
local options = require "lio.options"

local LISTENERS <const> = { ["lio.listener"] = true, ["lio.remote listener"] = true }

local OPTIONS <const> = {
  max_connections = options.number(0),
  on_error = options.callable,
  on_stop = options.callable,
  attended = options.boolean,
}

return function(api, host)
  local sched, timers, selector = host.sched, host.timers, host.selector

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

  -- Serves a connection, even when the server stops or is full.
  local function take(server, c)
    if server.keeper then
      host.forget(c)
      server.keeper.admit(selector, c)
    else
      admit(server, c)
    end
  end

  -- Closes a listener. Clients that wait in the system's queue would be reset: they are served like the others.
  local function empty(server, listener)
    for c in listener.take_waiting, listener do take(server, c) end
    listener:close()
  end

  -- Whether no more connections are to come now.
  local function is_full(server)
    if server.keeper then return server.keeper.is_full() end
    local most = server.max_connections
    return most ~= nil and server.count >= most
  end

  local function accept_loop(server)
    local keeper = server.keeper
    if keeper then keeper.listen(selector, server.listener.socket) end
    while not server.stopping do
      if is_full(server) then
        if keeper then keeper.watch() end
        sched.wait(server)
      else
        local c, message, code
        if keeper then
          c, message, code = host.accept_for(server.listener, keeper)
        else
          c, message, code = api.accept(server.listener)
        end
        if c then
          if not keeper then admit(server, c) end
        elseif code == "closed" then
          return
        else
          io.stderr:write("lio: ", message, "\n")
          api.rest(PAUSE)
        end
      end
    end
  end

  local function accept_others(server, listener)
    while not server.stopping and not listener.closed do
      if is_full(server) then
        api.rest(PAUSE)
      else
        local c, message, code = api.accept(listener)
        if c then
          if not server:admit(c) then api.close(c) end
        elseif code ~= "closed" then
          io.stderr:write("lio: ", message, "\n")
          api.rest(PAUSE)
        end
      end
    end
  end

  -- `server:accept_from(listener)`: serves the connections of another listener as well, until that is closed or the
  -- server stops.
  function Server:accept_from(listener)
    self.others = self.others or {}
    self.others[listener] = true
    sched.fork(function()
      accept_others(self, listener)
      self.others[listener] = nil
    end)
  end

  -- `server:admit(c)` → true: serves a connection that was not accepted, as if it had been; false when the
  -- server stops or is full.
  function Server:admit(c)
    misuse.check_kind("admit", self, "server")
    if type(c) ~= "userdata" and type(c) ~= "table" then misuse.argument("admit", 1, "connection", c) end
    if self.stopping or is_full(self) then return false end
    take(self, c)
    return true
  end

  -- `server:release(c)`: the server forgets a connection, which somebody else has taken over.
  function Server:release(c)
    misuse.check_kind("release", self, "server")
    if self.keeper then return self.keeper.release(c) end
    if not self.connections[c] then return end
    self.connections[c] = nil
    self.count = self.count - 1
    -- The accept loop waits on the server when that is full.
    if self.max_connections then sched.wakeup(self) end
    if self.count == 0 and self.drained then sched.wakeup(self.drained) end
  end

  -- A connection of a keeper's has left.
  local function left(server)
    sched.wakeup(server)
    if not server.drained then return end
    if server.count == 0 then sched.wakeup(server.drained) else server.keeper.watch() end
  end

  -- Waits until the handlers have ended, `grace` seconds at most.
  local function drain(server, grace)
    local token = {}
    server.drained = token
    if server.keeper then server.keeper.watch() end
    local id = timers:add(grace, { expired = function() sched.wakeup(token) end })
    sched.wait(token)
    timers:cancel(id)
    server.drained = nil
  end

  local function close_all(server)
    local all = {}
    for c in pairs(server.connections) do all[#all + 1] = c end
    for _, c in ipairs(all) do api.close(c) end
  end

  -- `server:stop([grace_seconds = 0])`: stops accepting, waits that long for the handlers to end, then
  -- closes what is left. Called from a task. A second call does nothing.
  function Server:stop(grace)
    misuse.check_kind("stop", self, "server")
    misuse.check_optional_seconds("stop", 1, grace)
    if self.stopping then return end
    self.stopping = true
    local listener, keeper = self.listener, self.keeper
    if listener then
      if keeper then
        while not listener.closed and keeper.accept(selector, true) do end
      end
      empty(self, listener)
    end
    for other in pairs(self.others or {}) do empty(self, other) end
    if self.forget_stop then self.forget_stop() end
    sched.wakeup(self)
    if self.on_stop then self.on_stop() end
    if self.count > 0 and (grace or 0) > 0 then drain(self, grace) end
    if keeper then keeper.close() else close_all(self) end
    self.ended = true
    for token in pairs(self.waiters) do sched.wakeup(token) end
  end

  -- `server:wait()`: returns when the server has been stopped. Called from a task.
  function Server:wait()
    misuse.check_kind("wait", self, "server")
    while not self.ended do
      local token = {}
      self.waiters[token] = true
      sched.wait(token)
      self.waiters[token] = nil
    end
  end

  -- → what a stop waits for, for the user; nil when no connection is left: the server is about to end.
  local function waits_for(server)
    if server.count == 0 then return nil end
    local text = ("%d connection%s"):format(server.count, server.count == 1 and "" or "s")
    if not server.name then return text end
    return text .. " of " .. server.name
  end

  local function begin(server)
    server.waiters = {}
    if server.listener then
      local address, port, family = server.listener:address()
      server.name = family == "unix" and "unix:" .. address or ("%s:%d"):format(address, port)
    end
    if sched.on_stop then
      server.forget_stop = sched.on_stop(function(grace) server:stop(grace) end, function()
        return waits_for(server)
      end)
    end
    if server.listener then sched.fork(accept_loop, server) end
    return server
  end

  -- `serve(listener, handler [, opts])` → server. Forks `handler(c)` per connection and closes it
  -- afterwards; a raised error is logged with its traceback. `opts.max_connections`: beyond it accepting
  -- pauses; `opts.on_error(message, c)` replaces the log; `opts.on_stop()` runs when a stop begins.
  -- With `opts.attended` the handler runs in the accept loop and must not wait; see `api.attend`. `listener`
  -- nil: connections come by `server:admit` alone.
  function api.serve(listener, handler, opts)
    if listener ~= nil and not misuse.is_named(listener, LISTENERS) then
      misuse.argument("serve", 1, "listener", listener)
    end
    if listener and listener.closed then misuse.raise "net.serve: the listener is closed" end
    misuse.check_function("serve", 2, handler)
    opts = options.check("net.serve", 3, opts, OPTIONS)
    return begin(setmetatable({
      listener = listener,
      handler = handler,
      max_connections = opts.max_connections,
      on_error = opts.on_error or log_error,
      on_stop = opts.on_stop,
      attended = opts.attended,
      connections = {},
      count = 0,
    }, Server))
  end

  -- `keep(listener, keeper)` → server, as `serve` gives it.
  function api.keep(listener, keeper)
    local methods = {}
    for name, method in pairs(Server) do methods[name] = method end
    setmetatable(methods, {
      __index = function(_, key)
        if key == "count" then return keeper.count() end
      end,
    })
    local kept = { __index = methods, __name = Server.__name }
    local server = setmetatable({ listener = listener, keeper = keeper, on_stop = keeper.stop }, kept)
    function keeper.left() left(server) end
    return begin(server)
  end
end
