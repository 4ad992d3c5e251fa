-- `lio.crypto`: the known answers of the standards, invalid data and misuse, and password hashes in a program without a
-- loop, in a loop and in services.

local t = require "tests.kit"
local crypto = require "lio.crypto"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local system = require "tests.kit.ltask_system"

local unhex <const> = crypto.hex_decode

-- Digests ---------------------------------------------------------------------------------------------------

-- RFC 1321 appendix A.5; the examples of FIPS 180-4 and RFC 3174.
local DIGESTS <const> = {
  md5 = {
    [""] = "d41d8cd98f00b204e9800998ecf8427e",
    ["abc"] = "900150983cd24fb0d6963f7d28e17f72",
    ["message digest"] = "f96b697d7cb7938d525a2f31aaf161d0",
    ["12345678901234567890123456789012345678901234567890123456789012345678901234567890"]
      = "57edf4a22be3c955ac49da2e2107b67a",
  },
  sha1 = {
    [""] = "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    ["abc"] = "a9993e364706816aba3e25717850c26c9cd0d89d",
    ["abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"] = "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
  },
  sha224 = { ["abc"] = "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7" },
  sha256 = {
    [""] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ["abc"] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ["abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"]
      = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  },
  sha384 = {
    ["abc"] = "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
  },
  sha512 = {
    ["abc"] = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
      .. "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
  },
}

