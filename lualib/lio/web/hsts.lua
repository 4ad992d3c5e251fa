-- `web.hsts`: middleware that makes browsers use only HTTPS for this host (HTTP Strict Transport Security, RFC 6797).

local misuse = require "lio.misuse"
local options = require "lio.options"

local YEAR <const> = 365 * 24 * 3600

local OPTIONS <const> = {
  max_age = options.integer(0),
  include_subdomains = options.boolean,
  preload = options.boolean,
}

-- `web.hsts([options])` returns middleware. It sets `Strict-Transport-Security` in the responses to requests over TLS
-- (`req.is_tls`); browsers ignore the field in other responses (RFC 6797 section 8.1). `max_age`: for how many seconds
-- a browser uses only HTTPS (31536000, a year; 0: it forgets the host). `include_subdomains`: whether this applies to
-- all hosts below this one. `preload`: whether the host may be included in the lists that browsers contain; those lists
-- require the other two options.
return function(opts)
  opts = options.check("web.hsts", 1, opts, OPTIONS)
  local max_age <const> = opts.max_age or YEAR
  if opts.preload and not (opts.include_subdomains and max_age >= YEAR) then
    misuse.raise("web.hsts: option 'preload' needs include_subdomains = true and a max_age of at least " .. YEAR)
  end
  local value <const> = "max-age=" .. max_age .. (opts.include_subdomains and "; includeSubDomains" or "")
    .. (opts.preload and "; preload" or "")
  return function(req, res, next)
    if req.is_tls then res:header("Strict-Transport-Security", value) end
    return next()
  end
end
