-- `require "bee.select"`: lio's selector with bee's methods. Unlike lio's own methods, `wait` takes milliseconds,
-- `event_add` replaces an existing registration, `event_del` always returns true, and a closed selector may be used
-- again.

local lio = require "lio"
local misuse = require "lio.misuse"
local object = require "bee.object"

local dressed = object("bee.select", {
  event_add = "_select_add",
  event_mod = "_select_mod",
  event_del = "_select_del",
  wait = "_select_wait",
  close = "close",
})

local M = {
  SELECT_READ = lio.SELECT_READ,
  SELECT_WRITE = lio.SELECT_WRITE,
}

-- `select.create([max_events])` returns a selector, or nil, message, code.
function M.create(max_events)
  local ok, selector, message, code = pcall(lio.create, max_events)
  if not ok then misuse.relay("create", selector) end
  if not selector then return nil, message, code end
  return dressed(selector)
end

return M
