-- Calls every public function without arguments, and with each invalid value in each position. A call must either
-- succeed, or raise an error that contains the line of the call and the function's name as written in the call.
--
-- Each call is compiled from a string, so that Lua can find the function's name for the error message. The objects that
-- a call uses are created for this call.

local t = require "tests.kit"
local compress = require "lio.compress"
local crypto = require "lio.crypto"
local file = require "lio.file"
local http = require "lio.http.client"
local json = require "lio.json"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local signal = require "lio.signal"
local socket = require "lio.socket"
local thread = require "lio.thread"
local timer = require "lio.timer"
local web = require "lio.webserver"

local WRONG <const> = {
  "nil", "true", "-1", "2.5", "0/0", "1/0", "-1/0", "1e300", "math.maxinteger", "math.mininteger", "''", "'x'",
  "'\\0\\255'", "{}", "{ x = 1 }", "{ 1, 'x' }", "print", "coroutine.create(print)", "io.stdout",
}

local folder <const> = t.tmp()
t.write(folder .. "/file", "content")

-- Functions that create these objects. A key is a name that the strings use; its function is called when a string first
-- uses the name.
local makers = {}

function makers.sel() return lio.create() end
function makers.ready()
  local sel = lio.create()
  local waker = sel:waker()
  waker:wake()
  return sel
end
function makers.waker() return lio.create():waker() end
function makers.s() return (socket.create "tcp") end
function makers.unbound() return (socket.create "udp") end
function makers.pair() return (socket.pair()) end
function makers.endpoint() return socket.endpoint("inet", "127.0.0.1", 9) end
function makers.timers() return timer.new() end
function makers.id(env) return env.timers:add(1000, {}) end
function makers.f() return (file.open(folder .. "/file")) end
function makers.dir() return (file.folder(folder)) end
function makers.encoder() return compress.encoder "gzip" end
function makers.decoder() return compress.decoder "gzip" end
function makers.watcher() return signal.open "SIGWINCH" end
function makers.listener() return net.listen("127.0.0.1", 0) end
function makers.port(env) return select(2, env.listener:address()) end
function makers.closed()
  local s = socket.create "tcp"
  s:close()
  return s
end
function makers.web_server(env) return env.app:server() end
function makers.webservice() return require "lio.webservice" end
function makers.bee_select() return require "bee.select" end
function makers.c() return net.wrap((socket.pair())) end
function makers.udp() return net.udp("127.0.0.1", 0) end
function makers.attempt() return net.attempt() end
function makers.server(env) return net.serve(env.listener, function() end) end
function makers.co() return coroutine.create(print) end
function makers.th() return thread.spawn(loop.sleep, 1000) end
function makers.scope() return thread.scope() end
function makers.app() return web.new() end
function makers.inner() return web.new() end
function makers.client() return http.new() end
function makers.hash() return crypto.hash "md5" end
function makers.limit() return web.rate_limit { rate = 1 } end
function makers.store() return web.memory_store() end
function makers.key() return ("k"):rep(32) end
function makers.password()
  return "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
end

local MODULES <const> = {
  compress = compress, crypto = crypto, file = file, http = http, json = json, lio = lio, loop = loop, net = net,
  signal = signal, socket = socket, thread = thread, timer = timer, web = web, folder = folder,
}

