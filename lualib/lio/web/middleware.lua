-- Middleware around a handler: what `app:use` was given, in its order. Called by web/app_server.lua for the app
-- that listens, and by web/mount.lua for apps mounted in it; `req.path` is relative to the app in question.
-- webserver.lua uses `next_of` for the handlers of one route.
--
-- Invariant: `next()` does not raise what the functions inside of it raise: that is answered and logged here, so
-- the code behind `next()` runs and finds the answer in `res`.

local exchanges = require "lio.web.exchange"
local failure = require "lio.web.handler_error"
local frames = require "lio.web.mount_scope"

local caught <const> = failure.caught
local leave_to <const> = frames.leave_to
local xpcall <const>, error <const> = xpcall, error

local M = {}

local function is_below(path, prefix)
  if path:sub(1, #prefix) ~= prefix then return false end
  return #path == #prefix or path:sub(#prefix + 1, #prefix + 1) == "/"
end

local function run(req, res, what, f, inner)
  res:take_from(what, f, inner(req, res))
  res:take_refusal()
end

-- `next_of(req, res, what, f, inner [, frame])` → the `next` of one middleware: runs `inner` once and keeps its
-- answer, which `f` returned, a `what`. `frame` is that of the app which the middleware belongs to.
function M.next_of(req, res, what, f, inner, frame)
  local called = false
  return function()
    if called then error("next: called twice by one middleware", 2) end
    called = true
    -- What is set by now stays when `inner` raises.
    res[1]:keep_fields(res[2])
    local ok, problem = xpcall(run, caught, req, res, what, f, inner)
    if ok then return end
    failure.answer(exchanges.of(res), req, res, problem)
    leave_to(req, frame)
  end
end

-- `wrap(app, req, res, handler [, frame])` → `handler` with the app's middleware around it whose prefix fits.
function M.wrap(app, req, res, handler, frame)
  local path, next_of = req.path, M.next_of
  local what, f = "handler", nil
  local wrapped = handler
  for index = #app.wrappers, 1, -1 do
    local wrapper = app.wrappers[index]
    if is_below(path, wrapper.prefix) then
      local inner, inner_what, inner_f = wrapped, what, f
      wrapped = function()
        return wrapper.run(req, res, next_of(req, res, inner_what, inner_f, inner, frame))
      end
      what, f = "middleware", wrapper.run
    end
  end
  if wrapped == handler then return handler end
  return function() res:take_from(what, f, wrapped()) end
end

return M
