-- Content codings of answers, undone (RFC 9110 section 8.4). Part of `lio.http.client`.

local compress = require "lio.compress"

local M = {}

-- What the client can decode, as Accept-Encoding says it.
M.ACCEPTED = "gzip, deflate, br"

local KNOWN <const> = { gzip = true, ["x-gzip"] = true, deflate = true, br = true }
-- A chain of codings multiplies what little input can mean.
local MOST_CODINGS <const> = 3
-- Bytes that one piece may become.
local MOST_AT_ONCE <const> = 64 * 1024 * 1024

local Chain = {}
Chain.__index = Chain

-- Passes `data` through the decoders from `at` on. → data; nil, message, code.
local function pass(self, at, method, data)
  for index = at, #self do
    local decoder = self[index]
    local message, code
    data, message, code = decoder[method](decoder, data)
    if not data then return nil, "decoding the body: " .. message, code end
  end
  return data
end

function Chain:write(data)
  return pass(self, 1, "write", data)
end

function Chain:finish()
  return pass(self, 1, "finish", "")
end

-- `of(value, limit)` → decoder for a body with this Content-Encoding; nil when there is nothing to decode, or a
-- coding that is unknown, in which case the program gets the body as it is. `limit`: bytes of the whole body.
function M.of(value, limit)
  if not value then return nil end
  local chain = {}
  for name in value:lower():gmatch "[^,%s]+" do
    if name ~= "identity" then
      if not KNOWN[name] or #chain == MOST_CODINGS then return nil end
      table.insert(chain, 1, compress.decoder(name, math.max(1, math.min(limit, MOST_AT_ONCE))))
    end
  end
  if chain[1] then return setmetatable(chain, Chain) end
end

return M
