-- Decodes the content codings of responses (RFC 9110 section 8.4). Part of `lio.http.client`.

local compress = require "lio.compress"

local M = {}

-- The codings that the client decodes, as the value of Accept-Encoding.
M.ACCEPTED = "gzip, deflate, br"

local KNOWN <const> = { gzip = true, ["x-gzip"] = true, deflate = true, br = true }
-- Each coding multiplies the size to which a small input can decode, so the number of codings is limited.
local MAX_CODINGS <const> = 3
-- The maximum number of bytes that one piece decodes to.
local MAX_PIECE <const> = 64 * 1024 * 1024

local Chain = {}
Chain.__index = Chain

-- Calls a method of each decoder in turn, with the result of the previous decoder. Returns data; or nil, message, code.
local function pass(self, method, data)
  for _, decoder in ipairs(self) do
    local message, code
    data, message, code = decoder[method](decoder, data)
    if not data then return nil, "decoding the body: " .. message, code end
  end
  return data
end

function Chain:write(data)
  return pass(self, "write", data)
end

function Chain:finish()
  return pass(self, "finish", "")
end

-- `of(value, limit)` returns the decoder for a body with the Content-Encoding `value`. Returns nil if there is no
-- coding, an unknown coding, or more than MAX_CODINGS codings; the program then gets the encoded body. `limit`: the
-- maximum length of the body in bytes.
function M.of(value, limit)
  if not value then return nil end
  local chain = {}
  for name in value:lower():gmatch "[^,%s]+" do
    if name ~= "identity" then
      if not KNOWN[name] or #chain == MAX_CODINGS then return nil end
      table.insert(chain, 1, compress.decoder(name, math.max(1, math.min(limit, MAX_PIECE))))
    end
  end
  if chain[1] then return setmetatable(chain, Chain) end
end

return M
