-- An HTTP server on lua-luv (libuv) with the parser of toy.lua: INTERPRETER luv_server.lua PORT

package.path = arg[0]:match "^(.*/)" .. "?.lua;" .. package.path
local toy = require "toy"
local uv = require "luv"

local server = uv.new_tcp()
assert(server:bind("127.0.0.1", tonumber(arg[1])))
assert(server:listen(4096, function()
  local client = uv.new_tcp()
  server:accept(client)
  client:nodelay(true)
  -- The responses to all requests of one read are sent with one write, which libuv attempts at once.
  local out, count = {}, 0
  local received = toy.connection(function(text)
    count = count + 1
    out[count] = text
  end)
  client:read_start(function(_, data)
    if not data then return client:close() end
    local close = received(data)
    if count > 0 then
      client:write(out)
      out, count = {}, 0
    end
    if close then client:shutdown(function() client:close() end) end
  end)
end))
uv.run()