-- Returns an environment for a call, and a function that closes the objects that were created in this environment.
local function new_env(given)
  local made = {}
  local env = setmetatable({}, { __index = function(env, name)
    local value = given and given[name] or MODULES[name] or _G[name]
    if value ~= nil then return value end
    local make = makers[name]
    if not make then return nil end
    value = make(env)
    rawset(env, name, value)
    made[#made + 1] = value
    return value
  end })
  return env, function(results)
    for _, list in ipairs { results or {}, made } do
      for at = 1, list.n or #list do
        local value = list[at]
        local kind = type(value)
        if (kind == "userdata" or kind == "table" and value ~= list) and io.type(value) == nil then
          local ok, close = pcall(function() return value.close end)
          if ok and close and value ~= http then pcall(close, value) end
          local has_stop, stop = pcall(function() return value.stop end)
          if has_stop and stop and value ~= loop then pcall(stop, value) end
        end
      end
    end
  end
end

local problems, calls
local walked = {} -- the names of the tested functions

-- Runs the call in the string `text`. If a loop is running, the call runs in a task, which is killed if it waits.
-- `given` is nil, or a table of further variables for the string.
local function try(text, name, given)
  calls = calls + 1
  local env, close = new_env(given)
  local chunk = assert(load("local results = table.pack(" .. text .. ") return results", "=program", "t", env))
  local results
  local function run()
    local ok, result = pcall(chunk)
    if ok then
      results = result
    elseif type(result) ~= "string" then
      problems[#problems + 1] = text .. " raises a " .. type(result)
    elseif not result:find("^program:1: ") or not result:find("%f[%w_]" .. name .. "%f[^%w_]") then
      problems[#problems + 1] = text .. " raises " .. t.show(result)
    end
  end
  if loop.is_running() then
    local guard = thread.spawn(run)
    if thread.status(guard) == "waiting" then thread.kill(guard) end
    pcall(thread.wait, guard)
  else
    run()
  end
  close(results)
end

-- Calls a function, such as "net.connect" or "c:recv", with the correct arguments `...` (as strings), without
-- arguments, and with invalid arguments.
local function walk(given, call, ...)
  walked[call] = true
  local right = { ... }
  local object, name = call:match "^(.-)[.:]([%w_]+)$"
  try(("%s(%s)"):format(call, table.concat(right, ", ")), name, given)
  try(call .. "()", name, given)
  for at = 1, math.max(#right, 1) do
    for _, wrong in ipairs(WRONG) do
      local args = table.move(right, 1, #right, 1, {})
      args[at] = wrong
      try(("%s(%s)"):format(call, table.concat(args, ", ")), name, given)
    end
  end
  if not call:find(":", 1, true) then return end
  -- Calls the method with a dot, and with an invalid value as its object.
  for _, wrong in ipairs(WRONG) do
    local args = table.concat({ wrong, table.unpack(right) }, ", ")
    try(("%s.%s(%s)"):format(object, name, args), name, given)
  end
end

local function test(name, calls_of, run)
  t.test(name, function()
    problems, calls = {}, 0
    local function each(given)
      for _, one in ipairs(calls_of) do walk(given, table.unpack(one)) end
    end
    if run then run(each) else loop.run(function()
      each()
      -- Otherwise the loop would wait for pending timeouts.
      loop.stop(0)
    end) end
    if problems[1] then
      local shown = table.concat(problems, "\n  ", 1, math.min(#problems, 50))
      error(("%d of %d calls:\n  %s"):format(#problems, calls, shown), 0)
    end
    t.ok(calls >= #calls_of * (2 + #WRONG), calls)
  end, { leaks = true })
end

test("lio and its selectors check their arguments", {
  { "lio.create", "64" }, { "lio.now" }, { "lio.wall" }, { "lio.tasks" }, { "lio.systemd" }, { "lio.watch", "folder" },
  { "sel:event_add", "pair", "1", "{}" }, { "sel:event_mod", "pair", "1" }, { "sel:event_del", "pair" },
  { "sel:set_udata", "pair", "{}" }, { "sel:arm", "pair", "1" }, { "sel:count" }, { "sel:waker" },
  { "ready:wait", "0" },
  { "waker:wake" }, { "sel:close" },
})

test("lio.socket checks its arguments", {
  { "socket.create", "'tcp'" }, { "socket.endpoint", "'inet'", "'127.0.0.1'", "9" }, { "socket.pair" },
  { "socket.fd", "pair:detach()" }, { "socket.gethostname" }, { "socket.chmod", "folder", "448" },
  { "s:bind", "'127.0.0.1'", "0" }, { "s:listen", "5" }, { "s:accept" }, { "s:connect", "endpoint" },
  { "s:connect", "'127.0.0.1'", "9" }, { "pair:send", "'x'" }, { "pair:sendv", "'x'", "'y'" }, { "pair:recv", "10" },
  { "unbound:sendto", "'x'", "'127.0.0.1'", "9" }, { "unbound:recvfrom", "10" }, { "pair:shutdown", "'w'" },
  { "s:option", "'nodelay'", "true" }, { "s:info", "'socket'" }, { "s:status" }, { "s:handle" }, { "s:detach" },
  { "s:close" }, { "endpoint:value" },
})

test("lio.net checks its arguments", {
  { "net.listen", "'127.0.0.1'", "0", "{}" }, { "net.bind", "'127.0.0.1'", "0", "{}" }, { "net.accept", "listener" },
  { "net.connect", "'127.0.0.1'", "port", "{}" }, { "net.resolve", "'127.0.0.1'", "1" }, { "net.attempt" },
  { "net.recv", "c", "10" }, { "net.recv", "c", "'until'", "'x'", "10" }, { "net.send", "c", "'x'", "'y'" },
  { "net.sendfile", "c", "f", "0", "1" }, { "net.close", "c" }, { "net.shutdown", "c", "'w'" },
  { "net.broadcast", "{ c }", "'x'", "1" },
  { "net.timeout", "c", "1", "1" }, { "net.peer", "c" }, { "net.sock", "c" },
  { "net.option", "c", "'sndbuf'", "65536" },
  { "net.wait_readable", "c", "1" }, { "net.wait_closed", "c", "1" }, { "net.transfer", "c", "5" },
  { "net.start_tls", "c", "true", "{}" },
  { "net.on_transfer", "nil" }, { "net.wrap", "pair" }, { "net.wrap", "closed" },
  { "net.remote", "5" }, { "net.serve", "listener", "print", "{}" },
  { "net.udp", "'127.0.0.1'", "0" }, { "net.recvfrom", "udp" }, { "net.sendto", "udp", "'x'", "'127.0.0.1'", "9" },
})

test("connections, listeners, datagram sockets and servers check their arguments", {
  { "c:recv", "10" }, { "c:recv", "'line'", "10" }, { "c:recv", "'until'", "'x'", "10" }, { "c:send", "'x'", "'y'" },
  { "c:sendfile", "f", "0", "1" }, { "c:shutdown", "'w'" }, { "c:timeout", "1", "1" }, { "c:peer" }, { "c:sock" },
  { "c:option", "'sndbuf'", "65536" }, { "c:wait_readable", "1" }, { "c:wait_closed", "1" }, { "c:transfer", "5" },
  { "c:is_closed" }, { "c:is_over" }, { "c:buffered" }, { "c:handle" }, { "c:close" },
  { "listener:accept" }, { "listener:take_waiting" }, { "listener:address" }, { "listener:timeout", "1" },
  { "listener:is_closed" }, { "listener:close" },
  { "udp:recvfrom" }, { "udp:sendto", "'x'", "'127.0.0.1'", "9" }, { "udp:address" }, { "udp:timeout", "1", "1" },
  { "udp:option", "'sndbuf'", "65536" }, { "udp:is_closed" }, { "udp:close" },
  { "attempt:close" }, { "server:stop", "0" }, { "server:admit", "c" }, { "server:release", "c" }, { "server:wait" },
  { "server:accept_from", "listener" }, { "web_server:admit", "c" },
})

test("bee.select and lio.webservice check their arguments", {
  { "bee_select.create", "64" }, { "webservice.app", "{}" },
})

test("lio.loop checks its arguments", {
  { "loop.sleep", "1" }, { "loop.timeout", "1000", "print" }, { "loop.cancel", "5" }, { "loop.fork", "loop.now" },
  { "loop.wait", "{}" }, { "loop.wakeup", "{}", "1" }, { "loop.interrupt", "co" }, { "loop.running" },
  { "loop.kill", "co" }, { "loop.now" }, { "loop.on_stop", "print", "print" }, { "loop.signal", "'SIGWINCH'", "print" },
  { "loop.run", "print" }, { "loop.drives" }, { "loop.is_running" }, { "loop.is_stopping" }, { "loop.was_signalled" },
})

test("lio.loop checks its arguments while it does not run", {
  { "loop.stop", "1" }, { "loop.run", "loop.now" }, { "loop.signal", "'SIGWINCH'", "nil" },
}, function(each) each() end)

test("lio.thread checks its arguments", {
  { "thread.spawn", "loop.now" }, { "thread.wait", "th", "th" }, { "thread.kill", "th" }, { "thread.status", "th" },
  { "thread.scope" }, { "thread.all", "{ loop.now }" }, { "thread.race", "{ loop.now }" },
  { "thread.timeout", "1", "loop.now" }, { "scope:spawn", "loop.now" }, { "scope:wait" }, { "scope:close" },
})

test("lio.timer and lio.signal check their arguments", {
  { "timer.new" }, { "timers:add", "1", "{}" }, { "timers:create", "{}" }, { "timers:set", "id", "1" },
  { "timers:clear", "id" }, { "timers:free", "id" }, { "timers:cancel", "id" }, { "timers:next" }, { "timers:expire" },
  { "timers:count" }, { "signal.open", "'SIGWINCH'" }, { "signal.raise", "'SIGWINCH'" },
  { "signal.hold", "'SIGWINCH'" }, { "watcher:take" },
  { "watcher:handle" }, { "watcher:close" },
})

test("lio.file checks its arguments", {
  { "file.open", "folder .. '/file'" }, { "file.folder", "folder" }, { "file.measure", "f" },
  { "file.open_beneath", "folder", "'file'" }, { "f:read", "0", "10" }, { "f:size" }, { "f:kind" }, { "f:stat" },
  { "f:handle" }, { "f:is_closed" }, { "f:close" }, { "dir:open", "'file'" }, { "dir:list", "''" }, { "dir:path" },
  { "dir:is_closed" }, { "dir:close" },
})

test("lio.json and lio.compress check their arguments", {
  { "json.encode", "{}", "{}" }, { "json.decode", "'1'", "{}" }, { "json.array", "{}" },
  { "compress.encoder", "'gzip'", "5" },
  { "compress.decoder", "'gzip'", "100" }, { "encoder:write", "'x'" }, { "encoder:flush", "'x'" },
  { "encoder:finish", "'x'" }, { "decoder:write", "''" }, { "decoder:flush" }, { "decoder:finish", "''" },
})

test("lio.crypto checks its arguments", {
  { "crypto.md5", "'x'", "'hex'" }, { "crypto.sha1", "'x'", "'hex'" }, { "crypto.sha224", "'x'", "'hex'" },
  { "crypto.sha256", "'x'", "'hex'" }, { "crypto.sha384", "'x'", "'hex'" }, { "crypto.sha512", "'x'", "'hex'" },
  { "crypto.hmac", "'md5'", "'x'", "'y'", "'hex'" }, { "crypto.hash", "'md5'", "'x'" }, { "hash:update", "'x'" },
  { "hash:digest", "'hex'" }, { "crypto.equal", "'x'", "'y'" }, { "crypto.random", "10", "'hex'" },
  { "crypto.uuid", "4" }, { "crypto.encrypt", "key", "'x'", "'y'" }, { "crypto.decrypt", "key", "'x'", "'y'" },
  { "crypto.hex_encode", "'x'" }, { "crypto.hex_decode", "'00'" }, { "crypto.base64_encode", "'x'" },
  { "crypto.base64_decode", "''" }, { "crypto.base64url_encode", "'x'" }, { "crypto.base64url_decode", "''" },
  { "crypto.password_hash", "'x'", "{ memory = 8 }" }, { "crypto.password_verify", "'x'", "password" },
  { "crypto.password_needs_rehash", "password", "{}" },
})

test("lio.http.client checks its arguments", {
  { "http.new", "{}" }, { "http.request", "{ url = 'http://127.0.0.1:1/' }" },
  { "http.get", "'http://127.0.0.1:1/'", "{}" },
  { "http.post", "'http://127.0.0.1:1/'", "{ body = 'x' }" }, { "http.counts" }, { "http.close_idle" },
  { "client:request", "{ url = 'http://127.0.0.1:1/' }" }, { "client:get", "'http://127.0.0.1:1/'", "{}" },
  { "client:put", "'http://127.0.0.1:1/'", "{ body = 'x' }" }, { "client:counts" }, { "client:close_idle" },
  { "client:close" },
})

test("lio.webserver checks its arguments", {
  { "web.new", "{}" }, { "web.worker" }, { "web.compress", "{}" }, { "web.log", "{}" },
  { "web.basic_auth", "{ users = {} }" }, { "web.cors", "{ origins = '*' }" }, { "web.memory_store", "{}" },
  { "web.rate_limit", "{ rate = 1 }" }, { "web.request_id", "{}" }, { "web.sessions", "{ secret = key }" },
  { "limit:take", "'x'" }, { "limit:reset", "'x'" }, { "store:load", "'x'" }, { "store:save", "'x'", "'y'", "10" },
  { "store:destroy", "'x'" },
  { "web.html", "'x'" }, { "web.escape", "'x'" }, { "web.url_escape", "'x'" }, { "web.url_unescape", "'x'" },
  { "web.trust_proxy", "{ proxies = { '::1' } }" },
  { "app:get", "'/'", "print" }, { "app:post", "'/'", "print", "print" }, { "app:any", "'/'", "print" },
  { "app:route", "'GET'", "'/'", "print" }, { "app:mount", "'/in'", "inner" }, { "app:use", "'/in'", "print" },
  { "app:use", "print" }, { "app:static", "'/'", "folder", "{}" }, { "app:name", "'n'" }, { "app:on_error", "print" },
  { "app:not_found", "print" }, { "app:listen", "'127.0.0.1:0'", "{}" }, { "app:run", "'127.0.0.1:0'", "{}" },
  { "app:server" },
})

-- Sends one request for each call, because most of these methods can be called only once in a request.
local function in_requests(each)
  loop.run(function()
    local app = web.new()
    local call
    app:on_error(function() return 500, "" end)
    app:post("/", function(req, res) call(req, res) return "" end)
    local server = assert(app:listen "127.0.0.1:0")
    local plain_try = try
    try = function(text, name)
      local tried = false
      call = function(req, res)
        plain_try(text, name, { req = req, res = res })
        tried = true
      end
      http.post(server.url, { form = { a = 1 }, timeout = 60 })
      if not tried then problems[#problems + 1] = text .. " did not return" end
    end
    each()
    try = plain_try
    server:stop()
  end)
end

test("requests of the web server check their arguments", {
  { "req:header", "'host'" }, { "req:header_all", "'host'" }, { "req:body", "10" }, { "req:json", "10" },
  { "req:form", "{}" }, { "req:stream", "10" }, { "req:trailers" }, { "req:arg", "'x'", "'d'" },
  { "req:validate", "{}", "{}" },
}, in_requests)

test("responses of the web server check their arguments", {
  { "res:status", "200" }, { "res:header", "'X-A'", "'b'" }, { "res:add_header", "'X-A'", "'b'" },
  { "res:get_header", "'X-A'" }, { "res:cookie", "'a'", "'b'", "{}" }, { "res:send", "'x'" }, { "res:json", "{}" },
  { "res:html", "'x'" },
  { "res:redirect", "'/x'", "302" }, { "res:write", "'x'" }, { "res:flush" },
  { "res:file", "folder .. '/file'", "{}" },
  { "res:sse", "{}" }, { "res:on_head", "print" }, { "res:on_end", "print" }, { "res:trailer", "'X-A'", "'b'" },
  { "res:sent" },
}, in_requests)

-- The functions that this suite does not test: those for code that drives a loop, which do not check their arguments,
-- and those that other suites test.
local DRIVERS <const> = {}
for name in ([[
  net.new net.step net.use timer.pause timer.resume timer.advance timer.real
  loop.attach loop.describe thread.describe lio.waker loop.own ]]):gmatch "%S+" do
  -- options_test tests `net.new`, and `net.use`, which replaces the functions of the module in this VM. selector_wait
  -- tests `lio.waker`. Only the service library calls `loop.own`. testing_clock tests the paused clock, which would
  -- stop the timers of this VM.
  DRIVERS[name] = true
end

-- Regression: each raised error leaked 56 bytes.
t.test("raised errors leak no memory", function()
  local function resident()
    local status <close> = assert(io.open "/proc/self/status")
    return tonumber(status:read "a":match "VmRSS:%s*(%d+)")
  end
  local function raise(count)
    for _ = 1, count do pcall(json.decode) end
    collectgarbage()
    return resident()
  end
  local before = raise(1000)
  t.ok(raise(500000) - before < 8192, "KiB resident")
end, { resident = true })

t.test("every public function is tested", function()
  local missing = {}
  local SAME <const> = { ["http.head"] = "http.get", ["http.put"] = "http.post", ["http.patch"] = "http.post",
    ["http.delete"] = "http.get" }
  for prefix, module in pairs(MODULES) do
    for name, f in pairs(type(module) == "table" and module or {}) do
      local call = prefix .. "." .. name
      -- A name that begins with an underscore is internal to the library.
      local known = walked[SAME[call] or call] or DRIVERS[call] or name:find "^_"
      if type(f) == "function" and not known then missing[#missing + 1] = call end
    end
  end
  table.sort(missing)
  t.eq(missing, {})
end)

t.finish()
