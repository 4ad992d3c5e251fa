-- `networks_of(call, list)` returns a native list of networks for a list of addresses, networks such as "10.0.0.0/8",
-- and the names "loopback", "private" and "unix:". Raises for any other element. Used for the option `proxies` of
-- web/trust_proxy.lua and web/listening.lua.

local http = require "lio.http"
local misuse = require "lio.misuse"

return function(call, list)
  local networks, count = http.networks(), 0
  for index, text in ipairs(list) do
    count = index
    if type(text) ~= "string" or not networks:add(text) then
      misuse.raise(("%s: option 'proxies': %s is no address, network such as '10.0.0.0/8', 'loopback', 'private' or "
        .. "'unix:'"):format(call, misuse.shown(text)))
    end
  end
  if count == 0 or next(list, count) ~= nil then
    misuse.raise(("%s: option 'proxies' must be a list of at least one address"):format(call))
  end
  return networks
end
