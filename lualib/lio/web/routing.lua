-- The handler for a request that the routes could not settle at once: constraints, 404, 405, OPTIONS.
-- Called by web/app_server.lua; reads the app and the request, changes neither.

local mounting = require "lio.web.mount"

local head <const> = require("lio.http").head

local NO_CHAIN <const> = {}

-- The methods a path has, for `Allow` (RFC 9110 section 10.2.1).
local function allow_text(allowed)
  if allowed.GET then allowed.HEAD = true end
  allowed.OPTIONS = true
  local names = {}
  for name in pairs(allowed) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

-- An answer of the server's own. What middleware has said of a body is not true of this one.
local function brief(req, res, ...)
  require("lio.web.handler_error").drop_body_fields(res)
  return require("lio.web.error_page").brief(req, ...)
end

local function not_found(req, res)
  return brief(req, res, 404)
end

local function options_handler(allowed)
  local text = allow_text(allowed)
  return function() return 204, nil, { Allow = text } end
end

-- `custom`: the `not_found` of a mounted app, which finds 405 and `Allow` set. Its 404 goes out as 405: the path has
-- a route.
local function not_allowed_handler(allowed, custom)
  local text = allow_text(allowed)
  return function(req, res)
    if not custom then return brief(req, res, 405, { Allow = text }) end
    res:status(405):header("Allow", text)
    res:take_from("not_found", custom, custom(req, res))
    if res.code == 404 then res:status(405) end
  end
end

-- Whether a route's parameters satisfy its constraints.
local function satisfies(routes, req, id)
  local constraints = routes:constraints(id)
  if not constraints then return true end
  local params = head.params(req, routes, id)
  for name, pattern in pairs(constraints) do
    if not (params[name] or ""):find("^" .. pattern .. "$") then return false end
  end
  return true
end

-- The handler for a request that the routes could not settle at once, and its route's id.
local function look_closer(app, req)
  local method = req.method
  local allowed, found = {}, false
  local fallback, fallback_id
  -- The target `*`, or a bare `http://host`, which means the same (RFC 9112 section 3.2.4).
  if head.raw_path(req) == "*" then
    for _, entry in pairs(app.entries) do
      if entry.method ~= "" then allowed[entry.method] = true end
    end
    return options_handler(allowed)
  end
  for _, id in ipairs(head.matches(req, app.routes)) do
    if id == 0 then
      -- Less specific patterns follow.
      if fallback then return fallback, fallback_id end
    elseif satisfies(app.routes, req, id) then
      local entry = app.entries[id]
      if entry.method == method then return entry.handler, id end
      local serves = entry.method == "" and method ~= "CONNECT"
        or method == "HEAD" and entry.method == "GET"
      if serves and not fallback then fallback, fallback_id = entry.handler, id end
      if entry.method ~= "" then allowed[entry.method] = true end
      found = true
    end
  end
  local chain = mounting.chain_at(app, req, satisfies) or NO_CHAIN
  local handler
  if not found then
    handler = mounting.not_found(chain) or app.not_found_handler or not_found
  elseif method == "OPTIONS" then
    handler = options_handler(allowed)
  else
    handler = not_allowed_handler(allowed, mounting.not_found(chain))
  end
  return mounting.around(chain, handler)
end

-- `find_handler(app, req)` → handler, and its route's id unless the handler is one of the server's own. What
-- goes wrong in here, since a constraint can, is the handler's to raise.
return function(app, req)
  local ok, handler, id = pcall(look_closer, app, req)
  if ok then return handler, id end
  return function() error(handler, 0) end
end
