-- `web.basic_auth`: middleware that asks for a name and a password (RFC 7617). Handlers get the name as `req.user`.
--
-- The time of an answer does not show whether a name exists: an unknown name costs the same work as a known one. A
-- verified password is cached, because a browser sends it with each request, and verifying a hash is slow on purpose.

local crypto = require "lio.crypto"
local error_page = require "lio.web.error_page"
local lru = require "lio.web.lru"
local misuse = require "lio.misuse"
local options = require "lio.options"

-- The number of verified passwords that are cached.
local CACHED <const> = 1000

local OPTIONS <const> = {
  users = options.table,
  check = options.callable,
  realm = options.rule("a string without control characters", function(value)
    return type(value) == "string" and not value:find "%c"
  end),
}

-- Returns the name and the password of a request; nil if it has none.
local function credentials(req)
  local scheme, text = (req:header "authorization" or ""):match "^(%a+) +([^%s]+)$"
  if not scheme or scheme:lower() ~= "basic" then return nil end
  local decoded = crypto.base64_decode(text)
  if not decoded or decoded:find "%c" then return nil end
  return decoded:match "^([^:]*):(.*)$"
end

-- Reads the option `users`. Returns the digests of the plain passwords and the hashes, by name.
local function read_users(users, digest)
  local digests, hashes = {}, {}
  for name, password in pairs(users) do
    if type(name) ~= "string" or name:find "[:%c]" then
      misuse.raise(("web.basic_auth: option 'users': a name must be a string without colons, got %s"):format(
        misuse.shown(name)))
    end
    if type(password) ~= "string" or password == "" then
      misuse.raise(("web.basic_auth: option 'users': the password of '%s' must be a non-empty string"):format(name))
    end
    if password:find "^%$argon2" then
      if crypto.password_needs_rehash(password) == nil then
        misuse.raise(("web.basic_auth: option 'users': the hash of '%s' is invalid"):format(name))
      end
      hashes[name] = password
    else
      digests[name] = digest(password)
    end
  end
  return digests, hashes
end

-- Returns a function that compares a name and a password with the option `users`. The function returns whether they are
-- right; or nil and a message.
local function users_check(users)
  -- All digests have the same length, so the time of a comparison does not depend on the passwords.
  local key <const> = crypto.random(32)
  local function digest(text) return crypto.hmac("sha256", key, text) end
  local digests, hashes = read_users(users, digest)
  local verified = lru.new(CACHED)
  local _, some_hash = next(hashes)
  local no_password <const> = crypto.random(32)
  return function(name, password)
    local plain = digests[name]
    local is_equal = crypto.equal(digest(password), plain or no_password) and plain ~= nil
    if not some_hash then return is_equal end
    local pair = digest(name .. ":" .. password)
    if verified:get(pair) then return true end
    -- A hash is verified for every name, because otherwise the time would show which names have a plain password.
    local is_right, message = crypto.password_verify(password, hashes[name] or some_hash)
    if is_right == nil then return nil, message end
    is_right = is_equal or is_right and hashes[name] ~= nil
    if is_right then verified:set(pair, true) end
    return is_right
  end
end

local function ask(req, realm)
  return error_page.for_status(req, 401, {
    ["WWW-Authenticate"] = ('Basic realm="%s", charset="UTF-8"'):format(realm:gsub('["\\]', "\\%0")),
  })
end

-- `web.basic_auth(options)` returns middleware. `users`: a table that maps names to passwords, or to hashes of
-- `crypto.password_hash`. Or `check`: a function that gets a name, a password and the request, and returns whether they
-- are right; a result other than true becomes `req.user`. `realm`: what the browser shows ("Restricted").
return function(opts)
  opts = options.check("web.basic_auth", 1, opts, OPTIONS)
  if (opts.users == nil) == (opts.check == nil) then
    misuse.raise "web.basic_auth: give either 'users' or 'check'"
  end
  local check, realm = opts.check or users_check(opts.users), opts.realm or "Restricted"
  return function(req, _, next)
    local name, password = credentials(req)
    if not name then return ask(req, realm) end
    local user, message = check(name, password, req)
    if user == nil and message then
      io.stderr:write("lio: web.basic_auth: ", (tostring(message):gsub("[%c\127]", "?")), "\n")
      return error_page.for_status(req, 503, { ["Retry-After"] = "1" })
    end
    if not user then return ask(req, realm) end
    req.user = user == true and name or user
    return next()
  end
end
