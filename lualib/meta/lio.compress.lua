---@meta lio.compress
-- Definitions of `lio.compress` for the Lua language server. docs/build.lua generates docs/api/lio.compress.md from
-- them.

---Streaming encoders and decoders for the content codings gzip (RFC 1952), deflate (zlib's format, RFC 1950) and brotli
---(RFC 7932). No call waits.
---@class lio.compress
local compress = {}

---@alias lio.Coding "gzip"|"deflate"|"br"

---Creates an encoder for one body. Raises if the coding is unknown or the level is out of range.
---@param coding lio.Coding
---@param level? integer 1 (fast) to 9 (small), default 5; for `"br"` 0 to 11, default 4
---@return lio.Encoder encoder
function compress.encoder(coding, level) end

---Creates a decoder for one body. A gzip body may have several members. A deflate body may have zlib's header or none.
---A brotli body has a window of at most 16 MiB (RFC 7932 section 9.1). Raises if the coding is unknown or the limit is
---invalid.
---@param coding lio.Coding `"x-gzip"` means gzip
---@param limit? integer maximum number of bytes that one call returns, 1 or more; default 16 MiB
---@return lio.Decoder decoder
function compress.decoder(coding, limit) end

---An encoder. After `finish` every call raises.
---@class lio.Encoder
local Encoder = {}

---Encodes a piece of the body.
---@param bytes string
---@return string bytes the output so far, often `""`
function Encoder:write(bytes) end

---Encodes `bytes`, if given, and returns the pending output, so that a decoder can decode everything written so far.
---@param bytes? string a piece to encode first
---@return string bytes
function Encoder:flush(bytes) end

---Ends the body.
---@param bytes? string the last piece of the body
---@return string bytes the remaining output
function Encoder:finish(bytes) end

---A decoder. After a failure, `finish` and every `write` of at least one byte return the same failure. After `finish`
---has ended the body, every call raises.
---@class lio.Decoder
local Decoder = {}

---Decodes a piece of the body.
---@param bytes string
---@return string? bytes the output that could be decoded so far and that no earlier call has returned
---@return string? message
---@return string? code `"corrupt"`: invalid data, or bytes after the end; `"too long"`: more output than the limit
function Decoder:write(bytes) end

---Keeps bytes, which calls of `step` decode. Raises after `finish`.
---@param bytes string
function Decoder:feed(bytes) end

---Decodes a part of the bytes that `feed` has kept: at most 4 KiB, to less than 256 KiB. So a program can decode data
---of any size in pieces, and do other work in between; the limit of the decoder does not apply. A step takes a few
---milliseconds at most, but one of hostile brotli can take 0.2 seconds.
---@return string? bytes the output, often `""`; nil if nothing is left to decode
---@return string? message
---@return string? code `"corrupt"`: invalid data, or bytes after the end
function Decoder:step() end

---Decodes what `feed` has kept, if anything. Otherwise does nothing: a decoder returns all its output from `write`.
---@return string? bytes
---@return string? message
---@return string? code as for `write`
function Decoder:flush() end

---Ends the body. An empty body is valid.
---@param bytes? string the last piece of the body
---@return string? bytes the remaining output
---@return string? message
---@return string? code a code of `write`, or `"truncated"` if the end of the body is missing
function Decoder:finish(bytes) end

return compress
