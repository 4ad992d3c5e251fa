-- `web.trust_proxy`: middleware that makes requests show the client, and not the proxy through which they came. Only
-- fields from addresses in the list `proxies` are believed; a client can send any field.
--
-- The native functions read the fields (src/codec/forwarded.rs). Proxies add to the right end of a field, so the
-- client is the last address that is not a trusted proxy.

local error_page = require "lio.web.error_page"
local networks_of = require "lio.web.networks"
local misuse = require "lio.misuse"
local options = require "lio.options"

local OPTIONS <const> = { proxies = options.table, headers = options.table }

-- The fields that a proxy may set. By default, only these that usual configurations overwrite are believed.
local KNOWN <const> = {
  ["forwarded"] = true, ["x-forwarded-for"] = true, ["x-forwarded-proto"] = true, ["x-forwarded-host"] = true,
}
local DEFAULT <const> = { "X-Forwarded-For", "X-Forwarded-Proto" }

-- Returns the set of the fields that are believed, in lower case.
local function fields_of(list)
  local fields = {}
  for _, name in ipairs(list) do
    local lower = type(name) == "string" and name:lower()
    if not KNOWN[lower] then
      misuse.raise(("web.trust_proxy: option 'headers' must list 'Forwarded', 'X-Forwarded-For', 'X-Forwarded-Proto' "
        .. "or 'X-Forwarded-Host', got %s"):format(misuse.shown(name)))
    end
    fields[lower] = true
  end
  if next(fields) == nil then misuse.raise "web.trust_proxy: option 'headers' is empty" end
  if fields["forwarded"] and next(fields, next(fields)) ~= nil then
    misuse.raise("web.trust_proxy: option 'headers' must list 'Forwarded' alone, or only 'X-Forwarded-…' fields: a "
      .. "proxy that sets the one lets a client set the other")
  end
  return fields
end

-- `web.trust_proxy{ proxies = …, headers = … }` returns middleware. `proxies`: a list of the addresses of proxies,
-- networks in CIDR notation, "loopback", "private" and "unix:" (the peers of unix sockets). `headers`: the fields that
-- these proxies overwrite or append to; by default X-Forwarded-For and X-Forwarded-Proto. The middleware sets
-- `req.remote_addr`, `req.remote_port`, `req.is_tls` and `req.host`; `req.proxy_addr` is the address of the proxy.
return function(opts)
  if opts == nil then misuse.argument("trust_proxy", 1, "table of options", opts) end
  if type(opts) == "table" and opts[1] ~= nil and opts.proxies == nil then
    misuse.raise "web.trust_proxy: option 'proxies' is missing, as in { proxies = { \"127.0.0.1\" } }"
  end
  opts = options.check("web.trust_proxy", 1, opts, OPTIONS)
  if not opts.proxies then misuse.raise "web.trust_proxy: option 'proxies' is missing" end
  local networks = networks_of("web.trust_proxy", opts.proxies)
  local fields = fields_of(opts.headers or DEFAULT)
  local forwarded <const> = fields["forwarded"]
  local has_for <const>, has_proto <const> = fields["x-forwarded-for"], fields["x-forwarded-proto"]
  local has_host <const> = fields["x-forwarded-host"]

  return function(req, _, next)
    local proxy = req.remote_addr
    if not proxy or not networks:contains(proxy) then return next() end
    local is_readable, ip, port, is_tls, host
    if forwarded then
      is_readable, ip, port, is_tls, host = networks:client_of_forwarded(req:header "forwarded" or "")
      -- To keep the proxy's address would let the client choose it: the part on the left is what the client has sent.
      if not is_readable then return error_page.for_status(req, 400) end
    else
      ip, port, is_tls, host = networks:client_of_lists(has_for and req:header "x-forwarded-for" or nil,
        has_proto and req:header "x-forwarded-proto" or nil, has_host and req:header "x-forwarded-host" or nil)
    end
    if ip then
      req.proxy_addr, req.remote_addr, req.remote_port = proxy, ip, port
    end
    if is_tls ~= nil then req.is_tls = is_tls end
    if host then req.host = host end
    return next()
  end
end
