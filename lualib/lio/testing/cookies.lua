-- The cookies that the client of `app:test` keeps (RFC 6265 sections 5.1 to 5.4). Times are those of `lio.wall`, so a
-- test that advances the clock sees cookies expire. Part of `lio.testing`.

local trim <const> = require "lio.http.trim"
local wall <const> = require("lio").wall

local M = {}

local Jar = {}
Jar.__index = Jar

-- `new()` returns a jar without cookies.
function M.new()
  return setmetatable({ cookies = {}, stored = 0 }, Jar)
end

-- Reading Set-Cookie -----------------------------------------------------------------------------------

local MONTHS <const> = {}
for index, name in ipairs { "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec" } do
  MONTHS[name] = index
end

-- Returns the number of days from 1970-01-01 to a date of the Gregorian calendar.
local function days_until(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
end

-- Returns the time of a date in seconds since the Unix epoch; nil if it is malformed (RFC 6265 section 5.1.1).
local function parse_date(text)
  local hour, minute, second = text:match "(%d%d?):(%d%d?):(%d%d?)"
  local rest = text:gsub("%d%d?:%d%d?:%d%d?", " ")
  local day, month, year = rest:match "(%d%d?)[%s%-]+(%a%a%a)%a*[%s%-]+(%d+)"
  month = month and MONTHS[month:lower()]
  if not (hour and month) then return nil end
  day, year = tonumber(day), tonumber(year)
  if year < 70 then year = year + 2000 elseif year < 100 then year = year + 1900 end
  if day < 1 or day > 31 or year < 1601 or tonumber(hour) > 23 or tonumber(minute) > 59 or tonumber(second) > 59 then
    return nil
  end
  return ((days_until(year, month, day) * 24 + tonumber(hour)) * 60 + tonumber(minute)) * 60 + tonumber(second)
end

-- Returns the folder of a path: what a cookie without a Path applies to (RFC 6265 section 5.1.4).
local function default_path(path)
  local folder = path:match "^(/.*)/[^/]*$"
  return folder or "/"
end

-- Returns when a cookie with these attributes expires; math.huge if it has no such attribute. Max-Age overrides
-- Expires.
local function expiry_of(attributes)
  local age = attributes["max-age"]
  if age and age:find "^%-?%d+$" then
    return tonumber(age) > 0 and wall() + tonumber(age) or -math.huge
  end
  return attributes.expires and parse_date(attributes.expires) or math.huge
end

local function is_below_domain(host, domain)
  return host == domain or host:sub(-#domain - 1) == "." .. domain and not host:find "^[%d.]+$"
end

-- Returns the cookie of a Set-Cookie field; nil if the field is ignored.
local function parse(url, field)
  local pair, rest = field:match "^([^;]*);?(.*)$"
  local name, value = pair:match "^([^=]*)=(.*)$"
  if not name or trim(name) == "" then return nil end
  local attributes = {}
  for part in rest:gmatch "[^;]+" do
    local key, text = part:match "^([^=]*)=?(.*)$"
    attributes[trim(key):lower()] = trim(text)
  end
  local domain = (attributes.domain or ""):gsub("^%.", ""):lower()
  if domain ~= "" and not is_below_domain(url.host, domain) then return nil end
  local path = attributes.path or ""
  return {
    name = trim(name),
    value = trim(value),
    domain = domain ~= "" and domain or url.host,
    host_only = domain == "",
    path = path:sub(1, 1) == "/" and path or default_path(url.path),
    secure = attributes.secure ~= nil,
    expires = expiry_of(attributes),
  }
end

-- The jar ----------------------------------------------------------------------------------------------

local function remove(jar, cookie)
  for index, other in ipairs(jar.cookies) do
    if other.name == cookie.name and other.domain == cookie.domain and other.path == cookie.path then
      table.remove(jar.cookies, index)
      return other
    end
  end
end

local function remove_expired(jar)
  local now = wall()
  for index = #jar.cookies, 1, -1 do
    if jar.cookies[index].expires <= now then table.remove(jar.cookies, index) end
  end
end

-- `jar:store(url, field)`: stores, replaces or deletes the cookie of a Set-Cookie field in a response for `url`.
function Jar:store(url, field)
  local cookie = parse(url, field)
  if not cookie then return end
  local old = remove(self, cookie)
  self.stored = self.stored + 1
  cookie.order = old and old.order or self.stored
  table.insert(self.cookies, cookie)
  remove_expired(self)
end

-- Browsers send secure cookies to localhost too.
local function is_secure(url)
  return url.scheme == "https" or url.host == "localhost"
end

local function matches_path(cookie, path)
  if cookie.path == path then return true end
  if path:sub(1, #cookie.path) ~= cookie.path then return false end
  return cookie.path:sub(-1) == "/" or path:sub(#cookie.path + 1, #cookie.path + 1) == "/"
end

local function applies(cookie, url)
  local same = cookie.domain == url.host or not cookie.host_only and is_below_domain(url.host, cookie.domain)
  return same and matches_path(cookie, url.path) and (not cookie.secure or is_secure(url))
end

-- `jar:for_url(url)` returns the cookies for a request: longer paths first, then older cookies first.
function Jar:for_url(url)
  remove_expired(self)
  local list = {}
  for _, cookie in ipairs(self.cookies) do
    if applies(cookie, url) then list[#list + 1] = cookie end
  end
  table.sort(list, function(a, b)
    if #a.path ~= #b.path then return #a.path > #b.path end
    return a.order < b.order
  end)
  return list
end

-- `jar:header(url)` returns the value of the Cookie field of a request; nil if there is no cookie for it.
function Jar:header(url)
  local parts = {}
  for index, cookie in ipairs(self:for_url(url)) do parts[index] = cookie.name .. "=" .. cookie.value end
  if parts[1] then return table.concat(parts, "; ") end
end

-- `jar:clear()`: deletes all cookies.
function Jar:clear()
  self.cookies = {}
end

return M
