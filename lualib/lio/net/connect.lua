-- Connecting out: `resolve`, `connect`. Part of `lio.net`. Names are resolved off-thread; the addresses
-- of a name are raced as RFC 8305 says: IPv6 and IPv4 in turn, the next one begun when the one before
-- fails or after 250 ms, the first that connects wins.

local stream = require "lio.stream"
local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"
local misuse = require "lio.misuse"
local options = require "lio.options"

local STAGGER <const> = 0.25 -- RFC 8305, section 5
local CACHED <const> = 30 -- seconds an answer is kept
local MOST_CACHED <const> = 1000
local WRITE <const> = 2

local OPTIONS <const> = {
  timeout = options.seconds,
  attempt = options.rule("what net.attempt returned", function(value) return misuse.is_kind(value, "attempt") end),
}

return function(api, host)
  local selector, sched, timers, turns = host.selector, host.sched, host.timers, host.turns
  local wait <const>, write_tokens <const> = turns.wait, turns.writes.tokens
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
      if pending_count == 0 then host.take_answers = nil end
      if list then remember(query.name, list) end
      for _, token in ipairs(query.tokens) do
        sched.wakeup(token, list, message)
      end
    end
  end

  -- `is_resolving()` → whether an answer is awaited.
  function api.is_resolving()
    return pending_count > 0
  end

  local function copy(list)
    return table.move(list, 1, #list, 1, {})
  end

  -- The query for a name, begun unless somebody asked for the same already. → query, or nil, message, code.
  local function ask(name)
    local query = pending[name]
    if query then return query end
    if not lookups then
      local waker, message, code = selector:waker()
      if not waker then return nil, message, code end
      lookups = resolver.new(waker)
    end
    local id, message, code = lookups:query(name)
    if not id then return nil, message, code end
    query = { name = name, tokens = {} }
    asked[id], pending[name] = query, query
    pending_count = pending_count + 1
    host.take_answers = take_answers
    return query
  end

  -- A wait for an answer; also the value of the timer that ends it.
  local Lookup = { stands_for = "the address of a name" }
  Lookup.__index = Lookup
  function Lookup:expired()
    sched.wakeup(self, "timeout")
  end

  local function look_up(name, seconds, attempt)
    local known = cache[name]
    if known and known.until_ > now() then return copy(known.list) end
    local query, problem, code = ask(name)
    if not query then return nil, problem, code end
    local token = setmetatable({}, Lookup)
    table.insert(query.tokens, token)
    local timer = seconds and timers:add(math.max(seconds, 0), token)
    if attempt then attempt.token = token end
    local list, message = wait(token)
    if timer then timers:cancel(timer) end
    if list == "closed" then return nil, "closed", "closed" end
    if list == "timeout" then return nil, "resolve: " .. name .. ": timeout", "timeout" end
    if list then return copy(list) end
    return nil, "resolve: " .. name .. ": " .. message, "unresolved"
  end

  -- `resolve(name [, seconds])` → list of addresses, as text, in the order of preference; or `nil,
  -- message, code`. A numeric address is its own answer. Answers are kept for 30 s. `seconds`: how long
  -- to wait at most.
  function api.resolve(name, seconds)
    misuse.check("resolve", 1, name, "string")
    misuse.check_optional_seconds("resolve", 2, seconds)
    local numeric = resolver.is_numeric(name)
    if numeric then return { numeric } end
    return look_up(name, seconds)
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

  -- One race. Its task waits on it, woken by sockets that are ready and by its timer.
  local Race = { stands_for = "a connect" }
  Race.__index = Race

  function Race:expired()
    sched.wakeup(self, "tick")
  end

  -- Begins attempts until one is under way. → a connected socket, if one is connected at once.
  function Race:start_next()
    local under_way = #self.running
    repeat
      local ip = table.remove(self.addresses, 1)
      if not ip then return end
      local s = self:start(ip)
      if s then return s end
    until #self.running > under_way
  end

  function Race:start(ip)
    local _, family = resolver.is_numeric(ip)
    local endpoint, message, code = lio_socket.endpoint(family, ip, self.port)
    if not endpoint then
      self.message, self.code = message, code
      return
    end
    self.next_at = now() + STAGGER
    return self:add(begin(family == "inet6" and "tcp6" or "tcp", endpoint))
  end

  -- Takes what `begin` returned. → a connected socket, if it is one already.
  function Race:add(s, done, code)
    if not s then
      self.message, self.code = done, code
      return
    end
    if done then return s end
    local ok, message, why = stream.watch(selector, s)
    if ok then ok, message, why = selector:arm(s, WRITE) end
    if not ok then
      s:close()
      self.message, self.code = message, why
      return
    end
    write_tokens[s] = self
    self.running[#self.running + 1] = s
  end

  -- Looks at every attempt. → the socket that is connected, or nil and whether an attempt has failed.
  function Race:check()
    local failed = false
    for index = #self.running, 1, -1 do
      local s = self.running[index]
      local ok, message, code = s:status()
      local peer = ok and s:info("peer")
      if peer and peer == s:info("socket") then
        -- The system chose the very port that was asked for: nobody listens there.
        ok, message, code = nil, "connect: Connection refused", "refused"
      end
      if ok and not peer then ok, message, code = selector:arm(s, WRITE) end
      if not ok then
        self.message, self.code = message, code
        failed = true
        self:drop(index)
      elseif peer then
        table.remove(self.running, index)
        write_tokens[s] = nil
        selector:event_del(s)
        return s
      end
    end
    return nil, failed
  end

  function Race:drop(index)
    local s = table.remove(self.running, index)
    write_tokens[s] = nil
    s:close()
  end

  function Race:__close()
    for index = #self.running, 1, -1 do self:drop(index) end
    timers:free(self.timer)
  end

  function Race:set_timer()
    local left = self.deadline and self.deadline - now()
    if #self.addresses > 0 then
      local stagger = self.next_at - now()
      left = math.min(left or stagger, stagger)
    end
    if left then timers:set(self.timer, math.max(left, 0)) else timers:clear(self.timer) end
  end

  local function run(race, attempt)
    local s = race:start_next()
    while not s do
      if #race.running == 0 then return nil, race.message, race.code end
      race:set_timer()
      if attempt then attempt.token = race end
      local reason = wait(race)
      if reason == "closed" then return nil, reason, reason end
      local failed
      s, failed = race:check()
      if not s then
        if race.deadline and now() >= race.deadline then return nil, "connect: timeout", "timeout" end
        if reason == "tick" or failed then s = race:start_next() end
      end
    end
    return s
  end

  local function race_for(addresses, port, seconds)
    local race = setmetatable({
      addresses = addresses,
      port = port,
      running = {},
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
    return run(race, opts.attempt)
  end

  local function connect_ip(addr, port, opts)
    local begun = now()
    local list, message, code
    if resolver.is_numeric(addr) then
      list = { addr }
    else
      list, message, code = look_up(addr, opts.timeout, opts.attempt)
      if not list then return nil, message, code end
      list = interleave(list)
    end
    local seconds = opts.timeout and opts.timeout - (now() - begun)
    local race <close> = race_for(list, port, seconds)
    return run(race, opts.attempt)
  end

  -- What can be closed while a connect goes on.
  local Attempt = {}
  Attempt.__index = Attempt
  Attempt.__name = "lio.attempt"

  -- `attempt:close()` → true. Idempotent; the connect that it was given to gets `false, "closed"`.
  function Attempt:close()
    misuse.check_kind("close", self, "attempt")
    self.closed = true
    if self.token then sched.wakeup(self.token, "closed") end
    return true
  end

  Attempt.__close = Attempt.close

  -- `attempt()` → what `opts.attempt` of one connect takes.
  function api.attempt()
    return setmetatable({}, Attempt)
  end

  -- `connect(addr, port [, opts])` → connection, or `false, message, code`. `addr`: an IP address, a host
  -- name, or `"unix:/path"`. `opts.timeout`: seconds for all of it, resolving included;
  -- `opts.attempt`: what another task may close meanwhile, then the result is `false, "closed"`.
  function api.connect(addr, port, opts)
    if type(addr) ~= "string" then misuse.argument("connect", 1, "address", addr) end
    local path = addr:match("^unix:(.+)$")
    if not path then misuse.check_port("connect", 2, port) end
    -- What `listener:address()` returns may be passed on as it is.
    if opts == "inet" or opts == "inet6" then opts = nil end
    opts = options.check("net.connect", 3, opts, OPTIONS)
    local attempt = opts.attempt
    if attempt and attempt.closed then return false, "closed", "closed" end
    local s, message, code
    if path then
      s, message, code = connect_unix(path, opts)
    else
      s, message, code = connect_ip(addr, port, opts)
    end
    if attempt then attempt.token = nil end
    if attempt and attempt.closed then
      if s then s:close() end
      return false, "closed", "closed"
    end
    if not s then return false, message, code end
    return api.wrap(s)
  end
end
