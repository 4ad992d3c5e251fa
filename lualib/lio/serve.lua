-- `lio serve DIR [options]`: serves a folder's files. The executable runs this file with the arguments after `serve` on
-- the command line; with `--workers`, each worker runs it again. If this file makes a certificate, it passes the
-- certificate to the workers as options.

local command = require "lio.command".new("serve", [[
usage: lio serve DIR [options]
  --addr A     address to listen on (default 127.0.0.1; 0.0.0.0: all interfaces)
  --port P     port, 0 to 65535 (default 8080; 0: any free port)
  --workers N  number of threads that share the work, 1 to 1024
  --list       list directories that have no index.html
  --hidden     also serve names that begin with a dot
  --log        write a line per request to standard output
  --tls        serve HTTPS, with a certificate for development unless --cert is given
  --cert F     file with the certificate chain in PEM; needs --key, implies --tls
  --key F      file with the private key in PEM
  -h, --help   show this help
]], { addr = "value", port = "value", workers = "value", list = "flag", hidden = "flag", log = "flag",
  tls = "flag", cert = "value", key = "value" })

-- The ranges of options that take a number.
local RANGES <const> = { port = { low = 0, high = 65535 }, workers = { low = 1, high = 1024 } }

local function number(name, text)
  local low, high = RANGES[name].low, RANGES[name].high
  local value = text:find "^%d+$" and math.tointeger(tonumber(text))
  if not value or value < low or value > high then
    command:fail("--%s: a number from %d to %d expected, got '%s'", name, low, high, text)
  end
  return value
end

-- Parses the arguments. Returns the options; the field `folder` is the folder.
local function parse(...)
  local options, folders = command:parse(...)
  if #folders > 1 then command:wrong("only one folder can be served, got '%s' as well", folders[2]) end
  for name in pairs(RANGES) do options[name] = options[name] and number(name, options[name]) end
  if (options.cert == nil) ~= (options.key == nil) then command:wrong "'--cert' and '--key' are needed together" end
  options.folder = folders[1] or command:wrong "the folder is missing"
  return options
end

-- Returns the absolute path without the components "." and "..".
local function absolute(path)
  if path:sub(1, 1) ~= "/" then path = (os.getenv "PWD" or "") .. "/" .. path end
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
  end
  return "/" .. table.concat(parts, "/")
end

-- Ends the program if clients could download the private key. The option can also be the text of a key.
local function check_key(options)
  local key = options.key
  if not key or key:find("-----BEGIN", 1, true) then return end
  local folder = absolute(options.folder):gsub("/$", "") .. "/"
  if absolute(key):sub(1, #folder) ~= folder then return end
  command:fail("the key '%s' is in the folder that is served, so clients could download it: move it elsewhere", key)
end

-- Returns an error's message, from which the position, the names of calls and the error number are removed.
local function plain(message)
  message = tostring(message):gsub("^[%w_./?=-]+:[%d?]+: ", ""):gsub("^[%a:]+: ", "", 1):gsub("^tls%.server: ", "")
  return (message:gsub(" %(os error %d+%)", ""))
end

-- Makes a certificate for development and prints how clients can trust it. Returns the certificate and its key.
local function make_certificate(addr)
  local names = { "localhost", "127.0.0.1", "::1" }
  if addr ~= "0.0.0.0" and addr ~= "::" and addr ~= names[2] and addr ~= names[3] then names[4] = addr end
  local cert, key = require("lio.tls").self_signed { names = names }
  if not cert then command:fail("%s", key) end
  io.stdout:write("lio: made a certificate for development; browsers warn of it, and show this SHA-256 fingerprint:\n",
    "  ", require "lio.tls.fingerprint"(cert), "\n",
    "  'lio cert' writes a certificate that clients can trust; serve it with --cert and --key\n")
  return cert, key
end

local options = parse(...)
local addr = options.addr or "127.0.0.1"
check_key(options)
local args = table.pack(...)
local web = require "lio.webserver"
local app = web.new()
if options.log then app:use(web.log {}) end
local ok, message = pcall(app.static, app, "/", options.folder, { list = options.list, hidden = options.hidden })
if not ok then command:fail("%s", plain(message)) end
if options.tls and not options.cert then
  options.cert, options.key = make_certificate(addr)
  -- The options begin the list, because `--` may end the options.
  args = table.pack("--cert=" .. options.cert, "--key=" .. options.key, ...)
end
ok, message = pcall(app.run, app, options.port or 8080, {
  addr = addr,
  workers = options.workers,
  tls = options.cert and { cert = options.cert, key = options.key } or nil,
  module = "lio.serve",
  args = args,
})
if not ok then command:fail("%s", plain(message)) end
