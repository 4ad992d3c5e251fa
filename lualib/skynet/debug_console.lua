-- The service `debug_console` of skynet, which `skynet.newservice("debug_console", [address,] port)` creates: a server
-- for telnet, whose lines are commands. A line "GET /command/argument HTTP/1.1" is a request of HTTP. By default it
-- listens on 127.0.0.1, because its clients may run any code.

local skynet = require "skynet"
local socket = require "skynet.socket"

-- How long commands wait for the answers of services, unless the user says otherwise, in centiseconds.
local TIMEOUT <const> = 300
-- The longest line, in bytes.
local LIMIT <const> = 8192

local arguments <const> = table.pack(...)

-- Output -------------------------------------------------------------------------------------

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function format_value(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, key in ipairs(sorted_keys(value)) do parts[i] = ("%s:%s"):format(key, tostring(value[key])) end
  return table.concat(parts, "\t")
end

-- Writes the result of a command. Each field of a table is a line.
local function show(print, result)
  if result == nil then return end
  if type(result) ~= "table" then return print(result) end
  for _, key in ipairs(sorted_keys(result)) do print(key, format_value(result[key])) end
end

-- Commands -----------------------------------------------------------------------------------

-- Returns the service of an address: ".name", ":0000000a", or hexadecimal digits.
local function find(text)
  if not text then error("an address is missing", 0) end
  if text:sub(1, 1) == "." then return skynet.localname(text) or error("there is no service " .. text, 0) end
  local id = tonumber(text:match "^:?(%x+)$" or "", 16)
  return id or error(("'%s' is not an address, such as :0000000a"):format(text), 0)
end

local function launcher(...)
  return skynet.call(".launcher", "lua", ...)
end

local function debug(address, ...)
  return skynet.call(find(address), "debug", ...)
end

local CMD, HELP = {}, {}

local function command(name, text, f)
  CMD[name], HELP[name] = f, text
end

command("help", "this list", function() return HELP end)
command("list", "the services", function() return launcher "LIST" end)
command("stat", "[centiseconds]: the statistics of the services",
  function(time) return launcher("STAT", tonumber(time) or TIMEOUT) end)
command("mem", "[centiseconds]: the memory of the services",
  function(time) return launcher("MEM", tonumber(time) or TIMEOUT) end)
command("gc", "[centiseconds]: collects garbage in all services",
  function(time) return launcher("GC", tonumber(time) or TIMEOUT) end)
command("start", "name …: starts a service", function(name, ...)
  if not name then error("the name of a service is missing", 0) end
  return { [skynet.address(skynet.newservice(name, ...))] = table.concat({ name, ... }, " ") }
end)
command("kill", "address: ends a service", function(address) return launcher("KILL", find(address)) end)
command("exit", "address: makes a service call skynet.exit",
  function(address) skynet.send(find(address), "debug", "EXIT") end)
command("info", "address …: the result of the service's info_func",
  function(address, ...) return debug(address, "INFO", ...) end)
command("task", "address [session]: what the coroutines of a service wait for",
  function(address, session) return debug(address, "TASK", math.tointeger(tonumber(session))) end)
command("uniqtask", "address: each different traceback once", function(address) return debug(address, "UNIQTASK") end)
command("killtask", "address coroutine: closes a coroutine", function(address, which)
  return debug(address, "KILLTASK", math.tointeger(tonumber(which)) or which)
end)
command("ping", "address: how long an answer takes, in centiseconds", function(address)
  local began = skynet.now()
  debug(address, "PING")
  return skynet.now() - began
end)
command("trace", "address [protocol] on|off: traces the messages of a service", function(address, name, flag)
  if not flag then name, flag = "lua", name end
  if flag ~= "on" and flag ~= "off" then error("'on' or 'off' expected", 0) end
  debug(address, "TRACELOG", name, flag == "on")
end)
command("netstat", "the sockets", function()
  local list = {}
  for _, one in ipairs(socket.netstat()) do list[tostring(one.id)] = one end
  return list
end)
command("getenv", "name: a value of the configuration", skynet.getenv)
command("setenv", "name value: sets a value", skynet.setenv)
command("inject", "address file …: runs a file in a service", function(address, path, ...)
  local id = find(address)
  local file = assert(io.open(path or "", "rb"))
  local source = file:read "a"
  file:close()
  local ok, output = skynet.call(id, "debug", "RUN", source, "@" .. path, ...)
  if not ok then error(output, 0) end
  return output
end)

-- The rest of the line contains Lua values, so this command gets the line.
HELP.call = "address values: sends a request of the protocol lua, such as: call :0000000a \"get\", 1"

local function call(line)
  local address, values = line:match "^%s*call%s+(%S+)%s*(.*)$"
  local id = find(address)
  local f, problem = load("return " .. values, "=call", "t", {})
  if not f then error(problem, 0) end
  local answer = table.pack(skynet.call(id, "lua", f()))
  answer.n = nil
  return answer
end

local function run(line)
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word end
  if words[1] == "call" then return call(line) end
  local f = CMD[words[1]]
  if not f then error("Invalid command, type help for command list", 0) end
  return f(table.unpack(words, 2))
end

local function answer(line, print)
  local ok, result = pcall(run, line)
  if ok then
    show(print, result)
    return print "<CMD OK>"
  end
  print(type(result) == "table" and result.message or result)
  print "<CMD Error>"
end

-- Clients ------------------------------------------------------------------------------------

-- Answers a request of HTTP: the parts of its path are the words of a command.
local function answer_http(id, line)
  local read = require "http.sockethelper".readfunc(id, line .. "\n")
  local httpd = require "http.httpd"
  local code, target = httpd.read_request(read, LIMIT)
  if not code then return end
  local lines = {}
  if code == 200 then
    local path = require "http.url".parse(target)
    answer(path:gsub("^/", ""):gsub("/", " "), function(...)
      local values = table.pack(...)
      for i = 1, values.n do values[i] = tostring(values[i]) end
      lines[#lines + 1] = table.concat(values, "\t") .. "\n"
    end)
  end
  httpd.write_response(require "http.sockethelper".writefunc(id), code, table.concat(lines))
end

local function serve(id)
  local function print(...)
    local values = table.pack(...)
    for i = 1, values.n do values[i] = tostring(values[i]) end
    socket.write(id, table.concat(values, "\t") .. "\n")
  end
  socket.limit(id, LIMIT)
  local line = socket.readline(id, "\n")
  if line and line:find "^GET " then
    answer_http(id, line)
    return socket.close(id)
  end
  while line do
    line = line:gsub("\r$", "")
    if line ~= "" then answer(line, print) end
    line = socket.readline(id, "\n")
  end
  socket.close(id)
end

skynet.start(function()
  local host = arguments.n == 2 and arguments[1] or "127.0.0.1"
  local port = math.tointeger(tonumber(arguments[arguments.n]))
  if arguments.n > 2 or not port then error("debug_console: the arguments are [address,] port", 0) end
  local id, bound, number = socket.listen(host, port)
  skynet.error(("Start debug console at %s:%d"):format(bound, number))
  socket.start(id, function(client, address)
    skynet.error(("%s connected"):format(address))
    socket.start(client)
    serve(client)
    skynet.error(("%s disconnected"):format(address))
  end)
end)
