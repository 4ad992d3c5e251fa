-- Runs the middleware of `app:use` around a handler. Called by web/dispatch.lua for the app that listens, and by
-- web/mount.lua for apps mounted in it; `req.path` is relative to the app that handles the request. webserver.lua uses
-- `next_of` for routes with several handlers.
--
-- Invariant: `next()` does not raise errors from the functions that it calls. It logs such an error and sets the
-- response to it, so the code after `next()` runs, and finds the response in `res`.

local exchanges = require "lio.web.exchange"
local handler_error = require "lio.web.handler_error"
local mount_scopes = require "lio.web.mount_scope"
local native <const> = require("lio.http").request

local catch <const> = handler_error.catch
local leave_to <const> = mount_scopes.leave_to
local xpcall <const>, error <const> = xpcall, error

local M = {}

local function is_below(path, prefix)
  if path:sub(1, #prefix) ~= prefix then return false end
  return #path == #prefix or path:sub(#prefix + 1, #prefix + 1) == "/"
end

local function run(req, res, role, f, inner)
  res:set_result_of(role, f, inner(req, res))
  res:set_refusal()
end

-- `next_of(res, role, f, inner [, scope])` returns the function `next` for one middleware: it calls `inner`, and sets
-- the results as the response. `next` may be called only once. `f` is the program's function that `inner` calls; `role`
-- describes `f` in the error for invalid results. `scope` is the mount scope of the middleware's app.
function M.next_of(res, role, f, inner, scope)
  local called = false
  return function()
    if called then error("next: called twice by one middleware", 2) end
    called = true
    -- If `inner` raises, the header fields that have been set so far are kept.
    local req = res.request
    native.save_fields(req)
    local ok, err = xpcall(run, catch, req, res, role, f, inner)
    if ok then return end
    handler_error.respond(exchanges.of(res), req, res, err, role, f)
    leave_to(req, scope)
  end
end

-- `wrap(app, req, res, handler [, scope])` returns `handler` wrapped in the app's middleware for the request's path.
-- `scope` is the app's mount scope.
function M.wrap(app, req, res, handler, scope)
  local path, next_of = req.path, M.next_of
  local role, f = "handler", nil
  local wrapped = handler
  for index = #app.wrappers, 1, -1 do
    local wrapper = app.wrappers[index]
    if is_below(path, wrapper.prefix) then
      local inner, inner_role, inner_f = wrapped, role, f
      wrapped = function()
        return wrapper.run(req, res, next_of(res, inner_role, inner_f, inner, scope))
      end
      role, f = "middleware", wrapper.run
    end
  end
  if wrapped == handler then return handler end
  return function() res:set_result_of(role, f, wrapped()) end
end

return M
