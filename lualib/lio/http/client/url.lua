-- URLs of requests: parsing, and resolving references (RFC 3986). Part of `lio.http.client`. Invariant: the host, the
-- path and the query of a URL can be sent as they are: they contain no spaces, control characters, or other characters
-- that must be escaped.

local http = require "lio.http"
local percent_decode <const> = require "lio.http.percent_decode"

local M = {}

local PORTS <const> = { http = 80, https = 443 }

-- Escapes the characters that a path or a query must not contain. Keeps existing escapes.
local function escape_rest(text)
  text = text:gsub("[^%w%-._~!$&'()*+,;=:@/?%%%[%]|^]", function(c) return ("%%%02X"):format(c:byte()) end)
  return (text:gsub("%%(%x?%x?)", function(digits)
    if #digits < 2 then return "%25" .. digits end
  end))
end

-- RFC 3986 section 5.2.4.
local function remove_dots(path)
  local kept = {}
  local is_folder = false
  for segment in path:gmatch "/([^/]*)" do
    local plain = segment:gsub("%%2[eE]", ".")
    is_folder = plain == "." or plain == ".."
    if plain == ".." then
      kept[#kept] = nil
    elseif plain ~= "." then
      kept[#kept + 1] = segment
    end
  end
  return "/" .. table.concat(kept, "/") .. (is_folder and #kept > 0 and "/" or "")
end

local function parse_port(text, scheme)
  if text == "" then return PORTS[scheme] end
  local port = #text <= 5 and math.tointeger(tonumber(text, 10))
  if port and port >= 1 and port <= 65535 then return port end
end

-- Parses `host`, `host:port` or `[v6]:port`. Returns the host for `net.connect`, the port (nil if it is out of range),
-- and the host as it is written in URLs; nil if the text is malformed.
local function parse_host(text, scheme)
  local inner, port = text:match "^%[([%x:.]+)%]:?(%d*)$"
  if inner then
    -- An IPv6 address has at least two colons.
    if not inner:find ":.*:" then return nil end
    return inner:lower(), parse_port(port, scheme), "[" .. inner:lower() .. "]"
  end
  local host, rest = text:match "^([%w%-._~]+)(.*)$"
  port = rest == "" and rest or rest and rest:match "^:(%d*)$"
  if not port then return nil end
  host = host:lower()
  return host, parse_port(port, scheme), host
end

local function split_userinfo(authority)
  local userinfo, rest = authority:match "^(.*)@([^@]*)$"
  if not userinfo then return authority end
  local user, password = userinfo:match "^([^:]*):?(.*)$"
  return rest, percent_decode(user), percent_decode(password)
end

local Url = {}
Url.__index = Url

-- Returns the URL as text, without user and password.
function Url:__tostring()
  return self.scheme .. "://" .. self.authority .. self.target
end

-- Returns whether two URLs have the same scheme, host and port.
function Url:is_same_origin(other)
  return self.scheme == other.scheme and self.host == other.host and self.port == other.port
end

local function build(scheme, authority, path, query)
  local rest, user, password = split_userinfo(authority)
  local host, port, shown = parse_host(rest, scheme)
  if not host then return nil, "malformed host" end
  if not port then return nil, "port out of range" end
  path = path == "" and "/" or remove_dots(escape_rest(path))
  query = query and escape_rest(query)
  return setmetatable({
    scheme = scheme,
    user = user,
    password = password,
    host = host,
    port = port,
    authority = port == PORTS[scheme] and shown or shown .. ":" .. port,
    path = path,
    query = query,
    target = query and path .. "?" .. query or path,
  }, Url)
end

local function split(text)
  text = text:match "^[^#]*"
  local scheme, rest = text:match "^(%a[%w+.-]*):(.*)$"
  rest = rest or text
  local authority, behind = rest:match "^//([^/?]*)(.*)$"
  local path, query = (behind or rest):match "^([^?]*)%??(.*)$"
  if not (behind or rest):find("?", 1, true) then query = nil end
  return scheme and scheme:lower(), authority, path, query
end

-- `parse(text)` parses an `http` or `https` URL with a host. Returns a URL with the fields `scheme`, `user`,
-- `password`, `host`, `port`, `authority` (the value of Host), `path`, `query` (or nil), `target`; or nil and a
-- message.
function M.parse(text)
  local scheme, authority, path, query = split(text)
  if not scheme then return nil, "scheme is missing; an example is http://host/path" end
  if not PORTS[scheme] then return nil, "unknown scheme" end
  if not authority or authority == "" then return nil, "host is missing" end
  return build(scheme, authority, path, query)
end

-- RFC 3986 section 5.2.3.
local function merge(base, path)
  return base.path:match "^(.*/)" .. path
end

-- `resolve(base, reference)` returns the URL of a reference (RFC 3986 section 5.2), or nil and a message.
function M.resolve(base, reference)
  if reference:find "%c" then return nil, "control character" end
  local scheme, authority, path, query = split(reference)
  if scheme and not PORTS[scheme] then return nil, "unknown scheme" end
  if scheme and not authority then return nil, "host is missing" end
  if authority then
    if authority == "" then return nil, "host is missing" end
    return build(scheme or base.scheme, authority, path, query)
  end
  if path == "" then
    path, query = base.path, query or base.query
  elseif path:sub(1, 1) ~= "/" then
    path = merge(base, path)
  end
  local host = base.authority
  return build(base.scheme, host, path, query)
end

local function add_pair(parts, key, value, name)
  if type(value) ~= "string" and type(value) ~= "number" and type(value) ~= "boolean" then
    error(("option '%s': the value of '%s' must be a string, number, boolean or a list of them, not %s"):format(
      name, key, type(value)), 0)
  end
  parts[#parts + 1] = http.percent_encode(key) .. "=" .. http.percent_encode(tostring(value))
end

-- `encode(values, name)` returns text such as `a=b&c=d`, sorted by key. A list value adds one pair for each element.
-- Raises for a value that is not a string, a number, a boolean or a list of them. `name`: the name of the option, for
-- messages.
function M.encode(values, name)
  local keys, parts = {}, {}
  for key in pairs(values) do
    if type(key) ~= "string" then error(("option '%s': keys must be strings, not %s"):format(name, type(key)), 0) end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local value = values[key]
    if type(value) == "table" then
      for _, one in ipairs(value) do add_pair(parts, key, one, name) end
    else
      add_pair(parts, key, value, name)
    end
  end
  return table.concat(parts, "&")
end

-- `with_query(url, query)` returns a URL like `url`, with `query` appended to its query.
function M.with_query(url, query)
  if query == "" then return url end
  if url.query and url.query ~= "" then query = url.query .. "&" .. query end
  local copy = {}
  for key, value in pairs(url) do copy[key] = value end
  copy.query = escape_rest(query)
  copy.target = copy.path .. "?" .. copy.query
  return setmetatable(copy, Url)
end

return M
