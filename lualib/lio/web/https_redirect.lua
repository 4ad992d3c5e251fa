-- `web.https_redirect`: middleware that answers plain HTTP requests with a redirect to the same resource over HTTPS.
--
-- Invariant: the host in the redirect is in the option `hosts`, or has only the characters of a host name or an IP
-- address. A client sends any `Host`, and a cache may store the redirect for other clients.

local error_page = require "lio.web.error_page"
local misuse = require "lio.misuse"
local options = require "lio.options"

local OPTIONS <const> = {
  port = options.integer(1, 65535),
  status = options.one_of(301, 302, 303, 307, 308),
  hosts = options.table,
}

-- The longest host name, in bytes (RFC 1035 section 2.3.4).
local MAX_HOST <const> = 253

-- Returns the host in the value of a header field `Host` (RFC 9110 section 7.2), in lower case, without its port; nil
-- if it is not valid.
local function host_of(field)
  if not field or #field > MAX_HOST + 6 then return nil end
  local host, port = field:match "^(%[[%x:.]+%])(.*)$"
  if not host then host, port = field:match "^([%w._-]+)(.*)$" end
  if not host or #host > MAX_HOST or not (port == "" or port:find "^:%d*$") then return nil end
  return host:lower()
end

local function wrong_host(value)
  misuse.raise(("web.https_redirect: option 'hosts' must list host names, such as \"example.com\" or "
    .. "\"*.example.com\", without scheme and port, got %s"):format(misuse.shown(value)))
end

-- Returns a function that reports whether a host is one of the list.
local function matcher(list)
  local exact, suffixes = {}, {}
  for _, value in ipairs(list) do
    local rest = type(value) == "string" and value:match "^%*(%.[%w._-]+)$"
    if rest then
      suffixes[#suffixes + 1] = rest:lower()
    elseif type(value) == "string" and host_of(value) == value:lower() then
      exact[value:lower()] = true
    else
      wrong_host(value)
    end
  end
  if #list == 0 then misuse.raise "web.https_redirect: option 'hosts' is empty" end
  return function(host)
    if exact[host] then return true end
    for _, suffix in ipairs(suffixes) do
      if #host > #suffix and host:sub(-#suffix) == suffix then return true end
    end
    return false
  end
end

-- `web.https_redirect([options])` returns middleware. `port`: the port of the HTTPS server (443). `status`: of every
-- redirect; by default 301 for GET and HEAD, and 308 for other methods, which keep their method and body. `hosts`: the
-- hosts of this server; `*.example.com` is any host below example.com. A request for another host gets 421, and a
-- request without a valid host 400. A request for which `req.is_tls` is true is not redirected.
return function(opts)
  opts = options.check("web.https_redirect", 1, opts, OPTIONS)
  local port <const> = opts.port or 443
  local suffix <const> = port == 443 and "" or ":" .. port
  local is_known <const> = opts.hosts and matcher(opts.hosts)
  return function(req, res, next)
    if req.is_tls then return next() end
    local host = host_of(req.host)
    if not host then return error_page.for_status(req, 400) end
    if is_known and not is_known(host) then return error_page.for_status(req, 421) end
    -- The target of a request may be a URL with any host, so only its path is used. CONNECT has no path.
    local path = req.raw_path
    if path:sub(1, 1) ~= "/" then path = "/" end
    local query = req.raw_query and "?" .. req.raw_query or ""
    local is_read = req.method == "GET" or req.method == "HEAD"
    return res:redirect("https://" .. host .. suffix .. path .. query, opts.status or is_read and 301 or 308)
  end
end
