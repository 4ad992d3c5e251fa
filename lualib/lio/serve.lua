-- `lio serve DIR [options]`: serves a folder's files. The executable runs this file with the arguments after `serve` on
-- the command line; with `--workers`, each worker runs it again.

local USAGE <const> = [[
usage: lio serve DIR [options]
  --addr A     address to listen on (default 127.0.0.1; 0.0.0.0: all interfaces)
  --port P     port, 0 to 65535 (default 8080; 0: any free port)
  --workers N  number of threads that share the work, 1 to 1024
  --list       list directories that have no index.html
  --hidden     also serve names that begin with a dot
  --log        write a line per request to standard output
  -h, --help   show this help
]]

local function fail(message)
  io.stderr:write("lio serve: ", message, "\n")
  os.exit(1, true)
end

-- The ranges of options that take a number.
local RANGES <const> = { port = { low = 0, high = 65535 }, workers = { low = 1, high = 1024 } }
local WORDS <const> = { addr = true, port = true, workers = true }
local FLAGS <const> = { list = true, hidden = true, log = true }

local function number(name, text)
  local low, high = RANGES[name].low, RANGES[name].high
  local value = text:find "^%d+$" and math.tointeger(tonumber(text))
  if not value or value < low or value > high then
    fail(("--%s: a number from %d to %d expected, got '%s'"):format(name, low, high, text))
  end
  return value
end

local function wrong(message)
  fail(message .. "\n" .. USAGE:gsub("\n$", ""))
end

-- Parses the arguments. Returns the options; the field `folder` is the folder.
local function parse(...)
  local words, options = table.pack(...), {}
  local index, only_names = 1, false
  while index <= words.n do
    local word = words[index]
    local name, value = word:match "^%-%-([%w-]+)=?(.*)$"
    if only_names or word:sub(1, 1) ~= "-" then
      if options.folder then wrong("only one folder can be served, got '" .. word .. "' as well") end
      options.folder = word
    elseif word == "--" then
      only_names = true
    elseif word == "-h" or word == "--help" then
      io.stdout:write(USAGE)
      os.exit(0, true)
    elseif FLAGS[name] and not word:find("=", 1, true) then
      options[name] = true
    elseif WORDS[name] then
      if not word:find("=", 1, true) then
        index = index + 1
        value = words[index] or wrong("'" .. word .. "' needs a value")
      end
      options[name] = RANGES[name] and number(name, value) or value
    else
      wrong("unrecognized option '" .. word .. "'")
    end
    index = index + 1
  end
  if not options.folder then wrong "the folder is missing" end
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
if not ok then fail(plain(message)) end
local addr = options.addr or "127.0.0.1"
ok, message = pcall(app.run, app, options.port or 8080, {
  addr = addr,
  workers = options.workers,
  module = "lio.serve",
  args = table.pack(...),
})
if not ok then fail(plain(message)) end
