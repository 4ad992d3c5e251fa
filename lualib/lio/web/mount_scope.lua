-- The scopes of a request in mounted apps. Each mounted app that handles the request has a scope, in which `req.path`
-- and other fields are relative to the app's prefix. Called by web/mount.lua, web/middleware.lua and
-- web/handler_error.lua.
--
-- Invariant: leaving a scope restores the fields that the request had when it entered the scope.

local percent_decode <const> = require "lio.http.percent_decode"

local M = {}

-- The request field that contains the request's innermost scope.
local SCOPE <const> = {}

-- Returns the first `count` segments of a path, and the remaining path, which begins with a slash.
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

-- `leave_to(req, scope)`: the request leaves all scopes that are inside `scope`; if `scope` is nil, it leaves all
-- scopes.
function M.leave_to(req, scope)
  local current = req[SCOPE]
  while current and current ~= scope do
    leave(req, current)
    current = current.outer
  end
end

-- `place(req)` returns the request's scope and its relative fields, for `restore`; nil outside of mounted apps.
function M.place(req)
  local scope = req[SCOPE]
  return scope and { scope = scope, path = req.path, raw_path = req.raw_path, base = req.base }
end

-- `restore(req, place)`: sets the scope and the fields that `place` returned.
function M.restore(req, place)
  if not place then return end
  req.path, req.raw_path, req.base, req[SCOPE] = place.path, place.raw_path, place.base, place.scope
end

-- `error_handler(app, req)` returns the `on_error` of the innermost app that handles the request and has an `on_error`;
-- nil if no app has one. The request leaves the scopes of the apps that are mounted inside that app.
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
