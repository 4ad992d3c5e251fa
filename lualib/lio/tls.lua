-- `lio.tls`: TLS of servers and clients, for `net.listen`, `net.connect`, `c:start_tls`, `app:run` and
-- `lio.http.client`; and certificates for development.
--
-- These calls take the options of `tls.server` or `tls.client` as a table, or an object that `server` or `client` has
-- made of them. An object reads the files once, and a client object resumes sessions between its connections.

local core = require "lio.tls.core"
local crypto = require "lio.crypto.core"
local misuse = require "lio.misuse"
local options = require "lio.options"

local M = {}

-- Time limits and sizes of servers, in seconds and handshakes.
local HANDSHAKE_TIMEOUT <const>, MAX_HANDSHAKES <const> = 10, 4096
-- The time for which certificates for development are valid, in days.
local DEVELOPMENT_DAYS <const> = 365

local function is_list_of_strings(value)
  if type(value) ~= "table" or #value == 0 then return false end
  for key, one in pairs(value) do
    if math.type(key) ~= "integer" or type(one) ~= "string" then return false end
  end
  return true
end

local FILE <const> = options.rule("a path, or a text in PEM", function(value)
  return type(value) == "string" and value ~= "" and not value:find("\0", 1, true)
end)
local KEY <const> = options.secret("a path, or a text in PEM", FILE.test)
local FILES <const> = options.rule("a path or a text in PEM, or a list of these", function(value)
  return FILE.test(value) or is_list_of_strings(value)
end)
local PROTOCOLS <const> = options.rule("a list of names, each of 1 to 255 bytes", function(value)
  if not is_list_of_strings(value) then return false end
  for _, name in ipairs(value) do
    if #name < 1 or #name > 255 then return false end
  end
  return true
end)
local VERSION <const> = options.one_of("1.2", "1.3")

local SERVER <const> = {
  cert = FILE,
  key = KEY,
  certs = options.rule("a list of tables with cert and key", function(value)
    return type(value) == "table" and #value > 0
  end),
  alpn = PROTOCOLS,
  client_ca = FILES,
  client = options.one_of("required", "optional"),
  crl = FILES,
  min_version = VERSION,
  handshake_timeout = options.seconds,
  max_handshakes = options.integer(1),
}

local CERTIFICATE <const> = { cert = FILE, key = KEY }

local CLIENT <const> = {
  ca = FILES,
  crl = FILES,
  pins = options.rule("a list of 'sha256/' with 44 characters of base64", is_list_of_strings),
  cert = FILE,
  key = KEY,
  alpn = PROTOCOLS,
  server_name = options.rule("a host name or an IP address", function(value)
    return type(value) == "string" and value ~= ""
  end),
  min_version = VERSION,
  dangerously_skip_verification = options.boolean,
}

-- The settings that listeners use: object of `server`: table.
local settings = setmetatable({}, { __mode = "k" })

local function list(value)
  if value == nil then return {} end
  return type(value) == "table" and value or { value }
end

local function raise(call, message)
  misuse.raise(("%s: %s"):format(call, message))
end

-- Servers --------------------------------------------------------------------------------------------

