---@meta md5
-- Definitions of `md5` for the Lua language server. docs/build.lua generates docs/api/md5.md from them.

---The MD5 functions that skynet contains. New programs use `lio.crypto`.
---@class md5
local md5 = {}

---Returns the MD5 of a text.
---@param text string
---@return string hash 16 bytes
function md5.sum(text) end

---Returns the MD5 of a text as hexadecimal digits.
---@param text string
---@return string digits 32 digits in lower case
function md5.sumhexa(text) end

---Returns the exclusive or of two strings. Raises if their lengths are different.
---@param a string
---@param b string
---@return string bytes
function md5.exor(a, b) end

---Returns the HMAC (RFC 2104) of a text with MD5 as hexadecimal digits.
---@param text string
---@param key string
---@return string digits 32 digits in lower case
function md5.hmacmd5(text, key) end

return md5
