-- Where a request is among mounted apps: each of them that handles it has a scope, in which `req.path` and other fields
-- are relative to its prefix. Called by web/mount.lua, web/middleware.lua and web/handler_error.lua.
--
-- Invariant: leaving a scope gives the request the values that it had when the scope was entered.

local percent_decode <const> = require "lio.http.percent_decode"

local M = {}

-- The key of a request's innermost scope.
local SCOPE <const> = {}

-- Returns the first `count` segments of a path, and the rest, which begins with a slash.
local function split(path, count)
  local at = 1
  for _ = 1, count do at = path:find("/", at + 1, true) or #path + 1 end
  local rest = path:sub(at)
  return path:sub(1, at - 1), rest == "" and "/" or rest
end

-- `enter(mount, req)`: the request enters a mounted app. Returns the scope, for `leave`.
function M.enter(mount, req)
  local scope = {
    mount = mount,
    outer = req[SCOPE],
    path = req.path,
    raw_path = req.raw_path,
    base = req.base,
  }
  local raw_base, raw_rest = split(scope.raw_path, mount.segments)
  req.original_path = req.original_path
  req.path = percent_decode(raw_rest)
  req.raw_path = raw_rest
  req.base = scope.base .. percent_decode(raw_base)
  req[SCOPE] = scope
  return scope
end

-- `leave(req, scope)`: the request leaves the innermost scope.
local function leave(req, scope)
  req.path = scope.path
  req.raw_path = scope.raw_path
  req.base = scope.base
  req[SCOPE] = scope.outer
end
M.leave = leave

-- `leave_to(req, scope)`: the request leaves the scopes that were entered within `scope`; nil: all of them.
function M.leave_to(req, scope)
  local current = req[SCOPE]
  while current and current ~= scope do
    leave(req, current)
    current = current.outer
  end
end

-- `place(req)` returns where the request is, for `restore`; nil outside of mounted apps.
function M.place(req)
  local scope = req[SCOPE]
  return scope and { scope = scope, path = req.path, raw_path = req.raw_path, base = req.base }
end

-- `restore(req, place)`: puts a request back to where it was.
function M.restore(req, place)
  if not place then return end
  req.path, req.raw_path, req.base, req[SCOPE] = place.path, place.raw_path, place.base, place.scope
end

-- `error_handler(app, req)` returns the `on_error` of the innermost app that handles the request and has one, or nil.
-- The request leaves the scopes of the apps that have none.
function M.error_handler(app, req)
  local scope = req[SCOPE]
  while scope do
    local handler = scope.mount.app.error_handler
    if handler then return handler end
    leave(req, scope)
    scope = scope.outer
  end
  return app.error_handler
end

return M
