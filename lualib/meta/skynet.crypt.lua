---@meta skynet.crypt
-- Definitions of `skynet.crypt` for the Lua language server. docs/build.lua generates docs/api/skynet.crypt.md from
-- them.

---The functions of skynet's login protocol, for programs that speak it. DES and the 64-bit key exchange do not resist
---attackers; new programs use `lio.crypto`. Misuse raises.
---@class skynet.crypt
---@field padding { iso7816_4: 0, pkcs7: 1 } the paddings of `desencode` and `desdecode`
local crypt = {}

---Returns eight bytes that hash the text: two numbers of 32 bits, each with its least significant byte first. They
---start as `d = 5381` and `j = 1315423911`; for each byte `c` of the text, `d = d + (d << 5) + c`, and
---`j = j ~ ((j << 5) + c + (j >> 2))`. The value for `"hello"` is `9930920fcbef1867` in hexadecimal.
---@param text string
---@return string key
function crypt.hashkey(text) end

---Returns eight random bytes from the system, never all zeros.
---@return string key
function crypt.randomkey() end

---Encrypts a text with DES, each block for itself.
---@param key string eight bytes
---@param text string
---@param padding? 0|1 a value of `padding`; default 0: ISO 7816-4
---@return string encrypted a multiple of eight bytes
function crypt.desencode(key, text, padding) end

---Decrypts a text that `desencode` has encrypted. Raises if the text is invalid.
---@param key string eight bytes
---@param text string
---@param padding? 0|1 a value of `padding`; default 0: ISO 7816-4
---@return string text
function crypt.desdecode(key, text, padding) end

---Returns the hexadecimal digits of the bytes.
---@param bytes string
---@return string digits in lower case
function crypt.hexencode(bytes) end

---Returns the bytes of hexadecimal digits. Raises if the text is invalid.
---@param text string
---@return string bytes
function crypt.hexdecode(text) end

---Returns the code of skynet's login protocol. `x0`, `x1` are the halves of the challenge, `y0`, `y1` those of the
---secret, as numbers with the least significant byte first. The words `x1 x0 y1 y0`, four times, are one block of MD5:
---its 64 steps run from MD5's first state, and that state is not added afterwards. From the result `a b c d`, the code
---is `c ~ d`, then `a ~ b`. The value for `"12345678"` and `"abcdefgh"` is `ac9ffda9547a027a` in hexadecimal.
---@param challenge string eight bytes
---@param secret string eight bytes
---@return string code eight bytes
function crypt.hmac64(challenge, secret) end

---Returns the code that is built from a complete MD5, that of challenge and secret, three times: its first half `~` its
---second half. The value for `"12345678"` and `"abcdefgh"` is `c2a34748cf834af4` in hexadecimal.
---@param challenge string eight bytes
---@param secret string eight bytes
---@return string code eight bytes
function crypt.hmac64_md5(challenge, secret) end

---Returns `hmac64(hashkey(text), key)`.
---@param key string eight bytes
---@param text string
---@return string code eight bytes
function crypt.hmac_hash(key, text) end

---Returns the public number for a private one. Raises if the private number is 0.
---@param private string eight bytes, such as a result of `randomkey`
---@return string public eight bytes
function crypt.dhexchange(private) end

---Returns the secret that both sides get. Raises if a number is 0.
---@param public string the other side's public number
---@param private string this side's private number
---@return string secret eight bytes
function crypt.dhsecret(public, private) end

---Returns the bytes in Base64 with padding.
---@param bytes string
---@return string text
function crypt.base64encode(bytes) end

---Returns the bytes of a text in Base64. Raises if the text is invalid.
---@param text string
---@return string bytes
function crypt.base64decode(text) end

---Returns the SHA-1 of a text.
---@param text string
---@return string hash 20 bytes
function crypt.sha1(text) end

---Returns the HMAC (RFC 2104) of a text with SHA-1.
---@param key string
---@param text string
---@return string code 20 bytes
function crypt.hmac_sha1(key, text) end

---Returns the exclusive or of the text and the repeated key. Raises if the key is empty.
---@param text string
---@param key string
---@return string bytes
function crypt.xor_str(text, key) end

return crypt
