-- Where a request is among mounted apps: each that works on it has a frame, in which `req.path` and others are
-- relative to its prefix. Called by web/mount.lua, web/middleware.lua and web/handler_error.lua.
--
-- Invariant: leaving a frame gives the request the values that it had when the frame was entered.

local M = {}

-- Where a request keeps the frame of the innermost mounted app that works on it.
local FRAME <const> = {}

local function decode(raw)
  return (raw:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

-- The first `count` segments of a path, and the rest, which begins with a slash.
local function split(path, count)
  local at = 1
  for _ = 1, count do at = path:find("/", at + 1, true) or #path + 1 end
  local rest = path:sub(at)
  return path:sub(1, at - 1), rest == "" and "/" or rest
end

-- Enters a mounted app. → what `leave` needs.
function M.enter(mount, req)
  local frame = {
    mount = mount,
    above = req[FRAME],
    path = req.path,
    raw_path = req.raw_path,
    base = req.base,
  }
  local raw_base, raw_rest = split(frame.raw_path, mount.segments)
  req.original_path = req.original_path
  req.path = decode(raw_rest)
  req.raw_path = raw_rest
  req.base = frame.base .. decode(raw_base)
  req[FRAME] = frame
  return frame
end

local function leave(req, frame)
  req.path = frame.path
  req.raw_path = frame.raw_path
  req.base = frame.base
  req[FRAME] = frame.above
end
M.leave = leave

-- `leave_to(req, frame)`: leaves the frames that were entered within `frame`; nil: all of them.
function M.leave_to(req, frame)
  local current = req[FRAME]
  while current and current ~= frame do
    leave(req, current)
    current = current.above
  end
end

-- `place(req)` → where the request is, for `restore`; nil outside of mounted apps.
function M.place(req)
  local frame = req[FRAME]
  return frame and { frame = frame, path = req.path, raw_path = req.raw_path, base = req.base }
end

-- Puts a request back to where `place` found it.
function M.restore(req, place)
  if not place then return end
  req.path, req.raw_path, req.base, req[FRAME] = place.path, place.raw_path, place.base, place.frame
end

-- The `on_error` of the innermost app that was at work on a request and has one. The request leaves the apps
-- that have none.
function M.error_handler(app, req)
  local frame = req[FRAME]
  while frame do
    local handler = frame.mount.app.error_handler
    if handler then return handler end
    leave(req, frame)
    frame = frame.above
  end
  return app.error_handler
end

return M
