-- `web.cors`: middleware that allows pages of other origins to use the app (the CORS protocol of the Fetch standard).
--
-- A browser asks before it sends certain requests: this *preflight* is an OPTIONS request, which the middleware
-- answers. In the other responses it only sets header fields. Requests of other origins are not refused: it is the
-- browser that keeps their responses from the page.

local misuse = require "lio.misuse"
local options = require "lio.options"
local vary = require "lio.web.vary"

local TOKEN <const> = "^[%w!#$%%&'*+%-.^_`|~]+$"
local METHODS <const> = { "GET", "HEAD", "PUT", "PATCH", "POST", "DELETE" }
local HEADERS <const> = { "Content-Type" }

local function is_list_of_tokens(value)
  if type(value) ~= "table" then return false end
  for _, one in ipairs(value) do
    if type(one) ~= "string" or not one:find(TOKEN) then return false end
  end
  return true
end

local TOKENS <const> = options.rule("a list of names", is_list_of_tokens)
local STAR <const> = options.rule("'*'", function(value) return value == "*" end)

local OPTIONS <const> = {
  origins = options.either(STAR, options.rule("an origin or a list of origins", function(value)
    return type(value) == "string" or type(value) == "table" and #value > 0
  end), options.callable),
  methods = TOKENS,
  headers = options.either(STAR, TOKENS),
  expose = options.either(STAR, TOKENS),
  credentials = options.boolean,
  max_age = options.whole(0),
}

-- Origins --------------------------------------------------------------------------------------------------

local DEFAULT_PORTS <const> = { http = ":80", https = ":443" }

-- Returns an origin as browsers send it: in lower case, without the scheme's default port. Raises if the text is not an
-- origin.
local function normalized(text)
  if text == "null" then return text end
  local scheme, host
  if type(text) == "string" then scheme, host = text:lower():match "^(%l[%l%d+.-]*)://([^/%s?#@]+)$" end
  if not scheme or host:find("*", 2, true) or host:find "^%*" and not host:find "^%*%.%w" then
    misuse.raise(("web.cors: option 'origins': %s is not an origin, such as \"https://example.com\" or "
      .. "\"https://*.example.com\""):format(misuse.shown(text)))
  end
  local port = DEFAULT_PORTS[scheme]
  if port and host:sub(-#port) == port then host = host:sub(1, -#port - 1) end
  return scheme .. "://" .. host
end

-- Returns a function that returns whether an origin is in the list. `*.` at the beginning of a host matches one or
-- more labels.
local function list_test(list)
  local exact, groups = {}, {}
  for _, text in ipairs(list) do
    local origin = normalized(text)
    local scheme, suffix = origin:match "^(.-://)%*(.*)$"
    if scheme then groups[#groups + 1] = { scheme = scheme, suffix = suffix } else exact[origin] = true end
  end
  return function(origin)
    origin = origin:lower()
    if exact[origin] then return true end
    for _, group in ipairs(groups) do
      local scheme, suffix = group.scheme, group.suffix
      if #origin > #scheme + #suffix and origin:sub(1, #scheme) == scheme and origin:sub(-#suffix) == suffix then
        return true
      end
    end
    return false
  end
end

-- Options ----------------------------------------------------------------------------------------------------

local function joined(names)
  if type(names) == "table" then return names[1] and table.concat(names, ", ") end
  return names
end

local function read_options(opts)
  local origins = opts.origins
  if origins == nil then
    misuse.raise "web.cors: option 'origins' is missing: a list such as { \"https://example.com\" }, or \"*\""
  end
  if type(origins) == "string" and origins ~= "*" then origins = { origins } end
  if opts.credentials and origins == "*" then
    misuse.raise "web.cors: 'credentials' with the origin \"*\" would give every page the user's data: list the origins"
  end
  if opts.credentials and opts.expose == "*" then
    misuse.raise "web.cors: with 'credentials', browsers ignore \"*\" in 'expose': list the header fields"
  end
  return {
    any = origins == "*",
    allows = type(origins) == "table" and not misuse.is_callable(origins) and list_test(origins) or origins,
    methods = joined(opts.methods or METHODS),
    headers = opts.headers ~= "*" and joined(opts.headers or HEADERS),
    reflects_headers = opts.headers == "*",
    expose = joined(opts.expose),
    credentials = opts.credentials,
    max_age = opts.max_age and tostring(math.tointeger(opts.max_age)),
  }
end

-- Responses --------------------------------------------------------------------------------------------------

-- Sets the fields that both kinds of response have. `origin` is nil if it is not allowed.
local function set_origin(settings, res, origin)
  if settings.any then
    res:header("Access-Control-Allow-Origin", "*")
    return
  end
  -- The response depends on the origin, even if this request has none: a cache must not give it to other origins.
  vary(res, "Origin")
  if not origin then return end
  res:header("Access-Control-Allow-Origin", origin)
  if settings.credentials then res:header("Access-Control-Allow-Credentials", "true") end
end

local function answer_preflight(settings, req, res, origin)
  set_origin(settings, res, origin)
  vary(res, "Access-Control-Request-Method")
  vary(res, "Access-Control-Request-Headers")
  if settings.any or origin then
    res:header("Access-Control-Allow-Methods", settings.methods)
    local headers = settings.headers
    if settings.reflects_headers then headers = req:header "access-control-request-headers" end
    res:header("Access-Control-Allow-Headers", headers or nil)
    res:header("Access-Control-Max-Age", settings.max_age)
  end
  return 204
end

-- `web.cors(options)` returns middleware. `origins`: an origin or a list of origins, in which a host may begin with
-- `*.`; `"*"`; or a function that is called with an origin and the request, and returns whether the origin is allowed.
-- `methods`: a list (GET, HEAD, PUT, PATCH, POST, DELETE). `headers`: a list of the fields that requests may have
-- (Content-Type), or `"*"`. `expose`: a list of the fields that pages can read. `credentials`: whether cookies are
-- sent. `max_age`: for how many seconds a browser caches the answer to a preflight.
return function(opts)
  local settings = read_options(options.check("web.cors", 1, opts, OPTIONS))
  return function(req, res, next)
    local origin = req:header "origin"
    if origin and not settings.any and not settings.allows(origin, req) then origin = nil end
    if req.method == "OPTIONS" and req:header "origin" and req:header "access-control-request-method" then
      return answer_preflight(settings, req, res, origin)
    end
    res:on_head(function()
      set_origin(settings, res, origin)
      if settings.expose and origin then res:header("Access-Control-Expose-Headers", settings.expose) end
    end)
    return next()
  end
end
