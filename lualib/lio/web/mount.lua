-- Apps below a prefix of another app: `app:mount(prefix, other)`.
--
-- The routes of a mounted app are also routes of the app above, with the prefix before them, so one look-up
-- finds them and 404, 405 and OPTIONS see them all. What runs for one of them is wrapped: it makes
-- `req.path` relative, and runs the middleware of the mounted app. Called by webserver.lua,
-- web/routing.lua and web/app_server.lua.

local http = require "lio.http"
local misuse = require "lio.misuse"
local wrap <const> = require("lio.web.middleware").wrap
local frames <const> = require "lio.web.mount_scope"

local enter <const>, leave <const> = frames.enter, frames.leave

local M = {}

-- The name of the tail in the patterns that tell what lies below a prefix; no route can have it.
local REST <const> = "lio_below"

-- A handler as it runs below a mount. An error leaves the request inside, so that `error_handler` finds the
-- mounted app.
local function inside(mount, handler)
  local app = mount.app
  return function(req, res)
    local frame = enter(mount, req)
    local run = handler
    if app.wrappers[1] then run = wrap(app, req, res, handler, frame) end
    local a, b, c = run(req, res)
    leave(req, frame)
    return a, b, c
  end
end

-- Adds a route of a mounted app to the app above. Its `/` is the prefix with a slash behind it as without, and
-- so is an empty tail.
local function carry(mount, entry, call)
  local handler = inside(mount, entry.handler)
  mount.above:add_entry(entry.method, mount.prefix .. entry.pattern, handler, call, entry.origin)
  if mount.prefix == "" then return end
  local tail = entry.pattern:match "^/%*([%w_]+)$"
  if entry.pattern ~= "/" and not tail then return end
  mount.above:add_entry(entry.method, mount.prefix, not tail and handler or function(req, res)
    req.params[tail] = ""
    return handler(req, res)
  end, call, entry.origin)
end

-- Whether `app` is `other` or mounted somewhere in it.
local function holds(other, app)
  if app == other then return true end
  for _, mount in ipairs(other.mounts) do
    if holds(mount.app, app) then return true end
  end
  return false
end

-- Lets an app, and those above it, know the mounts on the way to what lies below a prefix. Of two at one
-- prefix the first counts.
local function declare(app, prefix, chain)
  app.below = app.below or { routes = http.routes(), chains = {}, declared = {} }
  local below = app.below
  table.insert(below.declared, { prefix = prefix, chain = chain })
  local patterns = { prefix .. "/*" .. REST }
  if prefix ~= "" then patterns[2] = prefix end
  for _, pattern in ipairs(patterns) do
    local ok, id = pcall(below.routes.add, below.routes, "", pattern)
    if ok then
      below.chains[id] = chain
    elseif not id:find "already$" then
      misuse.raise("app:mount: " .. id)
    end
  end
  for _, mount in ipairs(app.mounted_in) do
    declare(mount.above, mount.prefix .. prefix, { mount, table.unpack(chain) })
  end
end

-- `mount(app, prefix, other)`.
function M.mount(app, prefix, other)
  if holds(other, app) then misuse.raise "app:mount: an app cannot be mounted in itself" end
  local _, segments = prefix:gsub("/", "")
  local mount = { above = app, app = other, prefix = prefix, segments = segments }
  declare(app, prefix, { mount })
  for _, one in ipairs(other.below and other.below.declared or {}) do
    declare(app, prefix .. one.prefix, { mount, table.unpack(one.chain) })
  end
  for _, entry in ipairs(other.listed) do carry(mount, entry, "mount") end
  table.insert(app.mounts, mount)
  table.insert(other.mounted_in, mount)
end

-- A new route of an app, added by `call`, goes to the apps that it is mounted in.
function M.spread(app, entry, call)
  for _, mount in ipairs(app.mounted_in) do carry(mount, entry, call) end
end

-- The mounts, outermost first, that lead to where a path lies, or nil. `satisfies(routes, req, id)` tells
-- whether the constraints of a prefix hold.
function M.chain_at(app, req, satisfies)
  local below = app.below
  if not below then return nil end
  for _, id in ipairs(http.head.matches(req, below.routes)) do
    if id ~= 0 and satisfies(below.routes, req, id) then return below.chains[id] end
  end
end

-- The `not_found` of the innermost app that has one.
function M.not_found(chain)
  for index = #chain, 1, -1 do
    local handler = chain[index].app.not_found_handler
    if handler then return handler end
  end
end

-- A handler as it runs below all mounts of a chain.
function M.around(chain, handler)
  for index = #chain, 1, -1 do handler = inside(chain[index], handler) end
  return handler
end

return M
