-- `lio.crypto`: digests, HMAC, encryption, random bytes, password hashes, and texts that represent bytes.
--
-- The functions are native (src/modules/crypto/). This file adds those that hash passwords: a hash takes tens of
-- milliseconds, so another thread computes it, and only the calling task waits (crypto/off_thread.lua).

local misuse = require "lio.misuse"
local native = require "lio.crypto.password"
local off_thread = require "lio.crypto.off_thread"
local options = require "lio.options"

local M = require "lio.crypto.core"

-- The bounds are those of src/codec/crypto/password.rs.
local COST <const> = {
  memory = options.integer(8, 1 << 22),
  iterations = options.integer(1, 1 << 16),
  parallelism = options.integer(1, 255),
}

-- Returns the three parameters of a hash; nil means the default.
local function cost_of(call, opts)
  opts = options.check("crypto." .. call, 2, opts, COST)
  if opts.parallelism and (opts.memory or 19456) < 8 * opts.parallelism then
    misuse.raise(("crypto.%s: option 'memory' must be at least 8 times 'parallelism', which is %d"):format(
      call, opts.parallelism))
  end
  return opts.memory, opts.iterations, opts.parallelism
end

-- `crypto.password_hash(password [, opts])` returns a hash, as a PHC string of Argon2id with a random salt; or nil,
-- message, code. `opts`: `memory` in KiB (19456), `iterations` (2), `parallelism` (1). Waits.
function M.password_hash(password, opts)
  misuse.check("password_hash", 1, password, "string")
  return off_thread("hash", password, cost_of("password_hash", opts))
end

-- `crypto.password_verify(password, hash)` returns whether `hash` is the hash of this password; or nil, message, code.
-- The code is "invalid" if `hash` is not a hash of Argon2. Waits.
function M.password_verify(password, hash)
  misuse.check("password_verify", 1, password, "string")
  misuse.check("password_verify", 2, hash, "string")
  return off_thread("verify", password, hash)
end

-- `crypto.password_needs_rehash(hash [, opts])` returns whether `password_hash` with these options would use other
-- parameters than those of `hash`; or nil, message, code. Does not wait.
function M.password_needs_rehash(hash, opts)
  misuse.check("password_needs_rehash", 1, hash, "string")
  return native.is_outdated(hash, cost_of("password_needs_rehash", opts))
end

return M
