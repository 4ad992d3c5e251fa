-- `percent_decode(text)` returns the text with `%xx` replaced by the bytes (RFC 3986 section 2.1); a `%` without two
-- digits stays. For URLs of the client, and for paths below a mounted app.

local function byte_of(digits) return string.char(tonumber(digits, 16)) end

return function(text)
  return (text:gsub("%%(%x%x)", byte_of))
end
