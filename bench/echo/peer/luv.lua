-- An echo server on lua-luv, for a stock Lua: `lua5.4 luv.lua PORT`.

local uv = require "luv"

local server = uv.new_tcp()
assert(server:bind("127.0.0.1", tonumber(arg[1])))
assert(server:listen(1024, function(problem)
  assert(not problem, problem)
  local client = uv.new_tcp()
  server:accept(client)
  client:nodelay(true)
  client:read_start(function(_, data)
    if data then client:write(data) elseif not client:is_closing() then client:close() end
  end)
end))
local address = server:getsockname()
print(("listening on %s:%d"):format(address.ip, address.port))
io.stdout:flush()
uv.run()
