-- Encoding and decoding of JSON and of the scheduler's messages. A case prepares its data, and returns a function that
-- repeats the operation `n` times.

local json = require "lio.json"
local ltask = require "ltask"

local OBJECT <const> = { id = 42, name = "lio", price = 2.5, tags = { "a", "b", "c" }, nested = { yes = true } }

local M = {}

function M.json_encode()
  return function(n)
    for _ = 1, n do json.encode(OBJECT) end
  end
end

function M.json_decode()
  local text = json.encode(OBJECT)
  return function(n)
    for _ = 1, n do json.decode(text) end
  end
end

-- Packs and unpacks the message of bench/ltask/case/pack.lua.
function M.pack()
  local pack, unpack_remove = ltask.pack, ltask.unpack_remove
  local message = { 1, 2, 3, "abc", { x = 1, y = 2.5, z = "hello" } }
  return function(n)
    for _ = 1, n do unpack_remove(pack(message)) end
  end
end

-- Packs and unpacks the arguments of a small request.
function M.pack_words()
  local pack, unpack_remove = ltask.pack, ltask.unpack_remove
  return function(n)
    for i = 1, n do unpack_remove(pack("get", i, "name")) end
  end
end

return M
