-- `trailer(name, value)` returns the line of a trailer field (RFC 9112 section 7.1.2), for `res:trailer`. Called by
-- web/response.lua. Raises for a field that is not allowed in trailers, and for bytes that could split the response.

local http = require "lio.http"
local misuse = require "lio.misuse"

-- RFC 9110 section 6.5.1: fields that a recipient needs before the body, or that must not follow it.
local FORBIDDEN <const> = {}
for name in ([[
  age authorization cache-control connection content-encoding content-length content-range content-type cookie date
  expect expires host if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive location
  max-forwards pragma proxy-authenticate proxy-authorization range retry-after set-cookie te trailer
  transfer-encoding upgrade vary warning www-authenticate]]):gmatch "%S+" do
  FORBIDDEN[name] = true
end

return function(name, value)
  if type(value) == "number" then value = tostring(value) end
  local ok, message = pcall(http.check_field, name, value)
  if not ok then misuse.raise("res:trailer: " .. message) end
  if FORBIDDEN[name:lower()] then misuse.raise("res:trailer: '" .. name .. "' is not allowed after a body") end
  return name .. ": " .. value .. "\r\n"
end