t.test("digests are those of the standards", function()
  for algorithm, examples in pairs(DIGESTS) do
    for data, want in pairs(examples) do
      t.eq(crypto[algorithm](data, "hex"), want, algorithm)
      t.eq(crypto.hash(algorithm):update(data):digest "hex", want, algorithm)
    end
  end
  t.eq(crypto.sha256(("a"):rep(1000000), "hex"), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
end)

t.test("a digest is raw, hexadecimal, base64 or base64url", function()
  local raw = unhex "d41d8cd98f00b204e9800998ecf8427e"
  t.eq(crypto.md5 "", raw)
  t.eq(crypto.md5("", "raw"), raw)
  t.eq(crypto.md5("", "base64"), "1B2M2Y8AsgTpgAmY7PhCfg==")
  t.eq(crypto.md5("", "base64url"), "1B2M2Y8AsgTpgAmY7PhCfg")
  t.eq(crypto.hash("md5"):digest(), raw)
  t.eq(crypto.hash("md5"):digest "base64url", "1B2M2Y8AsgTpgAmY7PhCfg")
  t.eq(crypto.md5(12, "hex"), crypto.md5("12", "hex"))
end)

t.test("bytes may be added after a digest was read", function()
  local hash = crypto.hash "sha256"
  t.eq(hash:update "ab", hash)
  t.eq(hash:digest "hex", crypto.sha256("ab", "hex"))
  t.eq(hash:update("c"):digest "hex", DIGESTS.sha256.abc)
  t.eq(hash:digest "hex", DIGESTS.sha256.abc)
end)

-- RFC 4231 section 4, RFC 2202 section 2 and 3.
t.test("HMACs are those of the standards", function()
  local long_key = ("\xaa"):rep(131)
  for _, case in ipairs {
    { "sha256", ("\x0b"):rep(20), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
    { "sha256", "Jefe", "what do ya want for nothing?",
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
    { "sha256", ("\xaa"):rep(20), ("\xdd"):rep(50),
      "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
    { "sha256", long_key, "Test Using Larger Than Block-Size Key - Hash Key First",
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    { "sha224", "Jefe", "what do ya want for nothing?", "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44" },
    { "sha384", "Jefe", "what do ya want for nothing?",
      "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649" },
    { "sha512", "Jefe", "what do ya want for nothing?",
      "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
      .. "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737" },
    { "md5", "Jefe", "what do ya want for nothing?", "750c783e6ab0b503eaa86e310a5db738" },
    { "sha1", "Jefe", "what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79" },
  } do
    local algorithm, key, data, want = table.unpack(case)
    t.eq(crypto.hmac(algorithm, key, data, "hex"), want)
    t.eq(crypto.hmac(algorithm, key, data), unhex(want))
    t.eq(crypto.hash(algorithm, key):update(data:sub(1, 5)):update(data:sub(6)):digest "hex", want)
  end
end)

t.test("equal compares strings of any length", function()
  t.eq({ crypto.equal("", ""), crypto.equal("ab", "ab"), crypto.equal("ab", "aB"), crypto.equal("ab", "abc") },
    { true, true, false, false })
end)

-- Texts -----------------------------------------------------------------------------------------------------

-- RFC 4648 section 10.
t.test("base64, base64url and hexadecimal are those of RFC 4648", function()
  local data = "foobar"
  for length, want in pairs { [0] = "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" } do
    local piece = data:sub(1, length)
    t.eq(crypto.base64_encode(piece), want)
    t.eq(crypto.base64_decode(want), piece)
    t.eq(crypto.base64_decode((want:gsub("=", ""))), piece)
    t.eq(crypto.base64url_encode(piece), (want:gsub("=", "")))
    t.eq(crypto.base64url_decode(want), piece)
  end
  t.eq(crypto.base64_encode "\xfb\xff", "+/8=")
  t.eq(crypto.base64url_encode "\xfb\xff", "-_8")
  t.eq(crypto.base64url_decode "-_8", "\xfb\xff")
  t.eq(crypto.hex_encode "foobar", "666f6f626172")
  t.eq(crypto.hex_decode "666F6f626172", "foobar")
end)

t.test("an invalid text is a failure", function()
  for _, text in ipairs { "0", "0g", "00 ", "é" } do
    t.eq({ crypto.hex_decode(text) },
      { nil, "hex_decode: the text is not a sequence of pairs of hexadecimal digits", "invalid" })
  end
  for _, text in ipairs { "Z", "Zg=", "Zg===", "Zh==", "Zg==\n", "-_8", "Zg\xff" } do
    t.eq({ crypto.base64_decode(text) }, { nil, "base64_decode: the text is not base64", "invalid" }, text)
  end
  for _, text in ipairs { "Z", "+/8", "Zg=" } do
    t.eq({ crypto.base64url_decode(text) }, { nil, "base64url_decode: the text is not base64url", "invalid" }, text)
  end
end)

-- Random bytes ----------------------------------------------------------------------------------------------

t.test("random bytes have the requested number and encoding, and differ", function()
  t.eq(crypto.random(0), "")
  t.eq(#crypto.random(32), 32)
  t.ok(crypto.random(16) ~= crypto.random(16))
  t.ok(crypto.random(16, "hex"):find "^%x+$")
  t.eq(#crypto.random(16, "hex"), 32)
  t.eq(#crypto.random(32, "base64url"), 43)
  t.eq(#crypto.random(1 << 24), 1 << 24)
end)

t.test("UUIDs have version 4 or 7, and those of version 7 begin with the time", function()
  local tail <const> = "%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"
  local four = crypto.uuid()
  t.ok(four:find("^%x%x%x%x%x%x%x%x%-%x%x%x%x%-4" .. tail), four)
  t.ok(crypto.uuid(4) ~= four)
  local before = math.floor(lio.wall() * 1000) - 1
  local seven = crypto.uuid(7)
  t.ok(seven:find("^%x%x%x%x%x%x%x%x%-%x%x%x%x%-7" .. tail), seven)
  local time = tonumber(seven:sub(1, 8) .. seven:sub(10, 13), 16)
  t.ok(before <= time and time <= math.ceil(lio.wall() * 1000) + 1, time)
end)

-- Encryption ------------------------------------------------------------------------------------------------

t.test("encrypted data is decrypted with the same key and context only", function()
  local key = crypto.random(32)
  local sealed = crypto.encrypt(key, "attack at dawn", "orders")
  t.eq(#sealed, #"attack at dawn" + 40)
  t.ok(sealed ~= crypto.encrypt(key, "attack at dawn", "orders"))
  t.eq(crypto.decrypt(key, sealed, "orders"), "attack at dawn")
  t.eq(crypto.decrypt(key, crypto.encrypt(key, "")), "")
  local corrupt <const> = { nil, "decrypt: the key or the context is wrong, or the data was changed", "corrupt" }
  t.eq({ crypto.decrypt(key, sealed) }, corrupt)
  t.eq({ crypto.decrypt(crypto.random(32), sealed, "orders") }, corrupt)
  t.eq({ crypto.decrypt(key, sealed:sub(1, -2), "orders") }, corrupt)
  t.eq({ crypto.decrypt(key, sealed:sub(1, -2) .. string.char(sealed:byte(-1) ~ 1), "orders") }, corrupt)
  t.eq({ crypto.decrypt(key, "short", "orders") }, corrupt)
end)

-- draft-irtf-cfrg-xchacha-03 appendix A.3.1.
t.test("data that another implementation has encrypted is decrypted", function()
  local key = unhex "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
  local sealed = unhex("404142434445464748494a4b4c4d4e4f5051525354555657"
    .. "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54"
    .. "c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f6"
    .. "15c68b13b52ec0875924c1c7987947deafd8780acf49")
  t.eq(crypto.decrypt(key, sealed, unhex "50515253c0c1c2c3c4c5c6c7"), "Ladies and Gentlemen of the class of '99: If I "
    .. "could offer you only one tip for the future, sunscreen would be it.")
end)

-- Misuse ----------------------------------------------------------------------------------------------------

t.test("misuse raises an error that names the call and the argument", function()
  local text = function(value) return value:gsub("%p", "%%%0") end
  local algorithms <const> = "algorithm must be 'sha256', 'sha384', 'sha512', 'sha224', 'sha1' or 'md5'"
  local encodings <const> = "encoding must be 'raw', 'hex', 'base64' or 'base64url'"
  for message, call in pairs {
    ["bad argument #1 to 'sha256' (string expected, got nil)"] = function() return crypto.sha256(nil) end,
    ["bad argument #2 to 'sha1' (" .. encodings .. ")"] = function() return crypto.sha1("", "Hex") end,
    ["bad argument #1 to 'hmac' (" .. algorithms .. ")"] = function() return crypto.hmac("sha3", "k", "d") end,
    ["bad argument #3 to 'hmac' (string expected, got no value)"] = function() return crypto.hmac("md5", "k") end,
    ["bad argument #1 to 'hash' (" .. algorithms .. ")"] = function() return crypto.hash "SHA256" end,
    ["bad argument #1 to 'update' (string expected, got table)"] = function() crypto.hash("md5"):update {} end,
    ["bad argument #1 to 'random' (number of bytes must be 0 to 16777216, not -1)"] = function() crypto.random(-1) end,
    ["bad argument #1 to 'uuid' (version must be 4 or 7)"] = function() return crypto.uuid(1) end,
    ["bad argument #1 to 'encrypt' (key must have 32 bytes, not 3)"] = function() crypto.encrypt("key", "") end,
    ["bad argument #1 to 'decrypt' (key must have 32 bytes, not 0)"] = function() crypto.decrypt("", "") end,
    ["bad argument #1 to 'password_hash' (string expected, got nil)"] = function() crypto.password_hash() end,
    ["bad argument #2 to 'password_verify' (string expected, got nil)"] = function() crypto.password_verify "" end,
    ["crypto.password_hash: option 'memmory' is unknown (did you mean 'memory'?)"]
      = function() crypto.password_hash("x", { memmory = 1 }) end,
    ["crypto.password_hash: option 'memory' must be an integer from 8 to 4194304, got 7"]
      = function() crypto.password_hash("x", { memory = 7 }) end,
    ["crypto.password_hash: option 'memory' must be at least 8 times 'parallelism', which is 2"]
      = function() crypto.password_hash("x", { memory = 15, parallelism = 2 }) end,
    ["crypto.password_needs_rehash: option 'iterations' must be an integer from 1 to 65536, got 0"]
      = function() crypto.password_needs_rehash("x", { iterations = 0 }) end,
  } do
    t.raises("crypto_test%.lua:%d+: " .. text(message) .. "$", call)
  end
end)

-- Passwords -------------------------------------------------------------------------------------------------

-- Cheap parameters, so that the tests are fast.
local CHEAP <const> = { memory = 64, iterations = 1, parallelism = 2 }
local HASH <const> = "^%$argon2id%$v=19%$m=64,t=1,p=2%$[%w+/]+%$[%w+/]+$"

-- A hash of "password" that the reference implementation has made.
local REFERENCE <const> = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"

t.test("a password is hashed and verified without a loop", function()
  local hash = crypto.password_hash("secret", CHEAP)
  t.ok(hash:find(HASH), hash)
  t.ok(crypto.password_hash("secret", CHEAP) ~= hash)
  t.eq(crypto.password_verify("secret", hash), true)
  t.eq(crypto.password_verify("Secret", hash), false)
  t.eq(crypto.password_verify("password", REFERENCE), true)
end)

t.test("the default parameters are those of OWASP's recommendation", function()
  local hash = crypto.password_hash "secret"
  t.ok(hash:find "^%$argon2id%$v=19%$m=19456,t=2,p=1%$", hash)
  t.eq(crypto.password_needs_rehash(hash), false)
  t.eq(crypto.password_needs_rehash(hash, CHEAP), true)
  t.eq(crypto.password_needs_rehash(REFERENCE), true)
  t.eq(crypto.password_needs_rehash(REFERENCE, { memory = 65536 }), false)
end)

t.test("a text that is not a hash is a failure", function()
  local invalid <const> = { nil, "password_verify: not a password hash of Argon2", "invalid" }
  local not_rated <const> = { nil, "password_needs_rehash: not a password hash of Argon2", "invalid" }
  local costly = REFERENCE:gsub("m=65536", "m=4294967295")
  for _, text in ipairs { "", "secret", "$2b$12$abcdefghijklmnopqrstuv", costly } do
    t.eq({ crypto.password_verify("x", text) }, invalid, text)
    t.eq({ crypto.password_needs_rehash(text) }, not_rated, text)
  end
  loop.run(function() t.eq({ crypto.password_verify("x", "") }, invalid) end)
end)

t.test("while a password is hashed in a loop, other tasks run", function()
  local order, hash = {}, nil
  loop.run(function()
    loop.fork(function()
      -- Wakes in the next round of the loop, long before the hash is complete.
      loop.sleep(0)
      order[#order + 1] = "other"
    end)
    hash = crypto.password_hash("secret", { memory = 32768, iterations = 8 })
    order[#order + 1] = "hashed"
    t.eq(crypto.password_verify("secret", hash), true)
  end)
  t.eq(order, { "other", "hashed" })
  t.ok(hash:find "m=32768,t=8,p=1")
end, { leaks = true })

t.test("many tasks may wait for hashes at the same time", function()
  local right = 0
  loop.run(function()
    for number = 1, 50 do
      loop.fork(function()
        local hash = crypto.password_hash("secret" .. number, CHEAP)
        if crypto.password_verify("secret" .. number, hash) then right = right + 1 end
        if not crypto.password_verify("secret" .. number + 1, hash) then right = right + 1 end
      end)
    end
  end)
  t.eq(right, 100)
end)

t.test("a task that is killed while it waits for a hash does not disturb the others", function()
  local closed, hash = false, nil
  loop.run(function()
    local victim = loop.fork(function()
      local _ <close> = setmetatable({}, { __close = function() closed = true end })
      crypto.password_hash("secret", { memory = 32768, iterations = 8 })
    end)
    loop.fork(function()
      for _, one in ipairs(lio.tasks()) do
        if one.waits_for == "a password hash" then loop.kill(victim) end
      end
    end)
    hash = crypto.password_hash("other", CHEAP)
  end)
  t.ok(closed)
  t.ok(hash:find(HASH), hash)
end)

t.test("in a coroutine that cannot wait, hashing blocks", function()
  loop.run(function()
    local list = { 2, 1 }
    table.sort(list, function(a, b)
      t.eq(crypto.password_verify("password", crypto.password_hash("password", CHEAP)), true)
      return a < b
    end)
    t.eq(list, { 1, 2 })
  end)
end)

t.test("tasks of the program's own scheduler wait for hashes, too", function()
  local waiting, hash = {}, nil
  local mine = net.new(lio.create(), {
    wait = function(token)
      waiting[token] = coroutine.running()
      return coroutine.yield()
    end,
    wakeup = function(token, ...)
      local co = waiting[token]
      waiting[token] = nil
      if co then assert(coroutine.resume(co, ...)) end
      return co ~= nil
    end,
    fork = function(f, ...) assert(coroutine.resume(coroutine.create(f), ...)) end,
  })
  net.use(mine)
  assert(coroutine.resume(coroutine.create(function() hash = crypto.password_hash("secret", CHEAP) end)))
  t.is_nil(hash)
  t.ok(next(waiting))
  while not hash do mine.step(10) end
  net.use(loop.net)
  t.ok(hash:find(HASH), hash)
end, { leaks = true })

system.test("in a service, a password is hashed while other tasks run", {
  main = [[
    local crypto = require "lio.crypto"
    local done = false
    ltask.fork(function()
      ltask.sleep(0)
      say("other", done)
    end)
    local hash = crypto.password_hash("secret", { memory = 32768, iterations = 8 })
    done = true
    say(hash:match "^.-p=1", crypto.password_verify("secret", hash), crypto.password_verify("x", hash))
    say(crypto.password_verify("secret", "x"))
  ]],
  out = {
    "other\tfalse",
    "$argon2id$v=19$m=32768,t=8,p=1\ttrue\tfalse",
    "nil\tpassword_verify: not a password hash of Argon2\tinvalid",
  },
})

system.test("a service may end while a password is hashed for it", {
  services = {
    victim = [[
      local crypto = require "lio.crypto"
      local S = {}
      function S.start()
        ltask.fork(function() crypto.password_hash("secret", { memory = 32768, iterations = 8 }) end)
        return "started"
      end
      function S.leave() ltask.quit() end
      return S
    ]],
  },
  main = [[
    local crypto = require "lio.crypto"
    local victim = ltask.spawn "victim"
    say(ltask.call(victim, "start"))
    ltask.send(victim, "leave")
    say(crypto.password_verify("x", crypto.password_hash("x", { memory = 64 })))
  ]],
  out = { "started", "true" },
})

t.finish()
