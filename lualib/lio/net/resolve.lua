-- Host names: `resolve`. Part of `lio.net`. Another thread resolves the names (`lio.resolver`); answers are cached.
-- Invariant: at most one query for a name is in progress, in `pending`; tasks that request the name meanwhile wait for
-- its answer.

local misuse = require "lio.misuse"
local native = require "lio.resolver"

local now <const> = require("lio").now

local CACHE_SECONDS <const> = 30
local MAX_CACHED <const> = 1000

local M = {}

-- Resolves names for one driver. While queries are pending, the resolver is a hook of the driver, so that it can
-- collect the answers.
local Resolver = {}
Resolver.__index = Resolver

-- A token on which a task waits. It is also the value of the timer that ends the wait.
local Token = { stands_for = "the address of a name" }
Token.__index = Token

function Token:expired()
  self.wakeup(self, "timeout")
end

local function new_resolver(driver)
  return setmetatable({
    driver = driver,
    queries = {}, -- id: `{ name, tokens }`
    pending = {}, -- name: the query, as in `queries`
    pending_count = 0,
    cache = {}, -- name: `{ addresses, expiry }`
    cached_count = 0,
  }, Resolver)
end

-- `resolver:is_resolving()` returns whether an answer is pending.
function Resolver:is_resolving()
  return self.pending_count > 0
end

local function remember(self, name, addresses)
  if self.cached_count >= MAX_CACHED then self.cache, self.cached_count = {}, 0 end
  if not self.cache[name] then self.cached_count = self.cached_count + 1 end
  self.cache[name] = { addresses = addresses, expiry = now() + CACHE_SECONDS }
end

function Resolver.before_wait() end

-- Takes the answers that have arrived, and wakes the tasks that wait for them.
function Resolver:after_events()
  while true do
    local id, addresses, message = self.lookups:answer()
    if not id then return end
    local query = self.queries[id]
    self.queries[id], self.pending[query.name] = nil, nil
    self.pending_count = self.pending_count - 1
    if self.pending_count == 0 then self.driver:remove_hooks(self) end
    if addresses then remember(self, query.name, addresses) end
    for _, token in ipairs(query.tokens) do
      self.driver.scheduler.wakeup(token, addresses, message)
    end
  end
end

-- Returns the pending query for a name, or starts one if there is none; on failure, nil, message, code.
local function query_for(self, name)
  local query = self.pending[name]
  if query then return query end
  if not self.lookups then
    local waker, message, code = self.driver.selector:waker()
    if not waker then return nil, message, code end
    self.lookups = native.new(waker)
  end
  local id, message, code = self.lookups:query(name)
  if not id then return nil, message, code end
  query = { name = name, tokens = {} }
  self.queries[id], self.pending[name] = query, query
  if self.pending_count == 0 then self.driver:add_hooks(self) end
  self.pending_count = self.pending_count + 1
  return query
end

local function copy(list)
  return table.move(list, 1, #list, 1, {})
end

-- `resolver:look_up(name [, seconds [, attempt]])`: like `net.resolve`, for a name that is not an address. Another task
-- may close the attempt (net/connect.lua) meanwhile.
function Resolver:look_up(name, seconds, attempt)
  local known = self.cache[name]
  if known and known.expiry > now() then return copy(known.addresses) end
  local query, problem, code = query_for(self, name)
  if not query then return nil, problem, code end
  local scheduler, timers = self.driver.scheduler, self.driver.timers
  local token = setmetatable({ wakeup = scheduler.wakeup }, Token)
  table.insert(query.tokens, token)
  local timer = seconds and timers:add(math.max(seconds, 0), token)
  if attempt then attempt.token = token end
  local addresses, message = scheduler.wait(token)
  if timer then timers:cancel(timer) end
  if addresses == "closed" then return nil, "closed", "closed" end
  if addresses == "timeout" then return nil, "resolve: " .. name .. ": timeout", "timeout" end
  if addresses then return copy(addresses) end
  return nil, "resolve: " .. name .. ": " .. message, "unresolved"
end

-- `install(driver, calls)`: adds `resolve` to `calls`, and its resolver to the driver.
function M.install(driver, calls)
  local resolver = new_resolver(driver)
  driver.resolver = resolver

  -- `resolve(name [, seconds])` returns a list of the name's addresses, as strings in order of preference; or `nil,
  -- message, code`. For a numeric address, the list contains that address. `seconds` limits the wait.
  function calls.resolve(name, seconds)
    misuse.check("resolve", 1, name, "string")
    misuse.check_optional_seconds("resolve", 2, seconds)
    if seconds and seconds < 0 then misuse.bad("resolve", 2, "seconds of at least 0 expected, got " .. seconds) end
    local numeric = native.is_numeric(name)
    if numeric then return { numeric } end
    return resolver:look_up(name, seconds)
  end
end

return M
