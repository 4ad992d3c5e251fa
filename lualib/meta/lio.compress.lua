---@meta lio.compress
-- Definitions of `lio.compress` for the Lua language server; docs/build.lua makes docs/api/lio.compress.md of them.

---Content codings in pieces, both ways: gzip, deflate (zlib's format) and brotli. Each call does its work at
---once and waits for nothing.
---@class lio.compress
local compress = {}

---@alias lio.Coding "gzip"|"deflate"|"br"

---Makes an encoder, for one body.
---@param coding lio.Coding
---@param level? integer 1 to 9, default 5; of `"br"` 0 to 11, default 4
---@return lio.Encoder encoder
function compress.encoder(coding, level) end

---Makes a decoder, for one body. It reads several gzip members in a row as one, and deflate with zlib's
---frame or without.
---@param coding lio.Coding `"x-gzip"` means gzip
---@param limit? integer bytes that one call may let out: small input can mean a lot; default 16 MiB
---@return lio.Decoder decoder
function compress.decoder(coding, limit) end

---@class lio.Encoder
local Encoder = {}

---Encodes a piece.
---@param bytes string
---@return string bytes what can go out already, often `""`
function Encoder:write(bytes) end

---Lets out all that is needed to decode what was written so far.
---@param bytes? string a piece to be written before
---@return string bytes
function Encoder:flush(bytes) end

---Ends the body. The encoder is of no use afterwards, and raises.
---@param bytes? string the last piece
---@return string bytes
function Encoder:finish(bytes) end

---@class lio.Decoder
local Decoder = {}

---Decodes a piece. After a failure every call fails in the same way.
---@param bytes string
---@return string? bytes all that the pieces so far tell and that was not given yet
---@return string? message
---@return string? code `"corrupt"`, also for bytes behind the end; `"too long"` when it is more than the limit
function Decoder:write(bytes) end

---Does nothing, since a decoder holds nothing back.
---@return string? bytes `""`
---@return string? message
---@return string? code
function Decoder:flush() end

---Ends the body. A body without a single byte is fine. The decoder is of no use afterwards, and raises.
---@param bytes? string the last piece
---@return string? bytes
---@return string? message
---@return string? code as for `write`, and `"truncated"` when the end is missing
function Decoder:finish(bytes) end

return compress
