-- Every call that takes a table of options refuses unknown names and invalid values; the error contains the caller's
-- line.

local t = require "tests.kit"
local http = require "lio.http.client"
local lio = require "lio" -- also makes `bee.select` loadable in a stock Lua
local bee_select = require "bee.select"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"
local web = require "lio.webserver"

-- Checks that `f` raises exactly `message`, with the line where `f` is defined.
local function raises_here(message, f)
  local ok, problem = pcall(f)
  t.eq(ok, false, message)
  local line = debug.getinfo(f, "S").linedefined
  local source = debug.getinfo(f, "S").short_src
  t.eq(problem, ("%s:%d: %s"):format(source, line, message))
end

local app = web.new()

-- Regression: `app:run(8080, { worker = 4 })` raised no error and used only one core.
t.test("an option with an unknown name is refused, and the error suggests the nearest name", function()
  raises_here("app:run: option 'worker' is unknown (did you mean 'workers'?)",
    function() app:run(0, { worker = 4 }) end)
  raises_here("app:listen: option 'backlock' is unknown (did you mean 'backlog'?)",
    function() app:listen(0, { backlock = 1 }) end)
  raises_here("net.connect: option 'timout' is unknown (did you mean 'timeout'?)",
    function() net.connect("127.0.0.1", 9, { timout = 1 }) end)
  raises_here("net.listen: option 'reusePort' is unknown (did you mean 'reuseport'?)",
    function() net.listen("127.0.0.1", 0, { reusePort = true }) end)
  raises_here("net.bind: option 'v6_only' is unknown (did you mean 'v6only'?)",
    function() net.bind("127.0.0.1", 0, { v6_only = true }) end)
  raises_here("net.serve: option 'max_connection' is unknown (did you mean 'max_connections'?)",
    function() net.serve(nil, print, { max_connection = 1 }) end)
  raises_here("web.new: option 'bdoy' is unknown (did you mean 'body'?)", function() web.new { bdoy = 1 } end)
  raises_here("app:static: option 'lst' is unknown (did you mean 'list'?)",
    function() app:static("/", ".", { lst = true }) end)
  raises_here("web.compress: option 'levels' is unknown (did you mean 'level'?)",
    function() web.compress { levels = 1 } end)
  raises_here("web.log: option 'fomat' is unknown (did you mean 'format'?)", function() web.log { fomat = "json" } end)
  raises_here("http.new: option 'max_per_hosts' is unknown (did you mean 'max_per_host'?)",
    function() http.new { max_per_hosts = 1 } end)
  raises_here("http.get: option 'timeot' is unknown (did you mean 'timeout'?)",
    function() http.get("http://127.0.0.1/", { timeot = 1 }) end)
  raises_here("http.request: option 'metod' is unknown (did you mean 'method'?)",
    function() http.request { url = "http://127.0.0.1/", metod = "GET" } end)
end)

t.test("the error for a name that resembles no option lists the options", function()
  raises_here("app:run: option 'threads' is unknown (known: addr, backlog, max_run_time, mode, proxy_protocol, "
    .. "reuseport, tls, v6only, watchdog, workers)", function() app:run(0, { threads = 4 }) end)
  raises_here("net.connect: option 't' is unknown (known: attempt, timeout, tls)",
    function() net.connect("127.0.0.1", 9, { t = 1 }) end)
  raises_here("net.connect: option names must be strings, got 1", function() net.connect("127.0.0.1", 9, { 5 }) end)
end)

t.test("values from a metatable are options too", function()
  local function inherits(values) return setmetatable({}, { __index = values }) end
  raises_here('net.connect: option \'timeout\' must be a positive number of seconds, got "x"',
    function() net.connect("127.0.0.1", 9, inherits { timeout = "x" }) end)
  raises_here("http.get: option 'limit' must be an integer of at least 0, or math.huge for no limit, got -1",
    function() http.get("http://127.0.0.1/", inherits(function(_, name) return name == "limit" and -1 or nil end)) end)
  t.eq(web.new(inherits { grace = 7 }).grace, 7)
  t.eq(web.new(inherits { fields = 7 }).settings.fields, 7)
end)

t.test("an address without a path, or an address that is given twice, is refused", function()
  raises_here("app:listen: cannot parse the address 'unix:'; an example is 127.0.0.1:8080",
    function() app:listen "unix:" end)
  raises_here("app:listen: option 'addr' needs a port, but the address is '127.0.0.1:0'",
    function() app:listen("127.0.0.1:0", { addr = "0.0.0.0" }) end)
end)

