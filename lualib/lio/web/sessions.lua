-- `web.sessions`: middleware that keeps data for each client between requests: `req.session` (web/session.lua).
--
-- Without a store, the data is in the cookie (web/session_cookie.lua), together with the time when it expires. With a
-- store, the cookie contains only a random id. The session is saved just before the head of the response is sent, and
-- only if it has changed.

local cookie = require "lio.web.cookie"
local crypto = require "lio.crypto"
local lio = require "lio"
local misuse = require "lio.misuse"
local options = require "lio.options"
local session_cookie = require "lio.web.session_cookie"
local sessions = require "lio.web.session"
local vary = require "lio.web.vary"

local Sessions = {}
Sessions.__index = Sessions
Sessions.__name = "lio.sessions"

local TWO_WEEKS <const> = 14 * 24 * 3600
-- Browsers may drop a longer cookie (RFC 6265 section 6.1).
local LONGEST_COOKIE <const> = 4096
local SHORTEST_SECRET <const> = 32

local function is_secret(value)
  return type(value) == "string" and #value >= SHORTEST_SECRET
end

local function is_list_of_secrets(value)
  if type(value) ~= "table" or #value == 0 then return false end
  for _, one in ipairs(value) do
    if not is_secret(one) then return false end
  end
  return true
end

local function is_store(value)
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  return pcall(function()
    for _, method in ipairs { "load", "save", "destroy" } do assert(misuse.is_callable(value[method])) end
    assert(value.update == nil or misuse.is_callable(value.update))
  end)
end

local OPTIONS <const> = {
  secret = options.secret("a string of at least 32 bytes, such as crypto.random(32, \"hex\")", is_secret),
  secrets = options.secret("a list of strings of at least 32 bytes", is_list_of_secrets),
  name = options.string,
  encrypted = options.boolean,
  max_age = options.whole(1, 1000000000),
  same_site = options.one_of("strict", "lax", "none"),
  secure = options.boolean,
  http_only = options.boolean,
  path = options.string,
  domain = options.string,
  rolling = options.boolean,
  store = options.rule("an object with the methods 'load', 'save' and 'destroy'", is_store),
}

-- Loading --------------------------------------------------------------------------------------------------

-- Calls a method of the store. Raises if it fails: it returns nil and a message.
local function call_store(self, method, ...)
  local result, message = self.store[method](self.store, ...)
  if result == nil and message ~= nil then
    error(("web.sessions: the store failed in '%s': %s"):format(method, tostring(message)), 0)
  end
  return result
end

-- Returns the id in the value of a cookie; nil if it is not an id that this program has made.
local function open_id(self, value)
  local id = value
  if self.codec then id = self.codec:open(value) end
  if id and #id == 43 and id:find "^[%w_-]+$" then return id end
end

local function load_from_store(self, value)
  local id = open_id(self, value)
  local text = id and call_store(self, "load", id)
  if text and type(text) ~= "string" then
    error("web.sessions: the store's 'load' must return a string or nil, got " .. misuse.shown(text), 0)
  end
  return sessions.new(text, id)
end

local function load_from_cookie(self, value)
  local content = self.codec:open(value)
  local expiry, text = (content or ""):match "^(%d+) (.*)$"
  if not expiry or math.tointeger(tonumber(expiry)) <= self.clock() then text = nil end
  return sessions.new(text)
end

local function load(self, req)
  local value = req.cookies[self.name]
  if not value then return sessions.new() end
  return (self.store and load_from_store or load_from_cookie)(self, value)
end

-- Saving ---------------------------------------------------------------------------------------------------

-- Returns the attributes of the cookie.
local function attributes(self, req, max_age)
  local secure = self.secure
  if secure == nil then secure = req.is_tls end
  return {
    path = self.path, domain = self.domain, max_age = max_age, secure = secure, http_only = self.http_only,
    same_site = self.same_site,
  }
end

local function set_cookie(self, req, res, value, max_age)
  local opts = attributes(self, req, max_age)
  local length = #cookie(self.name, value, opts)
  if length > LONGEST_COOKIE then
    error(("web.sessions: the cookie would have %d bytes, but browsers accept only %d: keep less in the session, or "
      .. "use a store"):format(length, LONGEST_COOKIE), 0)
  end
  res:cookie(self.name, value, opts)
end

