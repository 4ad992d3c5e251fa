-- Finds the handler of a request if the native router has found no route, or a route with constraints. Provides the
-- responses to OPTIONS, and the 404 and 405 responses. Called by web/dispatch.lua. Reads the app and the request, and
-- changes neither. The routes of mounted apps are among the app's own routes (web/mount.lua).

local allow_value <const> = require "lio.web.allow"
local http = require "lio.http"
local mounting = require "lio.web.mount"

local native <const> = http.request
local head <const> = http.head

local NO_MOUNTS <const> = {}

-- Returns the library's response for a status. Removes the header fields in which middleware has described another
-- body.
local function status_page(req, res, ...)
  native.drop_body_fields(res.request)
  return require("lio.web.error_page").for_status(req, ...)
end

local function not_found(req, res)
  return status_page(req, res, 404)
end

local function options_handler(allowed)
  local value = allow_value(allowed)
  return function() return 204, nil, { Allow = value } end
end

-- `custom`: the `not_found` of a mounted app, or nil. When `custom` is called, the status is 405 and `Allow` is set.
-- Even if `custom` sets the status 404, 405 is sent, because the path has a route.
local function not_allowed_handler(allowed, custom)
  local value = allow_value(allowed)
  return function(req, res)
    if not custom then return status_page(req, res, 405, { Allow = value }) end
    res:status(405):header("Allow", value)
    res:set_result_of("not_found", custom, custom(req, res))
    if res.code == 404 then res:status(405) end
  end
end

-- Reports whether the request's parameters satisfy the constraints of a route.
local function satisfies(routes, req, id)
  local constraints = routes:constraints(id)
  if not constraints then return true end
  local params = head.params(req, routes, id)
  for name, pattern in pairs(constraints) do
    if not (params[name] or ""):find("^" .. pattern .. "$") then return false end
  end
  return true
end

local function methods_of_app(app)
  local methods = {}
  for _, entry in pairs(app.entries) do
    if entry.method ~= "" then methods[entry.method] = true end
  end
  return methods
end

-- Reports whether a route also serves `method`, which differs from the route's own method.
local function serves(entry, method)
  return entry.method == "" and method ~= "CONNECT" or method == "HEAD" and entry.method == "GET"
end

-- Searches the routes that match the request's path for one that serves the request. Returns the handler and the id of
-- its route; or nil, and, if the path has routes, the set of their methods.
local function find_route(app, req)
  local method, allowed = req.method, nil
  local handler, handler_id
  for _, id in ipairs(head.matches(req, app.routes)) do
    if id == 0 then
      -- The patterns that follow are less specific.
      if handler then return handler, handler_id end
    elseif satisfies(app.routes, req, id) then
      local entry = app.entries[id]
      if entry.method == method then return entry.handler, id end
      if not handler and serves(entry, method) then handler, handler_id = entry.handler, id end
      allowed = allowed or {}
      if entry.method ~= "" then allowed[entry.method] = true end
    end
  end
  return nil, allowed
end

-- Returns the handler of a request, and the id of its route unless the handler is the library's.
local function find(app, req)
  -- The target is `*`, or `http://host` without a path, which has the same meaning (RFC 9112 section 3.2.4).
  if head.raw_path(req) == "*" then return options_handler(methods_of_app(app)) end
  local handler, found = find_route(app, req)
  if handler then return handler, found end
  local mounts = mounting.chain_at(app, req, satisfies) or NO_MOUNTS
  if not found then
    handler = mounting.not_found(mounts) or app.not_found_handler or not_found
  elseif req.method == "OPTIONS" then
    handler = options_handler(found)
  else
    handler = not_allowed_handler(found, mounting.not_found(mounts))
  end
  return mounting.around(mounts, handler)
end

-- `find_handler(app, req)` returns the handler, and the id of its route unless the handler is the library's. If the
-- search raises, for example in a constraint, the returned handler raises the error.
return function(app, req)
  local ok, handler, id = pcall(find, app, req)
  if ok then return handler, id end
  return function() error(handler, 0) end
end
