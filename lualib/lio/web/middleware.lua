-- Middleware around a handler: what `app:use` was given, in its order. Called by web/connection.lua for the app
-- that listens, and by web/mount.lua for apps mounted in it; `req.path` is relative to the app in question.

local function is_below(path, prefix)
  if path:sub(1, #prefix) ~= prefix then return false end
  return #path == #prefix or path:sub(#prefix + 1, #prefix + 1) == "/"
end

-- Wraps the middleware whose prefix fits around a handler.
local function wrap(app, req, res, handler)
  local path = req.path
  for index = #app.wrappers, 1, -1 do
    local wrapper = app.wrappers[index]
    if is_below(path, wrapper.prefix) then
      local inner = handler
      handler = function()
        local called = false
        return wrapper.run(req, res, function()
          if called then error("next: called twice by one middleware", 2) end
          called = true
          res:take(inner(req, res))
        end)
      end
    end
  end
  return handler
end

return wrap
