-- The options of `net.connect`, here and in a service without a loop (`lio.net.remote`).

local misuse = require "lio.misuse"
local options = require "lio.options"

local RULES <const> = {
  timeout = options.seconds,
  attempt = options.rule("a result of net.attempt", function(value) return misuse.is_kind(value, "attempt") end),
}

-- Returns the checked options. The family of an address is ignored, so that the results of `listener:address()` can be
-- passed on.
return function(opts)
  if opts == "inet" or opts == "inet6" then opts = nil end
  return options.check("net.connect", 3, opts, RULES)
end
