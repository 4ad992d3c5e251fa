-- `web.rate_limit`: middleware that limits the rate of requests of each client, with a token bucket per client.
--
-- A bucket starts full, with `burst` tokens, and gets `rate` tokens in `per` seconds; a request takes one. Buckets are
-- created on demand, and the bucket that was not used for the longest time is replaced when there are too many.

local crypto = require "lio.crypto"
local error_page = require "lio.web.error_page"
local lio = require "lio"
local lru = require "lio.web.lru"
local misuse = require "lio.misuse"
local options = require "lio.options"

local RateLimit = {}
RateLimit.__index = RateLimit
RateLimit.__name = "lio.rate_limit"

-- The largest number of tokens and of seconds.
local MOST <const> = 1000000000
-- A longer key is replaced by its digest, so the size of a bucket is limited.
local LONGEST_KEY <const> = 64
local KEY_TYPES <const> = { string = true, number = true, boolean = true }

local OPTIONS <const> = {
  rate = options.whole(1, MOST),
  per = options.rule("a positive number of seconds of at most 1000000000", function(value)
    return type(value) == "number" and value > 0 and value <= MOST
  end),
  burst = options.whole(1, MOST),
  key = options.callable,
  clients = options.whole(1),
  headers = options.boolean,
  on_limit = options.callable,
}

-- Returns what identifies a client: its IPv4 address, or the first 64 bits of its IPv6 address, because a client
-- usually has a network of this size. Nil if the client has closed.
local function network_of(req)
  local addr = req.remote_addr
  if not addr or not addr:find "^%x*:" or addr:find(".", 1, true) then return addr end
  local head, tail = addr:match "^(.-)::(.*)$"
  local groups, last = {}, {}
  for group in (head or addr):gmatch "%x+" do groups[#groups + 1] = group end
  for group in (tail or ""):gmatch "%x+" do last[#last + 1] = group end
  for _ = #groups + #last + 1, 8 do groups[#groups + 1] = "0" end
  table.move(last, 1, #last, #groups + 1, groups)
  return table.concat(groups, ":", 1, 4) .. "::/64"
end

-- Raises unless `limit` is a limit, and `key` can identify a client.
local function check(limit, call, key)
  if getmetatable(limit) ~= RateLimit then misuse.no_colon("limit", call) end
  if not KEY_TYPES[type(key)] or key ~= key then
    misuse.bad(call, 1, "a string, number or boolean expected, got " .. misuse.shown(key))
  end
end

-- Returns the key of a client's bucket. A digest is longer than any key that is not replaced.
local function stored(key)
  if type(key) ~= "string" or #key <= LONGEST_KEY then return key end
  return "sha256:" .. crypto.sha256(key, "hex")
end

-- Returns what the option `key` returns for a request. A list is an error: a client that sends a field of a form twice
-- would get a new bucket for each request.
local function key_of(self, req)
  local key = self.key(req)
  if key ~= nil and not KEY_TYPES[type(key)] or key ~= key then
    error(("web.rate_limit: option 'key' must return a string, number, boolean or nil, got %s"):format(
      misuse.shown(key)), 0)
  end
  return key
end

-- `limit:take(key)` takes a token from the client's bucket. Returns whether there was one, the number of tokens that
-- are left, and the bucket.
function RateLimit:take(key)
  check(self, "take", key)
  key = stored(key)
  local now = self.clock()
  local bucket = self.buckets:get(key)
  if not bucket then
    bucket = { tokens = self.burst, time = now }
    self.buckets:set(key, bucket)
  end
  local tokens = math.min(self.burst, bucket.tokens + (now - bucket.time) * self.speed)
  -- Rounding must not cost a whole token.
  local has_token = tokens > 1 - 1e-6
  if has_token then tokens = math.max(tokens - 1, 0) end
  bucket.tokens, bucket.time = tokens, now
  return has_token, math.floor(tokens + 1e-6), bucket
end

-- Returns in how many whole seconds a bucket will have `tokens` tokens.
local function seconds_until(self, bucket, tokens)
  return math.max(math.ceil((tokens - bucket.tokens) / self.speed - 1e-6), 0)
end

-- `limit:reset(key)`: fills the bucket of a client.
function RateLimit:reset(key)
  check(self, "reset", key)
  self.buckets:set(stored(key), nil)
end

-- The fields of draft-ietf-httpapi-ratelimit-headers-06.
local function set_fields(self, res, left, bucket)
  res:header("RateLimit-Limit", self.burst)
  res:header("RateLimit-Remaining", left)
  res:header("RateLimit-Reset", seconds_until(self, bucket, self.burst))
  res:header("RateLimit-Policy", self.policy)
end

function RateLimit:__call(req, res, next)
  local key = key_of(self, req)
  if key == nil then return next() end
  local has_token, left, bucket = self:take(key)
  if self.headers then set_fields(self, res, left, bucket) end
  if has_token then return next() end
  local seconds = math.max(seconds_until(self, bucket, 1), 1)
  res:header("Retry-After", seconds)
  if not self.on_limit then return error_page.for_status(req, 429) end
  res:status(429)
  return self.on_limit(req, res, seconds)
end

-- `web.rate_limit(options)` returns middleware with the methods `take` and `reset`. `rate`: how many requests a client
-- may send in `per` seconds (60). `burst`: how many of them at once (`rate`). `key`: a function that gets a request and
-- returns a string, number or boolean that identifies the client, or nil if the request is not limited; by default, the
-- client's address.
-- `clients`: the maximum number of buckets (10000). `headers = false`: without the fields `RateLimit-…`. `on_limit`: a
-- function that responds instead of the library; it gets the request, the response and the seconds until the next
-- request may be sent.
return function(opts)
  opts = options.check("web.rate_limit", 1, opts, OPTIONS)
  if not opts.rate then misuse.raise "web.rate_limit: option 'rate' is missing: an integer of at least 1" end
  local rate, per = math.tointeger(opts.rate), opts.per or 60
  return setmetatable({
    burst = math.tointeger(opts.burst or rate),
    speed = rate / per, -- tokens per second
    policy = ("%d;w=%d"):format(rate, math.ceil(per)),
    key = opts.key or network_of,
    headers = opts.headers ~= false,
    on_limit = opts.on_limit,
    buckets = lru.new(math.tointeger(opts.clients or 10000)),
    clock = lio.now,
  }, RateLimit)
end
