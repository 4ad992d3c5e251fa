-- `app:name` and `app:url_for`: names of routes, and the paths of routes with given parameters. Called by
-- webserver.lua.
--
-- Invariant: the router finds the route again for each path that `build` returns, with the same parameters.

local http = require "lio.http"
local misuse = require "lio.misuse"

local percent_encode <const> = http.percent_encode

local M = {}

-- `name(app, name)`: names the last route of the app.
function M.name(app, name)
  misuse.check("name", 1, name, "string")
  if name == "" or name:find "^/" then misuse.bad("name", 1, "a name that does not begin with '/' expected") end
  local entry = app.listed[#app.listed]
  if not entry then misuse.raise("app:name: the app has no route that could be named '" .. name .. "'") end
  if app.names[name] then misuse.raise(("app:name: there already is a route with the name '%s'"):format(name)) end
  app.names[name] = entry
end

-- Returns the pattern of the route with a name in the app, or in an app that is mounted in it; nil if there is none.
local function pattern_of_name(app, name)
  local entry = app.names[name]
  if entry then return entry.pattern end
  for _, mount in ipairs(app.mounts) do
    local pattern = pattern_of_name(mount.app, name)
    if pattern then return mount.prefix .. pattern end
  end
end

local function has_pattern(app, pattern)
  for _, entry in ipairs(app.listed) do
    if entry.pattern == pattern then return true end
  end
  return false
end

-- Returns the position after the parameter that begins at `at`, its kind (":" or "*"), its name, and its constraint or
-- nil. A constraint ends with a ">" before a slash or the end.
local function parse_parameter(pattern, at)
  local kind, name, behind = pattern:match("^([:*])([^/<]+)()", at)
  if pattern:sub(behind, behind) ~= "<" then return behind, kind, name, nil end
  local finish = behind
  repeat
    finish = pattern:find(">", finish + 1, true)
  until pattern:find("^>/", finish) or finish == #pattern
  return finish + 1, kind, name, pattern:sub(behind + 1, finish - 1)
end

-- Splits a pattern into a list of strings and parameters, which are tables.
local function parse(pattern)
  local parts, at = {}, 1
  while true do
    local slash = pattern:find("/[:*]", at)
    if not slash then break end
    parts[#parts + 1] = pattern:sub(at, slash)
    local behind, kind, name, constraint = parse_parameter(pattern, slash + 1)
    parts[#parts + 1] = { is_tail = kind == "*", name = name, constraint = constraint }
    at = behind
  end
  parts[#parts + 1] = pattern:sub(at)
  return parts
end

-- Returns literal text of a pattern as a part of a path: only bytes that a path cannot contain are escaped.
local function encode_literal(text)
  return (text:gsub("[^%w%-._~!$&'()*+,;=:@/%%]", percent_encode))
end

local function parsed(app, call, route)
  local cache = app.url_patterns or {}
  app.url_patterns = cache
  if cache[route] then return cache[route] end
  local pattern = route
  if route:find "^/" then
    if not has_pattern(app, route) then misuse.raise(("%s: there is no route '%s'"):format(call, route)) end
  else
    pattern = pattern_of_name(app, route)
    if not pattern then misuse.raise(("%s: there is no route with the name '%s'"):format(call, route)) end
  end
  local parts = parse(pattern)
  for index, part in ipairs(parts) do
    if type(part) == "string" then parts[index] = encode_literal(part) end
  end
  cache[route] = parts
  return parts
end

-- Returns a value as a string, or nil if it is neither a string nor a number.
local function text_of(value)
  if math.type(value) == "float" then value = math.tointeger(value) or value end
  if type(value) == "number" then return tostring(value) end
  return type(value) == "string" and value or nil
end

-- Raises for the text of a parameter that the router would not find again.
local function check_segment(call, name, text)
  if text == "" then misuse.raise(("%s: parameter '%s' is empty"):format(call, name)) end
  if text == "." or text == ".." then
    misuse.raise(("%s: parameter '%s' cannot be '%s', which browsers remove from paths"):format(call, name, text))
  end
end

-- Returns the value of a parameter as a part of the path.
local function encode_parameter(call, part, value)
  local text = text_of(value)
  if not text then
    misuse.raise(("%s: parameter '%s' must be a string or a number, got %s"):format(call, part.name,
      misuse.shown(value)))
  end
  if part.constraint and not text:find("^" .. part.constraint .. "$") then
    misuse.raise(("%s: parameter '%s' must match '%s', got %s"):format(call, part.name, part.constraint,
      misuse.shown(text)))
  end
  if not part.is_tail then
    check_segment(call, part.name, text)
    return percent_encode(text)
  end
  local segments = {}
  for segment in (text .. "/"):gmatch "([^/]*)/" do
    if segment ~= "" then check_segment(call, part.name, segment) end
    segments[#segments + 1] = percent_encode(segment)
  end
  return table.concat(segments, "/")
end

local function add_pair(call, pairs_of_query, name, value)
  local text = type(value) == "boolean" and tostring(value) or text_of(value)
  if not text then
    misuse.raise(("%s: '%s' of the query must be a string, a number, a boolean or a list, got %s"):format(
      call, name, misuse.shown(value)))
  end
  pairs_of_query[#pairs_of_query + 1] = percent_encode(name) .. "=" .. percent_encode(text)
end

-- Returns a query string. The names are in the order of their bytes, so that equal tables give equal strings.
local function encode_query(call, query)
  local names, found = {}, {}
  for name in pairs(query) do
    if type(name) ~= "string" then misuse.raise(call .. ": the names of the query must be strings") end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local value = query[name]
    for _, one in ipairs(type(value) == "table" and value or { value }) do add_pair(call, found, name, one) end
  end
  return table.concat(found, "&")
end

-- `build(app, route, params, query)` returns the path of a route, see `app:url_for`.
function M.build(app, route, params, query)
  local call <const> = "app:url_for"
  misuse.check("url_for", 1, route, "string")
  if params ~= nil then misuse.check("url_for", 2, params, "table") end
  if query ~= nil then misuse.check("url_for", 3, query, "table") end
  local path, used = {}, {}
  for index, part in ipairs(parsed(app, call, route)) do
    if type(part) == "string" then
      path[index] = part
    else
      local value = params and params[part.name]
      if value == nil then misuse.raise(("%s: parameter '%s' is missing"):format(call, part.name)) end
      path[index], used[part.name] = encode_parameter(call, part, value), true
    end
  end
  for name in pairs(params or {}) do
    if not used[name] then
      misuse.raise(("%s: route '%s' has no parameter '%s'"):format(call, route, tostring(name)))
    end
  end
  local text = query and encode_query(call, query) or ""
  return table.concat(path) .. (text ~= "" and "?" .. text or "")
end

return M
