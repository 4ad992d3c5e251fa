-- `web.csrf`: middleware against forged requests. A page of another site can make a browser send a form with the user's
-- cookies, but it cannot read the token in the user's session.

local crypto = require "lio.crypto"
local error_page = require "lio.web.error_page"
local options = require "lio.options"

-- The methods that must not change anything (RFC 9110 section 9.2.1), so a forged request does no harm.
local SAFE <const> = { GET = true, HEAD = true, OPTIONS = true, TRACE = true }

-- The field of the session that contains the token.
local TOKEN <const> = "_csrf"

local OPTIONS <const> = {
  field = options.string,
  header = options.rule("the name of a header field", function(value)
    return type(value) == "string" and value:find "^[%w!#$%%&'*+%-.^_`|~]+$" ~= nil
  end),
}

-- Returns the token of a form; nil if there is none. If the form cannot be read, returns nil, a reason and a status.
local function token_of_form(req, field)
  local media = (req:header "content-type" or ""):match("^%s*([^;%s]*)"):lower()
  if media ~= "application/x-www-form-urlencoded" and media ~= "multipart/form-data" then return nil end
  local fields, reason, status = req:form()
  if not fields then return nil, reason, status end
  return fields[field]
end

-- `web.csrf([options])` returns middleware, which needs `web.sessions` before it. A request with a method other than
-- GET, HEAD, OPTIONS and TRACE gets 403, unless it contains the token of its session: in the header field `header`
-- ("X-CSRF-Token"), or in the field `field` ("_csrf") of a form. `req.csrf_token()` returns the token.
return function(opts)
  opts = options.check("web.csrf", 1, opts, OPTIONS)
  local field, header = opts.field or "_csrf", opts.header or "X-CSRF-Token"
  return function(req, _, next)
    local session = req.session
    if not session then
      error("web.csrf: the request has no session; call app:use(web.sessions { … }) before app:use(web.csrf())", 0)
    end
    -- The token is made when it is first needed, so visitors that get no form get no session either.
    req.csrf_token = function()
      if not session[TOKEN] then session[TOKEN] = crypto.random(32, "base64url") end
      return session[TOKEN]
    end
    if SAFE[req.method] then return next() end
    local expected = session[TOKEN]
    local sent, reason, status = req:header(header), nil, nil
    if not sent then sent, reason, status = token_of_form(req, field) end
    if status then return status, reason .. "\n" end
    local is_right = type(expected) == "string" and type(sent) == "string" and crypto.equal(expected, sent)
    if not is_right then return error_page.for_status(req, 403) end
    return next()
  end
end
