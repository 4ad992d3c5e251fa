-- The values of session cookies, which clients cannot change: signed (HMAC-SHA256) or encrypted (XChaCha20-Poly1305).
-- Part of `web.sessions`. The name of the cookie is authenticated too, so that a value is not valid in another cookie.

local crypto = require "lio.crypto"

local M = {}

local Signed = {}
Signed.__index = Signed
local Encrypted = {}
Encrypted.__index = Encrypted

-- `new(name, secrets, is_encrypted)` returns an object that seals with the first secret, and opens with each of them.
function M.new(name, secrets, is_encrypted)
  local keys = {}
  -- Each use of a secret has its own key.
  local purpose = is_encrypted and "lio.web.sessions: encryption" or "lio.web.sessions: signature"
  for index, secret in ipairs(secrets) do keys[index] = crypto.hmac("sha256", secret, purpose) end
  return setmetatable({ name = name, keys = keys }, is_encrypted and Encrypted or Signed)
end

local function signature(self, key, body)
  return crypto.hmac("sha256", key, self.name .. "=" .. body, "base64url")
end

-- `seal(text)` returns the value of the cookie for a text.
function Signed:seal(text)
  local body = crypto.base64url_encode(text)
  return body .. "." .. signature(self, self.keys[1], body)
end

-- `open(value)` returns the text of a cookie's value; nil if this program has not sealed it.
function Signed:open(value)
  local body, signed = value:match "^([%w_-]*)%.([%w_-]*)$"
  if not body then return nil end
  for _, key in ipairs(self.keys) do
    if crypto.equal(signature(self, key, body), signed) then return (crypto.base64url_decode(body)) end
  end
end

function Encrypted:seal(text)
  return crypto.base64url_encode(crypto.encrypt(self.keys[1], text, self.name))
end

function Encrypted:open(value)
  local sealed = crypto.base64url_decode(value)
  if not sealed then return nil end
  for _, key in ipairs(self.keys) do
    local text = crypto.decrypt(key, sealed, self.name)
    if text then return text end
  end
end

return M
