-- Decodes the content codings of responses (RFC 9110 section 8.4). Part of `lio.http.client`.

local compress = require "lio.compress"

local M = {}

-- The codings that the client decodes, as the value of Accept-Encoding.
M.ACCEPTED = "gzip, deflate, br"

local KNOWN <const> = { gzip = true, ["x-gzip"] = true, deflate = true, br = true }
-- Each coding multiplies the time that a small input can take, so the number of codings is limited.
local MAX_CODINGS <const> = 3
-- A second coding hardly shortens encoded data. So a body with several codings is refused if a decoder returns more
-- than this number of bytes for each byte, plus SLACK, to the next decoder.
local MAX_RATIO <const>, SLACK <const> = 4, 64 * 1024
-- The maximum number of consecutive encoded bytes that decode to nothing, in whole pieces.
local MAX_EMPTY <const> = 64 * 1024

-- A chain has a stage for each coding, with the fields `decoder`; `count`, the number of bytes that it has been fed;
-- and `empty`, the number of bytes since it last returned data.
local Chain = {}
Chain.__index = Chain

local function failed(message, code)
  return nil, "decoding the body: " .. message, code
end

local function too_long()
  return nil, "the encoded body is larger than allowed", "too long"
end

local function feed(stage, data)
  if stage.empty > MAX_EMPTY then return too_long() end
  stage.count, stage.empty = stage.count + #data, stage.empty + #data
  stage.decoder:feed(data)
  return true
end

-- `chain:feed(data)`: adds a piece of the encoded body, which `step` decodes. Returns true; or nil, message, code.
function Chain:feed(data)
  return feed(self[1], data)
end

-- `chain:step()`: decodes a part of what has been fed, usually in a few milliseconds (`src/codec/compression/decode.rs`
-- names the longest time). Returns data, often ""; nil if nothing is left; or nil, message, code.
function Chain:step()
  for at = #self, 1, -1 do
    local stage, following = self[at], self[at + 1]
    local data, message, code = stage.decoder:step()
    if message then return failed(message, code) end
    if data and data ~= "" then
      stage.empty = 0
      if not following then return data end
      if following.count + #data > MAX_RATIO * stage.count + SLACK then return too_long() end
      local ok
      ok, message, code = feed(following, data)
      if not ok then return nil, message, code end
    end
    if data then return "" end
  end
  return nil
end

-- `chain:finish()`: ends the body, of which `step` has decoded all pieces. Returns nil; or nil, message, code.
function Chain:finish()
  for _, stage in ipairs(self) do
    local _, message, code = stage.decoder:finish()
    if message then return failed(message, code) end
  end
  return nil
end

-- `of(value)` returns the decoder for a body with the Content-Encoding `value`. Returns nil if there is no coding, an
-- unknown coding, or more than MAX_CODINGS codings; the program then gets the encoded body.
function M.of(value)
  if not value then return nil end
  local chain = {}
  for name in value:lower():gmatch "[^,%s]+" do
    if name ~= "identity" then
      if not KNOWN[name] or #chain == MAX_CODINGS then return nil end
      table.insert(chain, 1, { decoder = compress.decoder(name), count = 0, empty = 0 })
    end
  end
  if chain[1] then return setmetatable(chain, Chain) end
end

return M
