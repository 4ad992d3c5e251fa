-- The settings of an app, which are the options of `web.new`: limits in bytes, counts and seconds. Called by
-- webserver.lua; the native server reads them.

local options = require "lio.options"

local M = {}

M.defaults = {
  request_line = 8 * 1024,
  headers = 32 * 1024,
  fields = 100,
  body = 8 * 1024 * 1024,
  header_time = 10, -- from a head's first byte to its blank line
  keep_alive_time = 60, -- without a request
  body_time = 10, -- before the minimum rate applies, and without a byte
  body_rate = 240, -- the minimum rate of a body, in bytes per second
  write_time = 30, -- without progress in sending
  connections = 10000,
  requests = math.huge, -- per connection
  grace = 10, -- for a graceful stop
  debug = false, -- error pages with traceback
}

-- The upper bound of `fields` is the size of the parser's table.
local OPTIONS <const> = {
  request_line = options.whole(1, 1 << 30),
  headers = options.whole(1, 1 << 30),
  fields = options.whole(1, 256),
  body = options.limit,
  header_time = options.seconds_from_0,
  keep_alive_time = options.seconds_from_0,
  body_time = options.seconds_from_0,
  body_rate = options.number(0),
  write_time = options.seconds_from_0,
  connections = options.number(1),
  requests = options.number(1),
  grace = options.seconds_from_0,
  debug = options.boolean,
}

-- The settings that the native server needs as integers.
local INTEGERS <const> = { "request_line", "headers", "fields", "body" }

-- `new(opts)` returns the settings for the options of `web.new`.
function M.new(opts)
  local settings = {}
  for name, value in pairs(M.defaults) do settings[name] = value end
  for name, value in pairs(options.check("web.new", 1, opts, OPTIONS)) do
    settings[name] = value
  end
  for _, name in ipairs(INTEGERS) do settings[name] = options.to_integer(settings[name]) end
  return settings
end

return M
