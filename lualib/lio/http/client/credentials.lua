-- The credentials of HTTP authentication (RFC 7617), for servers and proxies. Part of `lio.http.client`.

local base64 <const> = require("lio.crypto.core").base64_encode

-- `credentials(user, password)` returns the value of Authorization or Proxy-Authorization.
return function(user, password)
  return "Basic " .. base64(user .. ":" .. (password or ""))
end
