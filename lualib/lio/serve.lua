-- `lio serve DIR [options]`: serves a folder's files. The executable runs this file with the arguments after `serve` on
-- the command line; with `--workers`, each worker runs it again.

local command = require "lio.command".new("serve", [[
usage: lio serve DIR [options]
  --addr A     address to listen on (default 127.0.0.1; 0.0.0.0: all interfaces)
  --port P     port, 0 to 65535 (default 8080; 0: any free port)
  --workers N  number of threads that share the work, 1 to 1024
  --list       list directories that have no index.html
  --hidden     also serve names that begin with a dot
  --log        write a line per request to standard output
  -h, --help   show this help
]], { addr = "value", port = "value", workers = "value", list = "flag", hidden = "flag", log = "flag" })

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
  options.folder = folders[1] or command:wrong "the folder is missing"
  return options
end

-- Returns an error's message, from which the position, the name of the call and the error number are removed.
local function plain(message)
  return (tostring(message):gsub("^[%w_./?=-]+:[%d?]+: ", ""):gsub("^[%a:]+: ", "", 1):gsub(" %(os error %d+%)", ""))
end

local options = parse(...)
local web = require "lio.webserver"
local app = web.new()
if options.log then app:use(web.log {}) end
local ok, message = pcall(app.static, app, "/", options.folder, { list = options.list, hidden = options.hidden })
if not ok then command:fail("%s", plain(message)) end
local addr = options.addr or "127.0.0.1"
ok, message = pcall(app.run, app, options.port or 8080, {
  addr = addr,
  workers = options.workers,
  module = "lio.serve",
  args = table.pack(...),
})
if not ok then command:fail("%s", plain(message)) end
