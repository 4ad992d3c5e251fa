-- Connecting out: `resolve`, `connect`. Part of `lio.net`. Names are resolved off-thread; the addresses
-- of a name are raced as RFC 8305 says: IPv6 and IPv4 in turn, the next one begun when the one before
-- fails or after 250 ms, the first that connects wins.

local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"

local STAGGER <const> = 0.25 -- RFC 8305, section 5
local CACHED <const> = 30 -- seconds an answer is kept
local MOST_CACHED <const> = 1000

return function(api, host)
  local selector, sched, timers = host.selector, host.sched, host.timers
  local now = require("lio").now

  local lookups -- made at the first name
  local asked = {} -- query id → { name, tokens }
  local pending = {} -- name → the same
  local pending_count = 0
  local cache, cached = {}, 0

  local function remember(name, list)
    if cached >= MOST_CACHED then cache, cached = {}, 0 end
    if not cache[name] then cached = cached + 1 end
    cache[name] = { list = list, until_ = now() + CACHED }
  end

  local function take_answers()
    while true do
      local id, list, message = lookups:answer()
      if not id then return end
      local query = asked[id]
      asked[id], pending[query.name] = nil, nil
      pending_count = pending_count - 1
      if pending_count == 0 then api.poll_answers = nil end
      if list then remember(query.name, list) end
      for _, token in ipairs(query.tokens) do
        sched.wakeup(token, query, list, message)
      end
    end
  end

  -- `is_resolving()` → whether an answer is awaited.
  function api.is_resolving()
    return pending_count > 0
  end

  -- `resolve(name)` → list of addresses, as text, in the order of preference; or `nil, message, code`.
  -- A numeric address is its own answer. Answers are kept for 30 s.
  function api.resolve(name)
    local numeric = resolver.is_numeric(name)
    if numeric then return { numeric } end
    local known = cache[name]
    if known and known.until_ > now() then
      return table.move(known.list, 1, #known.list, 1, {})
    end
    local query = pending[name]
    if not query then
      lookups = lookups or resolver.new(assert(selector:waker()))
      local id, message, code = lookups:query(name)
      if not id then return nil, message, code end
      query = { name = name, tokens = {} }
      asked[id], pending[name] = query, query
      pending_count = pending_count + 1
      api.poll_answers = take_answers
    end
    local token = sched.running()
    table.insert(query.tokens, token)
    local woken, list, message
    repeat woken, list, message = sched.wait(token) until woken == query
    if list then return table.move(list, 1, #list, 1, {}) end
    return nil, "resolve: " .. name .. ": " .. message, "unresolved"
  end

  -- RFC 8305, section 4: the families take turns, the first address's family begins.
  local function interleave(list)
    local families, order = {}, {}
    for _, ip in ipairs(list) do
      local _, family = resolver.is_numeric(ip)
      if not families[family] then
        families[family] = {}
        order[#order + 1] = families[family]
      end
      table.insert(families[family], ip)
    end
    local result, index = {}, 1
    while #result < #list do
      for _, members in ipairs(order) do
        result[#result + 1] = members[index]
      end
      index = index + 1
    end
    return result
  end

  -- Begins to connect. → socket, whether it is connected already; or nil, message, code.
  local function begin(protocol, endpoint)
    local s, message, code = lio_socket.create(protocol)
    if not s then return nil, message, code end
    if protocol ~= "unix" then s:option("nodelay", true) end
    local done
    done, message, code = s:connect(endpoint)
    if done == nil then
      s:close()
      return nil, message, code
    end
    return s, done
  end

  -- One race. Its token is woken by sockets that are ready and by its timers.
  local Race = {}
  Race.__index = Race

  function Race:expired()
    sched.wakeup(self.token, "tick")
  end

  function Race:start_next()
    local ip = table.remove(self.addresses, 1)
    if not ip then return end
    local _, family = resolver.is_numeric(ip)
    local endpoint = assert(lio_socket.endpoint(family, ip, self.port))
    local protocol = family == "inet6" and "tcp6" or "tcp"
    return self:add(begin(protocol, endpoint))
  end

  -- Takes what `begin` returned. → a connected socket, if it is one already.
  function Race:add(s, done, code)
    if not s then
      self.message, self.code = done, code
      return
    end
    if done then return s end
    local ok, message, why = selector:event_add(s, 0)
    if not ok then
      s:close()
      self.message, self.code = message, why
      return
    end
    selector:arm(s, 2)
    host.writers[s] = self.token
    self.running[#self.running + 1] = s
  end

  -- Looks at every attempt. → the socket that is connected.
  function Race:check()
    for index = #self.running, 1, -1 do
      local s = self.running[index]
      local ok, message, code = s:status()
      if not ok then
        self.message, self.code = message, code
        self:drop(index)
      elseif s:info("peer") then
        table.remove(self.running, index)
        host.writers[s] = nil
        selector:event_del(s)
        return s
      else
        selector:arm(s, 2)
      end
    end
  end

  function Race:drop(index)
    local s = table.remove(self.running, index)
    host.writers[s] = nil
    s:close()
  end

  function Race:__close()
    for index = #self.running, 1, -1 do self:drop(index) end
    timers:free(self.timer)
  end

  function Race:set_timer()
    local left = self.deadline and self.deadline - now()
    if #self.addresses > 0 then
      left = math.min(left or STAGGER, STAGGER)
    end
    if left then timers:set(self.timer, math.max(left, 0)) else timers:clear(self.timer) end
  end

  local function run(race)
    local s = race:start_next()
    while not s do
      if #race.running == 0 and #race.addresses == 0 then
        return nil, race.message, race.code
      end
      if #race.running == 0 then
        s = race:start_next()
      else
        race:set_timer()
        local reason = sched.wait(race.token)
        s = race:check()
        if not s and race.deadline and now() >= race.deadline then
          return nil, "connect: timeout", "timeout"
        end
        if not s and (reason == "tick" or #race.running == 0) then s = race:start_next() end
      end
    end
    return s
  end

  local function race_for(addresses, port, seconds)
    local race = setmetatable({
      addresses = addresses,
      port = port,
      running = {},
      token = sched.running(),
      deadline = seconds and now() + seconds,
    }, Race)
    race.timer = timers:create(race)
    return race
  end

  local function connect_unix(path, opts)
    if path:sub(1, 1) == "@" then path = "\0" .. path:sub(2) end
    local endpoint, message, code = lio_socket.endpoint("unix", path)
    if not endpoint then return nil, message, code end
    local race <close> = race_for({}, nil, opts.timeout)
    local s = race:add(begin("unix", endpoint))
    if s then return s end
    return run(race)
  end

  -- Runs `f` in a task of its own and gives up on it after `seconds`.
  local function within(seconds, f, ...)
    if not seconds then return f(...) end
    local token, state = {}, {}
    sched.fork(function(...)
      local result = table.pack(f(...))
      if not state.over then sched.wakeup(token, result) end
    end, ...)
    local id = timers:create { expired = function() sched.wakeup(token, false) end }
    timers:set(id, seconds)
    local result = sched.wait(token)
    timers:free(id)
    state.over = true
    if not result then return nil, "connect: timeout", "timeout" end
    return table.unpack(result, 1, result.n)
  end

  local function connect_ip(addr, port, opts)
    local begun = now()
    local list, message, code
    if resolver.is_numeric(addr) then
      list = { addr }
    else
      list, message, code = within(opts.timeout, api.resolve, addr)
      if not list then return nil, message, code end
      list = interleave(list)
    end
    local seconds = opts.timeout and opts.timeout - (now() - begun)
    local race <close> = race_for(list, port, seconds)
    return run(race)
  end

  -- `connect(addr, port [, opts])` → connection, or `false, message, code`. `addr`: an IP address, a host
  -- name, or `"unix:/path"`. `opts.timeout`: seconds for all of it, resolving included.
  function api.connect(addr, port, opts)
    opts = opts or {}
    if type(addr) ~= "string" then
      error("bad argument #1 to 'connect' (address expected, got " .. type(addr) .. ")", 2)
    end
    local path = addr:match("^unix:(.+)$")
    if not path and (math.type(port) ~= "integer" or port < 0 or port > 65535) then
      error("bad argument #2 to 'connect' (port expected, got " .. tostring(port) .. ")", 2)
    end
    local s, message, code
    if path then
      s, message, code = connect_unix(path, opts)
    else
      s, message, code = connect_ip(addr, port, opts)
    end
    if not s then return false, message, code end
    return api.wrap(s)
  end
end
