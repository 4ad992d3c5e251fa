-- Checks the options of `net.connect`. Services without a loop (`lio.net.remote`) use this file as well.

local misuse = require "lio.misuse"
local options = require "lio.options"

local RULES <const> = {
  timeout = options.seconds,
  tls = options.any,
  attempt = options.rule("a result of net.attempt", function(value) return misuse.is_kind(value, "attempt") end),
}

-- Returns the checked options. Ignores an address family in place of the options, so that a program can pass the
-- results of `listener:address()` to `connect`.
return function(opts)
  if opts == "inet" or opts == "inet6" then opts = nil end
  return options.check("net.connect", 3, opts, RULES)
end