-- Saves the data of a session that the store had when the request began. Returns false if the store no longer has it:
-- meanwhile, another request has destroyed the session or given it a new id, so this id must not become valid again.
local function update_in_store(self, id, text)
  if self.store.update then return call_store(self, "update", id, text, self.max_age) ~= false end
  if call_store(self, "load", id) == nil then return false end
  call_store(self, "save", id, text, self.max_age)
  return true
end

-- Saves the data in the store. Returns the value of the cookie; nil if the session has ended meanwhile.
local function save_in_store(self, state, text)
  local old = state.id
  if old and not state.needs_id then
    if not update_in_store(self, old, text) then return nil end
  else
    state.id = crypto.random(32, "base64url")
    call_store(self, "save", state.id, text, self.max_age)
    if old then call_store(self, "destroy", old) end
  end
  return self.codec and self.codec:seal(state.id) or state.id
end

local function remove(self, req, res, state)
  if not state.text then return end
  if self.store then call_store(self, "destroy", state.id) end
  set_cookie(self, req, res, "", 0)
end

local function save(self, req, res, session)
  local state, text = sessions.state(session), sessions.encode(session)
  if not text then return remove(self, req, res, state) end
  if text == state.text and not state.needs_id and not state.is_destroyed and not self.rolling then return end
  -- Data that was added after `destroy` belongs to a new session.
  state.needs_id = state.needs_id or state.is_destroyed
  local value
  if self.store then
    value = save_in_store(self, state, text)
    if not value then return end
  else
    value = self.codec:seal(("%d %s"):format(math.floor(self.clock()) + self.max_age, text))
  end
  set_cookie(self, req, res, value, self.max_age)
end

-- Saves the session just before the head is sent. The changes of a handler that has raised an error are not saved.
local function commit(self, req, res, session)
  if not rawequal(req.session, session) then
    error("web.sessions: req.session was replaced; set its fields instead, or call req.session:destroy()", 0)
  end
  if res.error == nil then save(self, req, res, session) end
  -- The response to a visitor without a session depends on that, too, if the handler has read the session.
  local state = sessions.state(session)
  if state.text or state.is_read or next(session) ~= nil then vary(res, "Cookie") end
  sessions.close(session)
end

function Sessions:__call(req, res, next)
  local session = load(self, req)
  req.session = session
  res:on_head(function() commit(self, req, res, session) end)
  return next()
end

-- Making ---------------------------------------------------------------------------------------------------

local function check_cookie_options(opts)
  if opts.same_site == "none" and not opts.secure then
    misuse.raise "web.sessions: option 'same_site' \"none\" needs 'secure'"
  end
  local ok, message = pcall(cookie, opts.name or "session", "", {
    path = opts.path or "/", domain = opts.domain, secure = opts.secure,
  })
  if not ok then misuse.raise("web.sessions: " .. misuse.without_position(message):gsub("^res:cookie: ", "")) end
end

-- `web.sessions(options)` returns middleware. `secret`: a string of at least 32 bytes that only the server knows; or
-- `secrets`, a list: the first one is used for new cookies, the others are still accepted. `name` ("session").
-- `encrypted`: whether the client cannot read the data (false). `max_age`: after how many seconds without a change the
-- session expires (two weeks). `rolling`: also extends it in requests that do not change it (false). `same_site`
-- ("lax"), `secure` (by default whether the request came over TLS), `http_only` (true), `path` ("/") and `domain` as
-- for `res:cookie`. `store`: keeps the data on the server, see `web.memory_store`; a secret is then optional.
return function(opts)
  opts = options.check("web.sessions", 1, opts, OPTIONS)
  if opts.secret and opts.secrets then misuse.raise "web.sessions: give either 'secret' or 'secrets'" end
  local secrets = opts.secrets or opts.secret and { opts.secret }
  if not secrets and not opts.store then
    misuse.raise "web.sessions: option 'secret' is missing: a string of at least 32 bytes that only the server knows"
  end
  if opts.encrypted and not secrets then misuse.raise "web.sessions: option 'encrypted' needs a secret" end
  check_cookie_options(opts)
  local name = opts.name or "session"
  return setmetatable({
    name = name,
    codec = secrets and session_cookie.new(name, secrets, opts.encrypted),
    store = opts.store,
    max_age = math.tointeger(opts.max_age or TWO_WEEKS),
    rolling = opts.rolling,
    path = opts.path or "/",
    domain = opts.domain,
    secure = opts.secure,
    http_only = opts.http_only ~= false,
    same_site = opts.same_site or "lax",
    clock = lio.wall,
  }, Sessions)
end
