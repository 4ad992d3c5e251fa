-- `web.request_id`: middleware that gives each request an id: `req.id`, a field of the response, and `request_id` in
-- the lines of `web.log`.

local crypto = require "lio.crypto"
local misuse = require "lio.misuse"
local options = require "lio.options"

local OPTIONS <const> = {
  header = options.rule("the name of a header field", function(value)
    return type(value) == "string" and value:find "^[%w!#$%%&'*+%-.^_`|~]+$" ~= nil
  end),
  trust = options.either(options.boolean, options.callable),
  generate = options.callable,
}

-- An id may be written to logs and header fields, so other characters and long ids of clients are refused.
local function is_id(value)
  return type(value) == "string" and #value <= 128 and value:find "^[%w%-_.:+/=@~]+$" ~= nil
end

local function always() return true end
local function never() return false end

-- `web.request_id([options])` returns middleware. `header`: the field ("X-Request-Id"). `trust`: whether a client's id
-- is used, which is for servers behind a proxy that sets it (false); or a function that gets the request and returns
-- this. `generate`: a function that gets the request and returns a new id; by default, a random UUID.
return function(opts)
  opts = options.check("web.request_id", 1, opts, OPTIONS)
  local header = opts.header or "X-Request-Id"
  local generate = opts.generate or function() return crypto.uuid() end
  local trusts = opts.trust or never
  if trusts == true then trusts = always end
  return function(req, res, next)
    local id = req:header(header)
    if not (is_id(id) and trusts(req)) then
      id = generate(req)
      if not is_id(id) then
        error(("web.request_id: option 'generate' returned %s; an id has 1 to 128 characters out of letters, digits "
          .. "and -_.:+/=@~"):format(misuse.shown(id)), 0)
      end
    end
    req.id = id
    res:header(header, id)
    return next()
  end
end
