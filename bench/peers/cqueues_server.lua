-- An HTTP server on lua-cqueues with the parser of toy.lua: INTERPRETER cqueues_server.lua PORT

package.path = arg[0]:match "^(.*/)" .. "?.lua;" .. package.path
local cqueues = require "cqueues"
local socket = require "cqueues.socket"
local toy = require "toy"

local queue = cqueues.new()
local server = socket.listen { host = "127.0.0.1", port = tonumber(arg[1]), nodelay = true }
assert(server:listen())

local function serve(client)
  client:setmode("bn", "bf") -- output is buffered, and flushed after each read
  client:onerror(function(_, _, code) return code end)
  local received = toy.connection(function(text) client:write(text) end)
  while true do
    local data = client:read(-16384)
    if not data then break end
    local close = received(data)
    client:flush()
    if close then break end
  end
  client:close()
end

queue:wrap(function()
  for client in server:clients() do queue:wrap(serve, client) end
end)
assert(queue:loop())
