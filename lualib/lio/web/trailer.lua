-- `res:trailer(name, value)`: fields behind a chunked body (RFC 9112 section 7.1.2), for what is known only when the
-- body has been made. Called by web/response.lua.

local http = require "lio.http"
local misuse = require "lio.misuse"

-- RFC 9110 section 6.5.1: what a recipient needs before the body, or must not find behind it.
local FORBIDDEN <const> = {}
for name in ([[
  age authorization cache-control connection content-encoding content-length content-range content-type cookie date
  expect expires host if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive location
  max-forwards pragma proxy-authenticate proxy-authorization range retry-after set-cookie te trailer
  transfer-encoding upgrade vary warning www-authenticate]]):gmatch "%S+" do
  FORBIDDEN[name] = true
end

local M = {}

-- `add(res, name, value)`: keeps a field. Raises for one that is not allowed there, or could split the response.
function M.add(res, name, value)
  if type(value) == "number" then value = tostring(value) end
  local ok, message = pcall(http.check_field, name, value)
  if not ok then misuse.raise("res:trailer: " .. message) end
  if FORBIDDEN[name:lower()] then misuse.raise("res:trailer: '" .. name .. "' is not allowed behind a body") end
  local list = res.trailers or {}
  res.trailers = list
  list[#list + 1] = name .. ": " .. value .. "\r\n"
end

-- `text(res)` → the lines of the fields that were kept.
function M.text(res)
  return table.concat(res.trailers)
end

return M
