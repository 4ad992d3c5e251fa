-- Requests to the web server. Fifty requests are pipelined through a pair of sockets, so the kernel's share of each
-- request is small. A case prepares a server, and returns a function that makes `n` requests; child.lua calls this
-- function in a task of `lio.loop`.

local http = require "lio.http"
local lio = require "lio"
local net = require "lio.net"
local socket = require "lio.socket"
local stream = require "lio.stream"
local web = require "lio.webserver"

local respond <const>, add_field <const> = http.request.respond, http.request.add_field
local PIPELINED <const> = 50 -- fewer than 64, after which a server yields to other tasks

local SHORT <const> = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
-- The head of a browser's request.
local LONG <const> = table.concat({
  "GET / HTTP/1.1", "Host: 127.0.0.1:8080", "Connection: keep-alive", "Cache-Control: max-age=0",
  'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"', "sec-ch-ua-mobile: ?0", 'sec-ch-ua-platform: "Linux"',
  "Upgrade-Insecure-Requests: 1",
  "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
  "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
  "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-User: ?1", "Sec-Fetch-Dest: document",
  "Accept-Encoding: gzip, deflate, br, zstd", "Accept-Language: en-GB,en;q=0.9",
}, "\r\n") .. "\r\n\r\n"
local PARAMETERS <const> = "GET /users/1234/posts/5678 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
local HELLO <const> = "Hello, World!\n"

local M = {}

local function pair()
  local one, other = assert(socket.pair())
  return assert(net.wrap(one)), assert(net.wrap(other))
end

-- Returns a function that makes `n` requests: it sends fifty requests in one call, and receives their responses, which
-- all have the length of the first response. If `work` is given, `work(n)` serves `n` requests; otherwise an app does.
local function load(client, request, work)
  assert(client:send(request))
  if work then work(1) end
  local response = client:recv()
  assert(response:find "^HTTP/1.1 200 OK\r\n", response)
  local block, size = request:rep(PIPELINED), #response * PIPELINED
  return function(n)
    for _ = 1, (n + PIPELINED - 1) // PIPELINED do
      assert(client:send(block))
      if work then work(PIPELINED) end
      assert(client:recv(size))
    end
  end
end

-- Returns a function that makes requests to an app.
local function through(app, request)
  local client, served = pair()
  assert(app:server():admit(served))
  return load(client, request)
end

local function hello()
  local app = web.new()
  app:get("/", function() return HELLO end)
  return app
end

function M.hello()
  return through(hello(), SHORT)
end

function M.hello_long()
  return through(hello(), LONG)
end

function M.fields()
  local app = web.new()
  app:get("/", function(_, res)
    res:header("Cache-Control", "no-cache")
    res:header("X-Frame-Options", "DENY")
    res:header("ETag", '"33a64df5"')
    return HELLO
  end)
  return through(app, SHORT)
end

-- Adds 201 routes, of which only the last is requested.
local function add_routes(add)
  for i = 1, 100 do
    add(("/things%d"):format(i))
    add(("/things%d/:id"):format(i))
  end
  add "/users/:user/posts/:post"
end

function M.parameters()
  local app = web.new()
  add_routes(function(path)
    app:get(path, function(req) return req.params.user .. req.params.post end)
  end)
  return through(app, PARAMETERS)
end

function M.json()
  local app = web.new()
  app:get("/", function() return { id = 1, name = "lio", tags = { "a", "b" } } end)
  return through(app, SHORT)
end

-- Returns a function that makes requests to a server without an app and its loop: native code parses the head, finds
-- the route and writes the response.
local function bare(request, add, fields)
  local one, other = assert(socket.pair())
  local client, sel, routes = assert(net.wrap(one)), lio.create(), http.routes()
  add(routes)
  local server = http.server(web.defaults, routes, sel)
  server:admit(stream.new(sel, other))
  local handlers = {}
  local function handle(req)
    if not fields then return HELLO end
    for i = 1, #fields, 2 do add_field(req, fields[i], fields[i + 1]) end
    respond(req, 200, "text/plain; charset=utf-8", HELLO)
  end
  for id = 1, 201 do
    handlers[id] = handle
    if not fields then pcall(routes.set_argument_count, routes, id, 0) end
  end
  local function nothing() end
  server:set_callbacks {
    app_server = server, catch = nothing, handlers = handlers, response_class = {}, choose_handler = nothing,
    complete = nothing, fail = nothing, notify = nothing,
  }
  local dispatcher = server:dispatcher()
  return load(client, request, function()
    for _ in sel:wait(1) do end -- luacheck: ignore 542
    server:take_events()
    http.serve(dispatcher)
    server:flush()
  end)
end

local function root(routes) routes:add("GET", "/") end

function M.codec()
  return bare(SHORT, root)
end

function M.codec_long()
  return bare(LONG, root)
end

function M.codec_fields()
  return bare(SHORT, root, { "Cache-Control", "no-cache", "X-Frame-Options", "DENY", "ETag", '"33a64df5"' })
end

function M.codec_routes()
  return bare(PARAMETERS, function(routes)
    add_routes(function(path) routes:add("GET", path) end)
  end)
end

return M
