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

local describe <const> = require("lio.web.handler_result").describe
local existing_exchange <const> = exchanges.existing
local on_one_line <const> = require("lio.web.error_text").on_one_line

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

-- `next_of(res, role, f, inner [, scope])` returns the function `next` for one middleware, and a function that returns
-- whether `next` was called. `next` calls `inner`, and sets the results as the response. It may be called only once.
-- `f` is the program's function that `inner` calls; `role` describes `f` in the error for invalid results. `scope` is
-- the mount scope of the middleware's app.
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
  end, function() return called end
end

-- Writes a warning if middleware has neither called `next` nor set a response: probably, the program has forgotten one
-- of them. `a` is the first result of the middleware `f`.
local function warn_of_silence(req, res, f, was_called, a)
  if a ~= nil or was_called() or res.code or res.body ~= nil or res.framing then return end
  local exchange = existing_exchange(res)
  if exchange and (exchange.taken_over or exchange.aborted or exchange.refusal or exchange.file) then return end
  io.stderr:write(("lio: warning: %s %s: %s has neither called next() nor set a response, so the response is empty\n")
    :format(req.method, on_one_line(req.target), describe(res, "middleware", f)))
end

-- Runs middleware in an app with the option `debug`.
local function run_checked(req, res, f, next, was_called)
  local results = table.pack(f(req, res, next))
  warn_of_silence(req, res, f, was_called, results[1])
  return table.unpack(results, 1, results.n)
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
        local next, was_called = next_of(res, inner_role, inner_f, inner, scope)
        if not app.settings.debug then return wrapper.run(req, res, next) end
        return run_checked(req, res, wrapper.run, next, was_called)
      end
      role, f = "middleware", wrapper.run
    end
  end
  if wrapped == handler then return handler end
  return function() res:set_result_of(role, f, wrapped()) end
end

return M
