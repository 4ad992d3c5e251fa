-- The fingerprint of a certificate, as browsers and `openssl x509 -fingerprint -sha256` show it. Used by the commands
-- `lio cert` and `lio serve --tls`.

local crypto = require "lio.crypto"

-- `fingerprint(pem)` returns the SHA-256 digest of the first certificate in a text in PEM: upper-case hexadecimal
-- digits, with a colon after each byte.
return function(pem)
  local base64 = pem:match "%-%-%-%-%-BEGIN CERTIFICATE%-%-%-%-%-(.-)%-%-%-%-%-END"
  local der = assert(crypto.base64_decode((base64:gsub("%s+", ""))))
  return (crypto.sha256(der, "hex"):upper():gsub("%x%x", "%0:"):sub(1, -2))
end
