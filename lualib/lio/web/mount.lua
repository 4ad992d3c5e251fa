-- Mounts apps below a prefix of another app: `app:mount(prefix, other)`. Called by webserver.lua and web/routing.lua.
--
-- The routes of a mounted app are also routes of the outer app, with the prefix before them, so one search finds them,
-- and 404, 405 and OPTIONS take all of them into account. The handler of each of these routes is wrapped: the wrapper
-- makes `req.path` relative, and runs the middleware of the mounted app.

local http = require "lio.http"
local misuse = require "lio.misuse"
local wrap <const> = require("lio.web.middleware").wrap
local mount_scopes <const> = require "lio.web.mount_scope"

local enter <const>, leave <const> = mount_scopes.enter, mount_scopes.leave

local M = {}

-- The name of the tail in the patterns for the paths below a prefix. A prefix must not use it for a parameter.
local REST <const> = "lio_below"

-- Wraps a handler of a mounted app. If the handler raises, the request does not leave the scope, so that the `on_error`
-- of the mounted app is found.
local function inside(mount, handler)
  local app = mount.app
  return function(req, res)
    local scope = enter(mount, req)
    local run = handler
    if app.wrappers[1] then run = wrap(app, req, res, handler, scope) end
    local a, b, c = run(req, res)
    leave(req, scope)
    return a, b, c
  end
end

-- Adds a route of a mounted app to the outer app. The prefix without a slash matches the mounted app's `/`, and also
-- its `/*tail`, with an empty tail.
local function add_to_outer(mount, entry, call)
  local handler = inside(mount, entry.handler)
  mount.outer:add_entry(entry.method, mount.prefix .. entry.pattern, handler, call, entry.origin)
  if mount.prefix == "" then return end
  local tail = entry.pattern:match "^/%*([%w_]+)$"
  if entry.pattern ~= "/" and not tail then return end
  mount.outer:add_entry(entry.method, mount.prefix, not tail and handler or function(req, res)
    req.params[tail] = ""
    return handler(req, res)
  end, call, entry.origin)
end

-- Reports whether `app` is `other`, or is mounted in `other` directly or through other apps.
local function contains(other, app)
  if app == other then return true end
  for _, mount in ipairs(other.mounts) do
    if contains(mount.app, app) then return true end
  end
  return false
end

-- Registers `chain`, the mounts that lead to a prefix, with an app and with the apps that it is mounted in. If two apps
-- are mounted at the same prefix, the first mount is used.
local function declare(app, prefix, chain)
  app.below = app.below or { routes = http.routes(), chains = {}, declared = {} }
  local below = app.below
  table.insert(below.declared, { prefix = prefix, chain = chain })
  local patterns = { prefix .. "/*" .. REST }
  if prefix ~= "" then patterns[2] = prefix end
  for _, pattern in ipairs(patterns) do
    local ok, id = pcall(below.routes.id, below.routes, "", pattern)
    if not ok then misuse.raise("app:mount: " .. id) end
    if not id then below.chains[below.routes:add("", pattern)] = chain end
  end
  for _, mount in ipairs(app.mounted_in) do
    declare(mount.outer, mount.prefix .. prefix, { mount, table.unpack(chain) })
  end
end

-- `mount(app, prefix, other)`: mounts `other` in `app`.
function M.mount(app, prefix, other)
  if contains(other, app) then misuse.raise "app:mount: an app cannot be mounted in itself" end
  local _, segments = prefix:gsub("/", "")
  local mount = { outer = app, app = other, prefix = prefix, segments = segments }
  declare(app, prefix, { mount })
  for _, below in ipairs(other.below and other.below.declared or {}) do
    declare(app, prefix .. below.prefix, { mount, table.unpack(below.chain) })
  end
  for _, entry in ipairs(other.listed) do add_to_outer(mount, entry, "mount") end
  table.insert(app.mounts, mount)
  table.insert(other.mounted_in, mount)
end

-- `spread(app, entry, call)`: adds a new route of an app to the apps that it is mounted in. `call` is the name of the
-- method that added the route.
function M.spread(app, entry, call)
  for _, mount in ipairs(app.mounted_in) do add_to_outer(mount, entry, call) end
end

-- `chain_at(app, req, satisfies)` returns the mounts that lead to the request's path, the outermost first, or nil.
-- `satisfies(routes, req, id)` returns whether the request satisfies the constraints of a prefix.
function M.chain_at(app, req, satisfies)
  local below = app.below
  if not below then return nil end
  for _, id in ipairs(http.head.matches(req, below.routes)) do
    if id ~= 0 and satisfies(below.routes, req, id) then return below.chains[id] end
  end
end

-- `not_found(chain)` returns the `not_found` of the innermost app that has one, or nil.
function M.not_found(chain)
  for index = #chain, 1, -1 do
    local handler = chain[index].app.not_found_handler
    if handler then return handler end
  end
end

-- `around(chain, handler)` returns `handler` wrapped for all mounts of a chain.
function M.around(chain, handler)
  for index = #chain, 1, -1 do handler = inside(chain[index], handler) end
  return handler
end

return M
