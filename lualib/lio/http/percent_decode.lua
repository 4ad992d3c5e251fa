-- `percent_decode(text)` returns the text with each `%xx` replaced by its byte (RFC 3986 section 2.1); a `%` without
-- two hexadecimal digits is kept. Used for URLs of the client, and for paths in mounted apps.

local function byte_of(digits) return string.char(tonumber(digits, 16)) end

return function(text)
  return (text:gsub("%%(%x%x)", byte_of))
end
