--- Every public function of the modules that programs load, with a call that succeeds. Each call is a string, because
-- Lua finds the name of a function for its errors in the code. Used by arguments_test.lua, which passes invalid
-- arguments, and by alloc_failures.lua, which lets allocations fail.

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

local M = {}

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

--- The variables of the calls that are always the same.
M.modules = {
  compress = compress, crypto = crypto, file = file, http = http, json = json, lio = lio, loop = loop, net = net,
  signal = signal, socket = socket, thread = thread, timer = timer, web = web, folder = folder,
}

--- Returns an environment for a call, and a function that closes the objects that were created in this environment, and
-- those in the list `results`. `given` is nil, or a table of further variables.
function M.new_env(given)
  local made = {}
  local env = setmetatable({}, { __index = function(env, name)
    local value = given and given[name] or M.modules[name] or _G[name]
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

--- Lists of calls. A call is a function, followed by correct arguments. The calls run in tasks of a loop; with
-- `without_loop`, while no loop runs; with `in_requests`, each in the handler of a request.
M.lists = {
  { "lio and its selectors check their arguments", calls = {
    { "lio.create", "64" }, { "lio.now" }, { "lio.wall" }, { "lio.tasks" }, { "lio.systemd" },
    { "lio.watch", "folder" },
    { "sel:event_add", "pair", "1", "{}" }, { "sel:event_mod", "pair", "1" }, { "sel:event_del", "pair" },
    { "sel:set_udata", "pair", "{}" }, { "sel:arm", "pair", "1" }, { "sel:count" }, { "sel:waker" },
    { "ready:wait", "0" },
    { "waker:wake" }, { "sel:close" },
  } },
  { "lio.socket checks its arguments", calls = {
    { "socket.create", "'tcp'" }, { "socket.endpoint", "'inet'", "'127.0.0.1'", "9" }, { "socket.pair" },
    { "socket.fd", "pair:detach()" }, { "socket.gethostname" }, { "socket.chmod", "folder", "448" },
    { "s:bind", "'127.0.0.1'", "0" }, { "s:listen", "5" }, { "s:accept" }, { "s:connect", "endpoint" },
    { "s:connect", "'127.0.0.1'", "9" }, { "pair:send", "'x'" }, { "pair:sendv", "'x'", "'y'" }, { "pair:recv", "10" },
    { "unbound:sendto", "'x'", "'127.0.0.1'", "9" }, { "unbound:recvfrom", "10" }, { "pair:shutdown", "'w'" },
    { "s:option", "'nodelay'", "true" }, { "s:info", "'socket'" }, { "s:status" }, { "s:handle" }, { "s:detach" },
    { "s:close" }, { "endpoint:value" },
  } },
  { "lio.net checks its arguments", calls = {
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
  } },
  { "connections, listeners, datagram sockets and servers check their arguments", calls = {
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
  } },
  { "bee.select and lio.webservice check their arguments", calls = {
    { "bee_select.create", "64" }, { "webservice.app", "{}" },
  } },
  { "lio.loop checks its arguments", calls = {
    { "loop.sleep", "1" }, { "loop.timeout", "1000", "print" }, { "loop.cancel", "5" }, { "loop.fork", "loop.now" },
    { "loop.wait", "{}" }, { "loop.wakeup", "{}", "1" }, { "loop.interrupt", "co" }, { "loop.running" },
    { "loop.kill", "co" }, { "loop.now" }, { "loop.on_stop", "print", "print" },
    { "loop.signal", "'SIGWINCH'", "print" },
    { "loop.run", "print" }, { "loop.drives" }, { "loop.is_running" }, { "loop.is_stopping" }, { "loop.was_signalled" },
  } },
  { "lio.loop checks its arguments while it does not run", without_loop = true, calls = {
    { "loop.stop", "1" }, { "loop.run", "loop.now" }, { "loop.signal", "'SIGWINCH'", "nil" },
  } },
  { "lio.thread checks its arguments", calls = {
    { "thread.spawn", "loop.now" }, { "thread.wait", "th", "th" }, { "thread.kill", "th" }, { "thread.status", "th" },
    { "thread.scope" }, { "thread.all", "{ loop.now }" }, { "thread.race", "{ loop.now }" },
    { "thread.timeout", "1", "loop.now" }, { "scope:spawn", "loop.now" }, { "scope:wait" }, { "scope:close" },
  } },
  { "lio.timer and lio.signal check their arguments", calls = {
    { "timer.new" }, { "timers:add", "1", "{}" }, { "timers:create", "{}" }, { "timers:set", "id", "1" },
    { "timers:clear", "id" }, { "timers:free", "id" }, { "timers:cancel", "id" }, { "timers:next" },
    { "timers:expire" },
    { "timers:count" }, { "signal.open", "'SIGWINCH'" }, { "signal.raise", "'SIGWINCH'" },
    { "signal.hold", "'SIGWINCH'" }, { "watcher:take" },
    { "watcher:handle" }, { "watcher:close" },
  } },
  { "lio.file checks its arguments", calls = {
    { "file.open", "folder .. '/file'" }, { "file.folder", "folder" }, { "file.measure", "f" },
    { "file.open_beneath", "folder", "'file'" }, { "f:read", "0", "10" }, { "f:size" }, { "f:kind" }, { "f:stat" },
    { "f:handle" }, { "f:is_closed" }, { "f:close" }, { "dir:open", "'file'" }, { "dir:list", "''" }, { "dir:path" },
    { "dir:is_closed" }, { "dir:close" },
  } },
  { "lio.json and lio.compress check their arguments", calls = {
    { "json.encode", "{}", "{}" }, { "json.decode", "'1'", "{}" }, { "json.array", "{}" },
    { "compress.encoder", "'gzip'", "5" },
    { "compress.decoder", "'gzip'", "100" }, { "encoder:write", "'x'" }, { "encoder:flush", "'x'" },
    { "encoder:finish", "'x'" }, { "decoder:write", "''" }, { "decoder:flush" }, { "decoder:finish", "''" },
  } },
  { "lio.crypto checks its arguments", calls = {
    { "crypto.md5", "'x'", "'hex'" }, { "crypto.sha1", "'x'", "'hex'" }, { "crypto.sha224", "'x'", "'hex'" },
    { "crypto.sha256", "'x'", "'hex'" }, { "crypto.sha384", "'x'", "'hex'" }, { "crypto.sha512", "'x'", "'hex'" },
    { "crypto.hmac", "'md5'", "'x'", "'y'", "'hex'" }, { "crypto.hash", "'md5'", "'x'" }, { "hash:update", "'x'" },
    { "hash:digest", "'hex'" }, { "crypto.equal", "'x'", "'y'" }, { "crypto.random", "10", "'hex'" },
    { "crypto.uuid", "4" }, { "crypto.encrypt", "key", "'x'", "'y'" }, { "crypto.decrypt", "key", "'x'", "'y'" },
    { "crypto.hex_encode", "'x'" }, { "crypto.hex_decode", "'00'" }, { "crypto.base64_encode", "'x'" },
    { "crypto.base64_decode", "''" }, { "crypto.base64url_encode", "'x'" }, { "crypto.base64url_decode", "''" },
    { "crypto.password_hash", "'x'", "{ memory = 8 }" }, { "crypto.password_verify", "'x'", "password" },
    { "crypto.password_needs_rehash", "password", "{}" },
  } },
  { "lio.http.client checks its arguments", calls = {
    { "http.new", "{}" }, { "http.request", "{ url = 'http://127.0.0.1:1/' }" },
    { "http.get", "'http://127.0.0.1:1/'", "{}" },
    { "http.post", "'http://127.0.0.1:1/'", "{ body = 'x' }" }, { "http.counts" }, { "http.close_idle" },
    { "client:request", "{ url = 'http://127.0.0.1:1/' }" }, { "client:get", "'http://127.0.0.1:1/'", "{}" },
    { "client:put", "'http://127.0.0.1:1/'", "{ body = 'x' }" }, { "client:counts" }, { "client:close_idle" },
    { "client:close" },
  } },
  { "lio.webserver checks its arguments", calls = {
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
  } },
  { "requests of the web server check their arguments", in_requests = true, calls = {
    { "req:header", "'host'" }, { "req:header_all", "'host'" }, { "req:body", "10" }, { "req:json", "10" },
    { "req:form", "{}" }, { "req:stream", "10" }, { "req:trailers" }, { "req:arg", "'x'", "'d'" },
    { "req:validate", "{}", "{}" },
  } },
  { "responses of the web server check their arguments", in_requests = true, calls = {
    { "res:status", "200" }, { "res:header", "'X-A'", "'b'" }, { "res:add_header", "'X-A'", "'b'" },
    { "res:get_header", "'X-A'" }, { "res:cookie", "'a'", "'b'", "{}" }, { "res:send", "'x'" }, { "res:json", "{}" },
    { "res:html", "'x'" },
    { "res:redirect", "'/x'", "302" }, { "res:write", "'x'" }, { "res:flush" },
    { "res:file", "folder .. '/file'", "{}" },
    { "res:sse", "{}" }, { "res:on_head", "print" }, { "res:on_end", "print" }, { "res:trailer", "'X-A'", "'b'" },
    { "res:sent" },
  } },
}

return M