t.test("the error for an invalid value describes the valid values", function()
  local seconds = "net.connect: option 'timeout' must be a positive number of seconds, got "
  raises_here(seconds .. '"5"', function() net.connect("127.0.0.1", 9, { timeout = "5" }) end)
  raises_here(seconds .. "0", function() net.connect("127.0.0.1", 9, { timeout = 0 }) end)
  raises_here(seconds .. "-1", function() net.connect("127.0.0.1", 9, { timeout = -1 }) end)
  raises_here(seconds .. "nan", function() net.connect("127.0.0.1", 9, { timeout = 0 / 0 }) end)
  raises_here(seconds .. "a table", function() net.connect("127.0.0.1", 9, { timeout = {} }) end)
  raises_here("net.connect: option 'attempt' must be a result of net.attempt, got a table",
    function() net.connect("127.0.0.1", 9, { attempt = {} }) end)
  raises_here("app:run: option 'workers' must be an integer from 1 to 1024, got 1.5",
    function() app:run(0, { workers = 1.5 }) end)
  raises_here("net.serve: option 'on_error' must be a function, got true",
    function() net.serve(nil, print, { on_error = true }) end)
  raises_here("web.new: option 'debug' must be true or false, got \"yes\"", function() web.new { debug = "yes" } end)
  raises_here("http.get: option 'read_timeout' must be a positive number of seconds or false for no limit, got 0",
    function() http.get("http://127.0.0.1/", { read_timeout = 0 }) end)
end)

-- Regression: these errors named a function of the library, or had the position of a line of the library.
t.test("an error about an argument names the call and has the program's line", function()
  local app_of <const> = require("lio.webservice").app
  raises_here("bad argument #1 to 'app' (table expected, got number)", function() app_of(5) end)
  raises_here("webservice.app: field 'hom' is unknown (did you mean 'home'?)", function() app_of { hom = "x" } end)
  raises_here("webservice.app: field 'options': web.new: option 'bdoy' is unknown (did you mean 'body'?)",
    function() app_of { options = { bdoy = 1 } } end)
  raises_here("webservice.app: cgi['/:id']: a path without ':', '*', '{', '}', '?' or '#' expected",
    function() app_of { cgi = { ["/:id"] = "x" } } end)
  raises_here("bad argument #1 to 'new' (selector expected, got number)", function() net.new(5, 5) end)
  local selector <close> = lio.create()
  raises_here("bad argument #2 to 'new' (table expected, got number)", function() net.new(selector, 5) end)
  raises_here("bad argument #2 to 'new' (field 'fork' must be a function, got 1)",
    function() net.new(selector, { wait = print, wakeup = print, fork = 1 }) end)
  raises_here("bad argument #2 to 'new' (field 'timers' must be a result of timer.new, got a table)",
    function() net.new(selector, { wait = print, wakeup = print, fork = print, timers = {} }) end)
  raises_here("bad argument #1 to 'use' (table expected, got number)", function() net.use(5) end)
  raises_here("net.remote: works only inside a service", function() net.remote() end)
  raises_here("bad argument #1 to 'create' (number expected, got string)", function() bee_select.create "x" end)
  local closed <const> = socket.create "tcp"
  closed:close()
  raises_here("bad argument #1 to 'wrap' (socket is already closed)", function() net.wrap(closed) end)
  raises_here("bad argument #1 to 'admit' (connection expected, got table)", function() app:server():admit {} end)
end)

-- Regression: the errors were about the port, which such an address does not have.
t.test("an address 'unix:' without a path is refused", function()
  local problem <const> = "bad argument #1 to '%s' (a path expected after 'unix:')"
  raises_here(problem:format "listen", function() net.listen "unix:" end)
  raises_here(problem:format "bind", function() net.bind "unix:" end)
  raises_here(problem:format "connect", function() net.connect "unix:" end)
  raises_here("http.new: option 'socket' must be a path, got \"\"", function() http.new { socket = "" } end)
end)

-- Regression: such an error contained a position in the library in addition to the program's, and did not name the
-- option.
t.test("a value that cannot be sent is an error that names the option", function()
  local url <const> = "http://127.0.0.1:1/"
  loop.run(function()
    raises_here("http.post: option 'json': cannot encode NaN", function() http.post(url, { json = 0 / 0 }) end)
    raises_here("http.post: option 'form': the value of 'a' must be a string, number, boolean or a list of them, "
      .. "not function", function() http.post(url, { form = { a = print } }) end)
    raises_here("http.get: option 'query': keys must be strings, not number",
      function() http.get(url, { query = { 1 } }) end)
    raises_here("http.request: method must be a token, not \"a b\"",
      function() http.request { url = url, method = "a b" } end)
  end)
end)

