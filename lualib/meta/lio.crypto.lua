---@meta lio.crypto
-- Definitions of `lio.crypto` for the Lua language server. docs/build.lua generates docs/api/lio.crypto.md from them.

---Digests, HMAC, encryption, random bytes, password hashes, and texts that represent bytes. Strings are sequences of
---bytes. A digest is returned as bytes, unless an encoding is given. Data that cannot be decoded is a failure: `nil,
---message, code`. Only `password_hash` and `password_verify` wait.
---@class lio.crypto
local crypto = {}

---@alias lio.DigestName "sha256"|"sha384"|"sha512"|"sha224"|"sha1"|"md5"

---How a result is represented: as bytes, as lower-case hexadecimal digits, as base64 with padding, or as base64url
---without padding.
---@alias lio.BytesEncoding "raw"|"hex"|"base64"|"base64url"

---Returns the SHA-256 digest of `data` (FIPS 180-4).
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest 32 bytes
function crypto.sha256(data, encoding) end

---Returns the SHA-384 digest of `data` (FIPS 180-4).
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest 48 bytes
function crypto.sha384(data, encoding) end

---Returns the SHA-512 digest of `data` (FIPS 180-4).
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest 64 bytes
function crypto.sha512(data, encoding) end

---Returns the SHA-224 digest of `data` (FIPS 180-4).
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest 28 bytes
function crypto.sha224(data, encoding) end

---Returns the SHA-1 digest of `data` (FIPS 180-4). For old protocols only: SHA-1 does not resist forgery.
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest 20 bytes
function crypto.sha1(data, encoding) end

---Returns the MD5 digest of `data` (RFC 1321). For old protocols only: MD5 does not resist forgery.
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest 16 bytes
function crypto.md5(data, encoding) end

---Returns the HMAC of `data` (RFC 2104). Without the key, it cannot be computed.
---@param algorithm lio.DigestName
---@param key string of any length
---@param data string
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string mac as long as the digest of the algorithm
function crypto.hmac(algorithm, key, data, encoding) end

---Creates an object that computes a digest of data that arrives in pieces; with a key, an HMAC.
---@param algorithm lio.DigestName
---@param key? string of any length
---@return lio.Hash hash
function crypto.hash(algorithm, key) end

---Returns whether two strings are equal. The time does not depend on their contents, only on their lengths. Use it to
---compare a secret, such as a token or an HMAC, with data of a client.
---@param a string
---@param b string
---@return boolean
function crypto.equal(a, b) end

---Returns unpredictable random bytes of the operating system. Raises if the system has none.
---@param n integer number of bytes, 0 to 16777216
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string bytes
function crypto.random(n, encoding) end

---Returns a new UUID (RFC 9562) in lower case. Version 4 is random. Version 7 begins with the time in milliseconds, so
---that UUIDs are ordered by their time.
---@param version? 4|7 default `4`
---@return string uuid 36 characters
function crypto.uuid(version) end

---Encrypts `data`, and protects it against changes (XChaCha20-Poly1305 with a random nonce).
---@param key string 32 bytes, such as `crypto.random(32)`
---@param data string
---@param context? string is protected against changes, but is not a part of the result; default `""`
---@return string encrypted 40 bytes longer than `data`
function crypto.encrypt(key, data, context) end

---Decrypts a result of `encrypt`.
---@param key string 32 bytes
---@param encrypted string
---@param context? string must be that of `encrypt`; default `""`
---@return string? data
---@return string? message
---@return string? code `"corrupt"`: the key or the context is wrong, or the data was changed
function crypto.decrypt(key, encrypted, context) end

---Returns bytes as lower-case hexadecimal digits.
---@param data string
---@return string text
function crypto.hex_encode(data) end

---Returns the bytes that hexadecimal digits represent.
---@param text string digits in lower or upper case
---@return string? data
---@return string? message
---@return string? code `"invalid"`
function crypto.hex_decode(text) end

---Returns bytes as base64 with padding (RFC 4648 section 4).
---@param data string
---@return string text
function crypto.base64_encode(data) end

---Returns the bytes that a base64 text represents.
---@param text string with or without padding; without other characters, such as line ends
---@return string? data
---@return string? message
---@return string? code `"invalid"`
function crypto.base64_decode(text) end

---Returns bytes as base64url without padding (RFC 4648 section 5): for URLs, cookies and file names.
---@param data string
---@return string text
function crypto.base64url_encode(data) end

---Returns the bytes that a base64url text represents.
---@param text string with or without padding; without other characters, such as line ends
---@return string? data
---@return string? message
---@return string? code `"invalid"`
function crypto.base64url_decode(text) end

---@class lio.PasswordOptions
---@field memory? integer KiB, 8 to 4194304, at least 8 times `parallelism`; default `19456`
---@field iterations? integer 1 to 65536; default `2`
---@field parallelism? integer number of lanes, 1 to 255; default `1`

---Hashes a password with Argon2id (RFC 9106) and a random salt. Waits: another thread hashes the password, and other
---tasks run meanwhile. Outside tasks, the call blocks the thread.
---@param password string
---@param options? lio.PasswordOptions
---@return string? hash a PHC string, which contains the salt and the options
---@return string? message
---@return string? code `"busy"`: 1000 passwords are waiting to be hashed; `"ENOMEM"`
function crypto.password_hash(password, options) end

---Compares a password with a hash of Argon2. Waits, like `password_hash`.
---@param password string
---@param hash string
---@return boolean? is_right
---@return string? message
---@return string? code `"invalid"`: `hash` is not a hash of Argon2; or a code of `password_hash`
function crypto.password_verify(password, hash) end

---Returns whether `password_hash` with these options would use other parameters than those of `hash`. Does not wait.
---@param hash string
---@param options? lio.PasswordOptions
---@return boolean? needs_rehash
---@return string? message
---@return string? code `"invalid"`: `hash` is not a hash of Argon2
function crypto.password_needs_rehash(hash, options) end

---Computes a digest of data that arrives in pieces.
---@class lio.Hash
local Hash = {}

---Adds bytes.
---@param data string
---@return lio.Hash hash itself
function Hash:update(data) end

---Returns the digest of the bytes that have been added. More bytes may be added afterwards.
---@param encoding? lio.BytesEncoding default `"raw"`
---@return string digest
function Hash:digest(encoding) end

return crypto