-- Returns a list of the certificates, in which each chain is followed by its key.
local function identities(call, opts)
  local all = {}
  if opts.cert or opts.key then
    if not (opts.cert and opts.key) then raise(call, "options 'cert' and 'key' are needed together") end
    all[1], all[2] = opts.cert, opts.key
  end
  for index, one in ipairs(opts.certs or {}) do
    one = options.check(("%s: option 'certs', element %d"):format(call, index), 1, one, CERTIFICATE, "field")
    if not (one.cert and one.key) then
      raise(call, ("option 'certs': element %d needs cert and key"):format(index))
    end
    all[#all + 1], all[#all + 2] = one.cert, one.key
  end
  if #all == 0 then raise(call, "option 'cert' is missing: a server needs a certificate and its key") end
  return all
end

local function new_server(call, index, opts)
  opts = options.check(call, index, opts, SERVER)
  if opts.client and not opts.client_ca then
    raise(call, "option 'client' needs 'client_ca', the authorities of the clients' certificates")
  end
  local server, message, code = core.server(identities(call, opts), opts.alpn or {}, list(opts.client_ca),
    opts.client == "optional", list(opts.crl), opts.min_version or "1.2")
  if not server then return nil, message, code end
  settings[server] = {
    handshake_timeout = opts.handshake_timeout or HANDSHAKE_TIMEOUT,
    max_handshakes = opts.max_handshakes or MAX_HANDSHAKES,
  }
  return server
end

-- `server(opts)` returns TLS of a server, or nil, message, "tls". `opts`:
--   `cert`, `key`        the certificate chain and the private key: paths, or texts in PEM
--   `certs`              a list of tables with `cert` and `key`; a client gets the one for the name that it requests
--                        (SNI), otherwise the first
--   `alpn`               the protocols to negotiate (RFC 7301), the preferred one first
--   `client_ca`          authorities of client certificates: makes clients present one (mutual TLS)
--   `client`             "required" (default) or "optional"
--   `crl`                lists of revoked client certificates
--   `min_version`        "1.2" (default) or "1.3"
--   `handshake_timeout`  seconds (10)
--   `max_handshakes`     the maximum number at the same time (4096); the oldest one then ends
function M.server(opts)
  return new_server("tls.server", 1, opts or {})
end

-- Clients --------------------------------------------------------------------------------------------

-- Returns the digests of the option `pins`.
local function pins(call, texts)
  local all = {}
  for index, text in ipairs(texts or {}) do
    local encoded = text:match "^sha256/(.+)$"
    local digest = encoded and crypto.base64_decode(encoded)
    if not digest or #digest ~= 32 then
      raise(call, ("option 'pins': element %d must be 'sha256/' with 44 characters of base64"):format(index))
    end
    all[index] = digest
  end
  return all
end

local function new_client(call, index, opts)
  opts = options.check(call, index, opts, CLIENT)
  if (opts.cert == nil) ~= (opts.key == nil) then raise(call, "options 'cert' and 'key' are needed together") end
  local skips = opts.dangerously_skip_verification
  local client, message, code = core.client(list(opts.ca), list(opts.crl), pins(call, opts.pins),
    { opts.cert, opts.key }, opts.alpn or {}, opts.server_name, skips, opts.min_version or "1.2")
  if client and skips then
    require "lio.net.report" "dangerously_skip_verification: certificates of servers are not verified"
  end
  return client, message, code
end

-- `client(opts)` returns TLS of a client, or nil, message, "tls". `opts`:
--   `ca`           authorities to trust instead of the system's: paths, or texts in PEM
--   `crl`          lists of revoked certificates
--   `pins`         public keys, one of which the chain must contain: "sha256/" and the digest in base64
--   `cert`, `key`  the client's own certificate, for mutual TLS
--   `alpn`         the protocols to offer (RFC 7301), the preferred one first
--   `server_name`  the name to request and to verify, instead of the host to which the client connects
--   `min_version`  "1.2" (default) or "1.3"
--   `dangerously_skip_verification`  true: accepts any certificate, so the network can read the data; logged
function M.client(opts)
  return new_client("tls.client", 1, opts or {})
end

-- For other files of the library ---------------------------------------------------------------------

local IS_SERVER <const>, IS_CLIENT <const> = { ["lio.tls.server"] = true }, { ["lio.tls.client"] = true }

-- `server_of(call, value)` returns the object of `tls.server` for `value`, the option `tls` of a call: the object, or
-- its options. On failure, returns nil, message, "tls".
function M.server_of(call, value)
  if misuse.is_named(value, IS_SERVER) then return value end
  if type(value) ~= "table" then
    options.wrong(call, "tls", "a table of options or a result of tls.server", value)
  end
  return new_server(call .. ": option 'tls'", 1, value)
end

-- `settings_of(server)` returns the settings of an object for listeners: `handshake_timeout` and `max_handshakes`.
function M.settings_of(server)
  return settings[server]
end

-- The client that verifies certificates with the system's authorities, made when it is first used.
local usual

-- `client_of(call, value)`: like `server_of`, for `tls.client`; `true` means the default options.
function M.client_of(call, value)
  if misuse.is_named(value, IS_CLIENT) then return value end
  if value == true then
    usual = usual or assert(new_client(call, 1, {}))
    return usual
  end
  if type(value) ~= "table" then
    options.wrong(call, "tls", "true, a table of options or a result of tls.client", value)
  end
  return new_client(call .. ": option 'tls'", 1, value)
end

-- `is_server(value)` returns whether a value is a result of `server`.
function M.is_server(value)
  return misuse.is_named(value, IS_SERVER)
end

-- Certificates for development -----------------------------------------------------------------------

local REQUEST <const> = {
  names = options.rule("a list of host names and IP addresses", is_list_of_strings),
  subject = options.string,
  days = options.rule("a number of days, at most 36500", function(value)
    return type(value) == "number" and math.abs(value) <= 36500
  end),
  start = options.any_number,
}

-- Returns the names, the subject, and the times between which the certificate is valid, in seconds from now.
local function request(call, opts)
  opts = options.check(call, 1, opts, REQUEST)
  local names = opts.names or { "localhost", "127.0.0.1", "::1" }
  local from = (opts.start or 0) * 86400 // 1 | 0
  local days = opts.days or DEVELOPMENT_DAYS
  return names, opts.subject or names[1], from, (days * 86400 // 1 | 0)
end

-- `self_signed([opts])` returns a certificate and its key, in PEM; or nil, message, "tls". `opts`: `names` (a list of
-- host names and IP addresses; default: localhost and its addresses), `subject` (its common name; default: the first
-- name), `days` (until it expires; 365) and `start` (in how many days it becomes valid; 0). Clients must trust the
-- certificate itself: `{ ca = certificate }`.
function M.self_signed(opts)
  return core.self_signed(request("tls.self_signed", opts))
end

local Authority = {}
Authority.__index = Authority
Authority.__name = "lio.authority"

-- `authority([name])` returns an authority that exists only in this program, for tests; `authority.cert` is its own
-- certificate in PEM, which clients trust with `{ ca = authority.cert }`.
function M.authority(name)
  if name ~= nil then misuse.check("authority", 1, name, "string") end
  local made = assert(core.authority(name or "lio development authority", DEVELOPMENT_DAYS))
  return setmetatable({ core = made, cert = made:certificate() }, Authority)
end

-- `authority:issue([opts])` returns a certificate that the authority has signed, and its key, in PEM. `opts` are those
-- of `self_signed`. The certificate is for servers and for clients.
function Authority:issue(opts)
  return self.core:issue(request("authority:issue", opts))
end

return M
