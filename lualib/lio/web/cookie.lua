-- `cookie(name, value, opts)` returns the value of `Set-Cookie` for `res:cookie` (RFC 6265 section 4.1). Called by
-- web/response.lua. Raises for a cookie that browsers drop.

local misuse = require "lio.misuse"
local options = require "lio.options"

local COOKIE <const> = {
  path = options.string,
  domain = options.string,
  max_age = options.rule("an integer number of seconds", function(value) return math.tointeger(value) ~= nil end),
  expires = options.string,
  secure = options.boolean,
  http_only = options.boolean,
  same_site = options.rule("'strict', 'lax' or 'none'", function(value) return type(value) == "string" end),
}

local SAME_SITE <const> = { strict = "Strict", lax = "Lax", none = "None" }

-- Raises for combinations that browsers drop silently (RFC 6265bis sections 4.1.3 and 5.7). Returns the value of
-- `SameSite`, or nil.
local function check_cookie(name, opts)
  local same_site = opts.same_site and tostring(opts.same_site):lower()
  if same_site and not SAME_SITE[same_site] then
    options.wrong("res:cookie", "same_site", COOKIE.same_site.wanted, opts.same_site)
  end
  if same_site == "none" and not opts.secure then misuse.raise "res:cookie: same_site 'none' needs secure" end
  local prefix = name:lower():match("^__(%l+)%-")
  if (prefix == "secure" or prefix == "host") and not opts.secure then
    misuse.raise("res:cookie: " .. name .. " needs secure")
  end
  if prefix == "host" and (opts.domain or opts.path ~= "/") then
    misuse.raise("res:cookie: " .. name .. " needs the path '/' and no domain")
  end
  return SAME_SITE[same_site]
end

return function(name, value, opts)
  if not name:match("^[%w!#$%%&'*+%-.^_`|~]+$") then misuse.raise("res:cookie: not a cookie name: " .. name) end
  opts = options.check("res:cookie", 3, opts, COOKIE)
  value = tostring(value)
  if value:find('[%c%s",;\\\127-\255]') then
    misuse.raise("res:cookie: the value has characters that must be escaped: " .. name)
  end
  local same_site = check_cookie(name, opts)
  local parts = { name .. "=" .. value }
  local function attribute(label, text)
    text = tostring(text)
    if text:find("[%c;]") then misuse.raise("res:cookie: bad " .. label .. ": " .. text) end
    parts[#parts + 1] = label .. "=" .. text
  end
  if opts.path then attribute("Path", opts.path) end
  if opts.domain then attribute("Domain", opts.domain) end
  if opts.max_age then attribute("Max-Age", math.tointeger(opts.max_age)) end
  if opts.expires then attribute("Expires", opts.expires) end
  if opts.secure then parts[#parts + 1] = "Secure" end
  if opts.http_only then parts[#parts + 1] = "HttpOnly" end
  if same_site then parts[#parts + 1] = "SameSite=" .. same_site end
  return table.concat(parts, "; ")
end
