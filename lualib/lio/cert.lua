-- `lio cert [NAME ...] [options]`: writes a certificate for development, and its key. The executable runs this file
-- with the arguments after `cert` on the command line.

local command = require "lio.command".new("cert", [[
usage: lio cert [NAME ...] [options]
  NAME         host name or IP address of the certificate, may be repeated
               (default: localhost 127.0.0.1 ::1); *.example.com stands for any first label
  --out DIR    folder for the files cert.pem and key.pem, created if missing (default: the current folder)
  --days N     number of days for which the certificate is valid, 1 to 36500 (default 365)
  --authority  also create an authority that signs the certificate, in authority.pem
  --force      replace existing files
  -h, --help   show this help
]], { out = "value", days = "value", authority = "flag", force = "flag" })
local file = require "lio.file"
local fingerprint = require "lio.tls.fingerprint"
local tls = require "lio.tls"

-- An authority is valid for this number of days, so that it can sign no certificate that is valid for longer.
local AUTHORITY_DAYS <const> = 365

local function quote(path)
  return "'" .. path:gsub("'", "'\\''") .. "'"
end

local function days_of(options)
  local text, most = options.days, options.authority and AUTHORITY_DAYS or 36500
  if not text then return nil end
  local value = text:find "^%d+$" and math.tointeger(tonumber(text))
  if not value or value < 1 or value > most then
    command:fail("--days: a number from 1 to %d%s expected, got '%s'", most,
      options.authority and " (with --authority)" or "", text)
  end
  return value
end

-- Ends the process unless the names can be in a certificate.
local function check_names(names)
  for _, name in ipairs(names) do
    local is_address = name:find ":" and not name:find "[^%x:.]" or name:find "^%d+%.%d+%.%d+%.%d+$"
    if #name > 253 or not is_address and not name:find "^%*?[%w._-]+$" then
      command:wrong("'%s' is no host name and no IP address", name)
    end
  end
end

-- Creates the folder if it does not exist. Ends the process unless that succeeds and, without `--force`, the folder
-- contains no file with one of these names.
local function check_folder(path, names, force)
  local folder, message, code = file.folder(path)
  if code == "not found" and os.execute(("mkdir -m 700 -- %s 2>/dev/null"):format(quote(path))) then
    folder, message = file.folder(path)
  end
  if not folder then command:fail("cannot write to %s: %s", path, message:gsub("^open: ", "", 1)) end
  for _, name in ipairs(names) do
    local found <close> = folder:open(name)
    if found and not force then command:fail("%s/%s exists; --force replaces it", path, name) end
  end
  folder:close()
end

-- Writes a new file. The mode is set when the file is created: at no time can other users read a key. `set -C` fails if
-- the file exists.
local function write(path, text, mask)
  local quoted = quote(path)
  local pipe = assert(io.popen(("rm -f -- %s && set -C && umask %s && cat > %s"):format(quoted, mask, quoted), "w"))
  pipe:write(text)
  if not pipe:close() then command:fail("cannot write %s", path) end
end

local options, names = command:parse(...)
check_names(names)
local request = { names = names[1] and names or nil, days = days_of(options) }
local out = options.out or "."
local files = { "cert.pem", "key.pem", options.authority and "authority.pem" or nil }
check_folder(out, files, options.force)

local authority, certificate, key
if options.authority then
  authority = tls.authority()
  certificate, key = authority:issue(request)
else
  certificate, key = tls.self_signed(request)
end
if not certificate then command:fail("%s", key) end
-- Programs that use the files may run as another user, and the certificates are public.
write(out .. "/key.pem", key, "077")
write(out .. "/cert.pem", certificate, "022")
if authority then write(out .. "/authority.pem", authority.cert, "022") end

local trusted = authority and "authority.pem" or "cert.pem"
local path = out == "." and trusted or quote(out .. "/" .. trusted)
io.stdout:write("created in ", out, ": ", table.concat(files, ", "), "\n",
  "SHA-256 fingerprint of cert.pem: ", fingerprint(certificate), "\n",
  ("clients trust %s, for example: curl --cacert %s https://%s:8443/\n"):format(trusted, path,
    (names[1] or "localhost"):gsub("^%*", "www"):gsub("^.*:.*$", "[%0]")))
