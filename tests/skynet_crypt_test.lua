-- skynet.crypt and md5. The expected values come from Python's hashlib, from openssl, and from a separate program for
-- the functions that only skynet has.

local t = require "tests.kit"
require "lio"
local crypt = require "skynet.crypt"
local md5 = require "md5"

local function hex(bytes) return crypt.hexencode(bytes) end

t.test("hashkey hashes a text of any length to eight bytes", function()
  t.eq(hex(crypt.hashkey "The quick brown fox"), "f8fcc39722cbda48")
  t.eq(hex(crypt.hashkey ""), "05150000a7c6674e")
  t.eq(hex(crypt.hashkey "\xff\x80"), "a48b59008467a8a4")
end)

t.test("randomkey returns eight bytes, each time others", function()
  local a, b = crypt.randomkey(), crypt.randomkey()
  t.eq(#a, 8)
  t.ok(a ~= b)
end)

t.test("the authentication codes", function()
  t.eq(hex(crypt.hmac64("challeng", "secret!!")), "a3c7b72e6d3345c6")
  t.eq(hex(crypt.hmac64_md5("challeng", "secret!!")), "3cf1b1bef77f35c9")
  t.eq(hex(crypt.hmac_hash("secret!!", "hello")), "8eb2a4ecc7a416a4")
  t.raises("bad argument #2 to .*hmac64\' %(the secret must have 8 bytes, got 3%)", crypt.hmac64, "challeng", "abc")
  t.raises("#1 to .*hmac64_md5\' %(the challenge must have 8 bytes, got 0%)", crypt.hmac64_md5, "", "8 bytes!")
  t.raises("bad argument #1 to .*hmac_hash\' %(the key must have 8 bytes, got 1%)", crypt.hmac_hash, "x", "hello")
end)

t.test("the values in the reference are those of the functions", function()
  local reference = io.open(t.root .. "docs/api/skynet.crypt.md"):read "a"
  for _, value in ipairs {
    crypt.hashkey "hello", crypt.hmac64("12345678", "abcdefgh"), crypt.hmac64_md5("12345678", "abcdefgh"),
  } do
    t.ok(reference:find("`" .. hex(value) .. "`", 1, true), hex(value))
  end
end)

t.test("the key exchange", function()
  t.eq(hex(crypt.dhexchange "12345678"), "a18e89af97222f0e")
  t.eq(hex(crypt.dhsecret("abcdefgh", "12345678")), "395a7fd768b78782")
  local a, b = crypt.randomkey(), crypt.randomkey()
  t.eq(crypt.dhsecret(crypt.dhexchange(a), b), crypt.dhsecret(crypt.dhexchange(b), a))
  t.raises("bad argument #1 to .*dhexchange' %(Can't be 0%)", crypt.dhexchange, ("\0"):rep(8))
  t.raises("bad argument #1 to .*dhsecret' %(Can't be 0%)", crypt.dhsecret, ("\0"):rep(8), "abcdefgh")
  t.raises("bad argument #2 to .*dhsecret' %(Can't be 0%)", crypt.dhsecret, "abcdefgh", ("\0"):rep(8))
end)

t.test("DES with both paddings", function()
  t.eq(hex(crypt.desencode("8bytekey", "hello")), "c74aab45e78fdc76")
  t.eq(hex(crypt.desencode("8bytekey", "hello", crypt.padding.pkcs7)), "df1b612c1a028aad")
  for length = 0, 17 do
    local text = ("\0"):rep(length)
    t.eq(crypt.desdecode("8bytekey", crypt.desencode("8bytekey", text)), text)
    local encoded = crypt.desencode("8bytekey", text, crypt.padding.pkcs7)
    t.eq(crypt.desdecode("8bytekey", encoded, crypt.padding.pkcs7), text)
  end
  t.raises("bad argument #1 to .*desencode\' %(the key must have 8 bytes, got 4%)", crypt.desencode, "4444", "x")
  t.raises("#2 to .*desdecode' %(Invalid des crypt text length 7%)", crypt.desdecode, "8bytekey", "1234567")
  t.raises("Invalid des crypt text length 0", crypt.desdecode, "8bytekey", "")
  t.raises("bad argument #2 to .*desdecode' %(Invalid des crypt text%)$", crypt.desdecode, "8bytekey", "12345678")
  t.raises("padding", crypt.desencode, "8bytekey", "x", 2)
end)

t.test("hexadecimal digits and Base64", function()
  t.eq(crypt.hexencode "\0\xffA", "00ff41")
  t.eq(crypt.hexdecode "00fF41", "\0\xffA")
  t.raises("bad argument #1 to .*hexdecode' %(Invalid hex text size 3%)", crypt.hexdecode, "abc")
  t.raises("bad argument #1 to .*hexdecode' %(Invalid hex text%)$", crypt.hexdecode, "zz")
  t.eq(crypt.base64encode "", "")
  t.eq(crypt.base64encode "Hello", "SGVsbG8=")
  t.eq(crypt.base64decode "SGVs\nbG8=", "Hello")
  t.raises("bad argument #1 to .*base64decode' %(Invalid base64 text%)", crypt.base64decode, "SGVsbG8")
end)

t.test("SHA-1 and its authentication code", function()
  t.eq(hex(crypt.sha1 ""), "da39a3ee5e6b4b0d3255bfef95601890afd80709")
  local text = "The quick brown fox jumps over the lazy dog"
  t.eq(hex(crypt.hmac_sha1("key", text)), "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9")
end)

t.test("xor_str repeats the key", function()
  t.eq(crypt.xor_str("abcde", "\1\2"), "``bfd")
  t.eq(crypt.xor_str(crypt.xor_str("any text", "key"), "key"), "any text")
  t.eq(crypt.xor_str("", "key"), "")
  t.raises("bad argument #2 to .*xor_str' %(Can't xor empty string%)", crypt.xor_str, "text", "")
end)

t.test("md5", function()
  t.eq(md5.sumhexa "abc", "900150983cd24fb0d6963f7d28e17f72")
  t.eq(hex(md5.sum "abc"), "900150983cd24fb0d6963f7d28e17f72")
  t.eq(md5.hmacmd5("The quick brown fox jumps over the lazy dog", "key"), "80070713463e7749b90c2dc24911e275")
  t.eq(md5.exor("ab", "\1\2"), "``")
  t.raises("lengths are different", md5.exor, "ab", "c")
end)

t.test("the names of older programs lead to the same module", function()
  t.eq(require "crypt", crypt)
end)

t.finish()
