-- The contents of uploads and echoes: bytes that follow from an id, so both sides can compute them. Used by all
-- programs of tests/chaos.

local crypto = require "lio.crypto"

local M = {}

local BLOCK <const> = 1024

--- Returns the `size` bytes that belong to an id. Each kibibyte differs, so lost, repeated and swapped parts are found.
function M.of(id, size)
  local blocks = {}
  for at = 0, (size - 1) // BLOCK do blocks[at + 1] = crypto.sha256(id .. ":" .. at):rep(BLOCK // 32) end
  return table.concat(blocks):sub(1, size)
end

--- Returns the digest of bytes, in hexadecimal.
function M.digest(bytes) return crypto.sha256(bytes, "hex") end

return M
