-- The handler for a request that the routes could not settle at once: constraints, 404, 405, OPTIONS.
-- Called by web/connection.lua; reads the app and the head, changes neither.

-- The methods a path has, for `Allow` (RFC 9110 section 10.2.1).
local function allow_text(allowed)
  if allowed.GET then allowed.HEAD = true end
  allowed.OPTIONS = true
  local names = {}
  for name in pairs(allowed) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

local function not_found()
  return 404, "Not Found\n"
end

local function options_handler(allowed)
  local text = allow_text(allowed)
  return function() return 204, nil, { Allow = text } end
end

local function not_allowed_handler(allowed)
  local text = allow_text(allowed)
  return function() return 405, "Method Not Allowed\n", { Allow = text } end
end

-- Whether a route's parameters satisfy its constraints.
local function satisfies(app, head, id)
  local constraints = app.routes:constraints(id)
  if not constraints then return true end
  local params = head:params(app.routes, id)
  for name, pattern in pairs(constraints) do
    if not (params[name] or ""):find("^" .. pattern .. "$") then return false end
  end
  return true
end

-- The handler for a request that the routes could not settle at once, and its route's id.
local function look_closer(app, head)
  local method = head:method()
  local allowed, found = {}, false
  local fallback, fallback_id
  if head:target() == "*" then
    for _, entry in pairs(app.entries) do
      if entry.method ~= "" then allowed[entry.method] = true end
    end
    return options_handler(allowed)
  end
  for _, id in ipairs(head:matches(app.routes)) do
    if id == 0 then
      -- Less specific patterns follow.
      if fallback then return fallback, fallback_id end
    elseif satisfies(app, head, id) then
      local entry = app.entries[id]
      if entry.method == method then return entry.handler, id end
      local serves = entry.method == "" and method ~= "CONNECT"
        or method == "HEAD" and entry.method == "GET"
      if serves and not fallback then fallback, fallback_id = entry.handler, id end
      if entry.method ~= "" then allowed[entry.method] = true end
      found = true
    end
  end
  if not found then return app.not_found_handler or not_found end
  if method == "OPTIONS" then return options_handler(allowed) end
  return not_allowed_handler(allowed)
end

-- `find_handler(app, head)` → handler, and its route's id unless the handler is one of the server's own. What
-- goes wrong in here, since a constraint can, is the handler's to raise.
return function(app, head)
  local ok, handler, id = pcall(look_closer, app, head)
  if ok then return handler, id end
  return function() error(handler, 0) end
end