t.test("a value that is not a table of options is an invalid argument", function()
  raises_here("bad argument #3 to 'connect' (table of options expected, got number)",
    function() net.connect("127.0.0.1", 9, 5) end)
  raises_here("bad argument #2 to 'run' (table of options expected, got number)",
    function() app:run(0, 4) end)
  raises_here("bad argument #2 to 'listen' (table of options expected, got string)", function() app:listen(0, "x") end)
  raises_here("bad argument #3 to 'serve' (table of options expected, got boolean)",
    function() net.serve(nil, print, true) end)
  raises_here("bad argument #1 to 'new' (table of options expected, got number)", function() web.new(5) end)
  raises_here("bad argument #2 to 'get' (table of options expected, got number)",
    function() http.get("http://x/", 5) end)
end)

t.test("the error has the caller's line, even in a task, inside pcall, and in a function with a name", function()
  loop.run(function()
    raises_here("net.connect: option 'timout' is unknown (did you mean 'timeout'?)",
      function() net.connect("127.0.0.1", 9, { timout = 1 }) end)
  end)
  local ok, message = pcall(net.connect, "127.0.0.1", 9, { timout = 1 })
  t.eq(ok, false)
  local line = debug.getinfo(1, "l").currentline - 2
  t.eq(message:match ":%d+: net%.connect: ", (":%d: net.connect: "):format(line), message)
end)

-- Regression: connect refused the family, which follows the address and the port, as an invalid table of options.
t.test("the results of listener:address() can be passed to connect", function()
  loop.run(function()
    local listener <close> = t.ok(net.listen("127.0.0.1", 0))
    local c <close> = t.ok(net.connect(listener:address()))
    t.eq(select(2, c:peer()), select(2, listener:address()))
  end)
end)

-- Regression: `math.huge` raised `number has no integer representation` in the library, a larger integer raised in the
-- first request, and fractions were accepted.
t.test("an option that is an integer refuses other numbers", function()
  local function refused(call, name, wanted, ...)
    for _, wrong in ipairs { ... } do
      local ok, message = pcall(call, { [name] = wrong })
      t.eq(ok, false, name)
      t.eq(message:match " (option '.*)$", ("option '%s' must be %s, got %s"):format(name, wanted, wrong))
    end
  end
  refused(http.new, "max_header", "an integer from 1 to 1073741824", 0, 1.5, 1 << 40, math.huge)
  refused(http.new, "max_fields", "an integer from 1 to 256", 0, 1.5, 257, math.huge)
  refused(http.new, "redirects", "an integer of at least 0", -1, 1.5, math.huge)
  for _, name in ipairs { "limit", "max_idle", "max_idle_per_host", "max_per_host" } do
    refused(http.new, name, "an integer of at least 0, or math.huge for no limit", -1, 1.5)
    http.new { [name] = math.huge }
  end
  local function serve(options) return net.serve(nil, print, options) end
  refused(serve, "max_connections", "an integer of at least 0, or math.huge for no limit", -1, 1.5)
  refused(web.new, "request_line", "an integer from 1 to 1073741824", 0, 1.5, math.huge)
  refused(web.new, "headers", "an integer from 1 to 1073741824", 0, 1.5, math.huge)
  refused(web.new, "fields", "an integer from 1 to 256", 0, 1.5, 257)
  refused(web.new, "body", "an integer of at least 0, or math.huge for no limit", -1, 1.5)
  refused(web.compress, "min", "an integer of at least 0", -1, 1.5, math.huge)
end)

t.test("a float without a fraction is an integer option", function()
  http.new { max_header = 2 ^ 16, max_fields = 1e2, redirects = 3.0, limit = 2 ^ 30, max_idle = 1e3 }
  local settings = web.new { request_line = 2 ^ 10, headers = 1e4, fields = 5.0, body = 2 ^ 40 }.settings
  t.eq({ settings.request_line, settings.headers, settings.fields, settings.body }, { 1024, 10000, 5, 1 << 40 })
  for _, name in ipairs { "request_line", "headers", "fields", "body" } do
    t.eq(math.type(settings[name]), "integer", name)
  end
  net.serve(nil, print, { max_connections = 1e4 }):stop()
end)

t.test("an invalid default of a client is refused like an option", function()
  local before <const> = http.defaults.max_header
  http.defaults.max_header = math.huge
  local ok, message = pcall(http.new)
  http.defaults.max_header = before
  t.eq(ok, false)
  t.ok(message:find "http.new: option 'max_header' must be an integer from 1 to 1073741824, got inf$", message)
end)

-- Regression: `proxy = true` raised `attempt to index a boolean value` in the library.
t.test("an option that is a string or false refuses true", function()
  raises_here("http.get: option 'proxy' must be a string or false, got true",
    function() http.get("http://127.0.0.1/", { proxy = true }) end)
  raises_here("http.new: option 'proxy' must be a string or false, got true", function() http.new { proxy = true } end)
  http.new { proxy = false }
end)

t.finish()
