-- An echo server on cqueues with one coroutine per connection, for a stock Lua: `lua5.4 cqueues.lua PORT`.

local cqueues = require "cqueues"
local socket = require "cqueues.socket"

local MOST <const> = -65536 -- a negative size means: at most this number of bytes

local server = socket.listen { host = "127.0.0.1", port = tonumber(arg[1]), nodelay = true }
assert(server:listen())
local _, host, port = server:localname()
print(("listening on %s:%d"):format(host, port))
io.stdout:flush()

local queue = cqueues.new()

local function echo(client)
  client:onerror(function(_, _, why) return why end)
  for data in function() return client:xread(MOST, "bn") end do
    if not client:xwrite(data, "bn") then break end
  end
  client:close()
end

queue:wrap(function()
  -- An accepted socket does not inherit the options of the listener.
  for client in function() return server:accept { nodelay = true } end do queue:wrap(echo, client) end
end)
assert(queue:loop())
