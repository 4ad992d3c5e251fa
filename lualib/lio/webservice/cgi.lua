-- Loads the CGI modules of `lio.webservice`, and makes handlers that call them. A module is a table of functions whose
-- names are HTTP methods in lower case. A function is called with path, query, header, body, and returns code, body,
-- headers. Path and query are those of the request, which `lio.webserver` has decoded. Invariant: a function is called
-- only if its name is in METHODS and the module's table itself contains it.

local METHODS <const> = {
  GET = "get", HEAD = "head", POST = "post", PUT = "put", PATCH = "patch", DELETE = "delete", OPTIONS = "options",
}

local allow_value <const> = require "lio.web.allow"

local M = {}

local function is_there(name)
  return package.loaded[name] ~= nil or package.preload[name] ~= nil
    or package.searchpath(name, package.path) ~= nil
end

-- Returns the module that `text` names: `"module"`, or `"module|name"` for `module.name` or the field `name` of
-- `module`.
local function find(text)
  local module, name = text:match "^([^|]+)|([^|]+)$"
  if not module then return require(text) end
  local inner = name:gsub("%.lua$", ""):gsub("/", ".")
  local path = module .. "." .. inner
  if is_there(path) then return require(path) end
  local outer = require(module)
  local value = type(outer) == "table" and outer[name]
  if value == nil or value == false then
    error(("module '%s' not found, and '%s' has no field '%s'"):format(path, module, name), 0)
  end
  return value
end

-- `load(prefix, text)` returns the module. Raises a message if the module cannot be loaded or is not a table.
function M.load(prefix, text)
  local ok, module = pcall(find, text)
  if not ok then
    error(("cgi['%s']: cannot load '%s': %s"):format(prefix, text, tostring(module)), 0)
  end
  if type(module) ~= "table" then
    error(("cgi['%s']: '%s' must be a table of functions, not a %s"):format(prefix, text, type(module)), 0)
  end
  return module
end

-- Returns the module's function for a method, or nil. Ignores the metatable, which could supply a function for every
-- name.
local function exported(module, method)
  local name = METHODS[method]
  local f = name and rawget(module, name)
  return type(f) == "function" and f or nil
end

local function allowed(module)
  local methods = {}
  for method in pairs(METHODS) do
    if exported(module, method) then methods[method] = true end
  end
  return allow_value(methods)
end

local function headers_of(req)
  local header = {}
  for name, value in pairs(req.headers) do header[name] = value end
  return header
end

-- `handler(module)` returns a handler of `lio.webserver`, for the route of a prefix or a route that ends in `*rest`.
function M.handler(module)
  return function(req, res)
    local method = req.method
    local f = exported(module, method) or method == "HEAD" and exported(module, "GET")
    if not f then
      local code, text = 405, "Method Not Allowed\n"
      if method == "OPTIONS" then code, text = 204, nil end
      return code, text, { Allow = allowed(module) }
    end
    local body = req:body()
    -- If the body was refused, the refusal is the response.
    if not body then return res end
    local code, content, headers = f(req.params.rest or "", req.query, headers_of(req), body)
    local status = type(code) == "number" and math.tointeger(code)
    if not status then error("the first result of a cgi function must be a status code, not " .. tostring(code), 0) end
    return status, content, headers
  end
end

return M
