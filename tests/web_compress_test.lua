-- `web.compress`: which responses are compressed, for which clients, and with which coding.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local compress = require "lio.compress"
local loop = require "lio.loop"
local web = require "lio.webserver"

local TEXT <const> = ("All work and no play makes Jack a dull boy.\n"):rep(100)

-- Serves `handler` at `/` with compression, and sends one request. Returns the response.
local function ask(handler, accept, opts)
  opts = opts or {}
  return http.once(function(app)
    app:use(web.compress(opts.options))
    app:any("/", handler)
  end, opts.method or "GET", "/", accept and { "Accept-Encoding: " .. accept })
end

local function plain(response)
  local coding = response.headers["content-encoding"]
  return coding and assert(compress.decoder(coding):finish(response.body)) or response.body
end

local function text() return TEXT end

t.test("a body is compressed with any coding that the client names", function()
  for _, coding in ipairs { "gzip", "deflate", "br" } do
    local r = ask(text, coding)
    t.eq({ r.headers["content-encoding"], r.headers.vary }, { coding, "Accept-Encoding" })
    t.eq(r.headers["content-length"], tostring(#r.body))
    t.ok(#r.body < 200 and plain(r) == TEXT)
  end
end)

t.test("the quality values of Accept-Encoding are obeyed", function()
  for accept, want in pairs {
    ["gzip, br"] = "br",
    ["gzip, deflate"] = "gzip",
    ["gzip;q=1.0, br;q=0.5"] = "gzip",
    ["br;q=0, gzip"] = "gzip",
    ["*"] = "br",
    ["*;q=0.5, gzip"] = "gzip",
    ["br;q=0, *"] = "gzip",
    ["GZIP"] = "gzip",
    ["x-gzip"] = "gzip",
    ["gzip ; q=0.3"] = "gzip",
    ["identity"] = false,
    ["identity, gzip;q=0.5"] = false,
    ["identity;q=0.5, gzip"] = "gzip",
    ["gzip;q=0"] = false,
    ["*;q=0"] = false,
    [""] = false,
    ["zstd"] = false,
    ["gzip;q=x"] = false,
    [",,;q=1,gzip,"] = "gzip",
  } do
    local r = ask(text, accept)
    t.eq(r.headers["content-encoding"] or false, want, accept)
    t.eq(r.headers.vary, "Accept-Encoding")
    t.ok(plain(r) == TEXT)
  end
  t.is_nil(ask(text).headers["content-encoding"])
end)

t.test("every value of Accept-Encoding is parsed correctly, even after many different values", function()
  local app = web.new()
  app:use(web.compress())
  app:get("/", text)
  http.with(app, function(open)
    local c = open()
    for i = 1, 130 do
      local r = c:request("GET", "/", { ("Accept-Encoding: x%d, %s"):format(i, i % 2 == 0 and "gzip" or "br") })
      t.eq(r.headers["content-encoding"], i % 2 == 0 and "gzip" or "br", i)
    end
  end)
end)

-- Each of these took 2.5 s, in which the server could not respond to other clients.
t.test("an Accept-Encoding with a long white space is parsed at once", function()
  local blanks = (" "):rep(30 * 1000)
  local app = web.new()
  app:use(web.compress())
  app:get("/", text)
  http.with(app, function(open)
    local c = open()
    for i = 1, 200 do
      local r = c:request("GET", "/", { ("Accept-Encoding: gzip;%sx%d, br"):format(blanks, i) })
      t.eq(r.headers["content-encoding"], "br")
      r = c:request("GET", "/", { ("Accept-Encoding: br;q=0.%d, gzip%s;q=1"):format(i, blanks) })
      t.eq(r.headers["content-encoding"], "gzip")
    end
  end)
end)

t.test("lists, functions and pieces are compressed as well", function()
  local n = 0
  local bodies = {
    function(_, res) return res:send { TEXT, TEXT } end,
    function()
      n = 0
      return function()
        n = n + 1
        return n <= 2 and TEXT or nil
      end
    end,
    function(_, res)
      res:write(TEXT)
      res:flush()
      res:write(TEXT)
    end,
    function(_, res)
      res:header("Content-Length", #TEXT * 2)
      res:write(TEXT:sub(1, 7))
      res:write(TEXT:sub(8) .. TEXT)
    end,
  }
  for index, handler in ipairs(bodies) do
    for _, coding in ipairs { "gzip", "br" } do
      local r = ask(handler, coding)
      t.eq(r.headers["content-encoding"], coding, index)
      t.ok(#r.body < 400 and plain(r) == TEXT .. TEXT, index)
    end
  end
end)

t.test("a long body in pieces of any size arrives whole", function()
  local piece = {}
  for i = 1, 3000 do piece[i] = tostring(i * 7919 % 10007) end
  piece = table.concat(piece, " ")
  local r = ask(function(_, res)
    for _ = 1, 40 do res:write(piece) end
  end, "gzip")
  t.ok(plain(r) == piece:rep(40))
end)

t.test("the client can decode the written bytes before the handler continues", function()
  local app, go = web.new(), {}
  app:use(web.compress())
  app:get("/", function(_, res)
    res:write "first"
    res:write " piece"
    loop.wait(go)
    res:write "second"
  end)
  http.with(app, function(open)
    local c = open():send "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br\r\n\r\n"
    c:read_head()
    local decoder, got = compress.decoder "br", ""
    while got ~= "first piece" do
      local size = tonumber(c.c:recv("until", "\r\n"), 16)
      got = got .. decoder:write(c.c:recv(size))
      c.c:recv(2)
    end
    loop.wakeup(go)
    c.c:recv("until", "0\r\n\r\n")
  end)
end)

t.test("responses that cannot or need not be compressed are not changed, and have no Vary", function()
  local same = {
    ["short"] = function() return ("x"):rep(1023) end,
    ["image"] = function() return 200, TEXT, { ["Content-Type"] = "image/png" } end,
    ["encoded"] = function() return 200, TEXT, { ["Content-Encoding"] = "zstd" } end,
    ["a part"] = function() return 206, TEXT, { ["Content-Range"] = "bytes 0-4399/9000" } end,
    ["no-transform"] = function() return 200, TEXT, { ["Cache-Control"] = "public, No-Transform" } end,
    ["no part of a range"] = function() return 416, TEXT, { ["Content-Range"] = "bytes */9" } end,
    ["short pieces"] = function(_, res)
      res:header("Content-Length", 5)
      res:write "hello"
    end,
    ["304"] = function() return 304, nil, { ETag = '"x"' } end,
    ["204"] = function() return 204 end,
  }
  for name, handler in pairs(same) do
    local r = ask(handler, "gzip, br")
    t.ok(r.headers["content-encoding"] == nil or name == "encoded", name)
    t.is_nil(r.headers.vary, name)
  end
end)

t.test("compressible types are text, JSON, XML and types based on them", function()
  for kind, want in pairs {
    ["text/html; charset=utf-8"] = true, ["TEXT/CSS"] = true, ["application/json"] = true,
    ["application/problem+json"] = true, ["image/svg+xml"] = true, ["application/wasm"] = true,
    ["application/zip"] = false, ["video/mp4"] = false, ["application/octet-stream"] = false,
  } do
    local r = ask(function() return 200, TEXT, { ["Content-Type"] = kind } end, "gzip")
    t.eq(r.headers["content-encoding"] ~= nil, want, kind)
  end
  t.eq(ask(function() return { list = { TEXT } } end, "gzip").headers["content-encoding"], "gzip")
end)

t.test("an ETag becomes weak, and fields that describe the uncompressed bytes are removed", function()
  local function handler()
    return 200, TEXT, { ETag = '"v1"', ["Accept-Ranges"] = "bytes", Vary = "Origin", ["Content-MD5"] = "x" }
  end
  local r = ask(handler, "gzip")
  t.eq({ r.headers.etag, r.headers["accept-ranges"], r.headers.vary, r.headers["content-md5"] },
    { 'W/"v1"', nil, "Origin, Accept-Encoding" })
  local as_is = ask(handler)
  t.eq({ as_is.headers.etag, as_is.headers.vary }, { '"v1"', "Origin, Accept-Encoding" })
  t.eq(ask(function() return 200, TEXT, { Vary = "*" } end, "gzip").headers.vary, "*")
  t.eq(ask(function() return 200, TEXT, { ETag = 'W/"v1"' } end, "gzip").headers.etag, 'W/"v1"')
end)

t.test("the response to HEAD has the fields of GET", function()
  local get, head = ask(text, "gzip"), ask(text, "gzip", { method = "HEAD" })
  for _, name in ipairs { "content-encoding", "content-length", "vary", "content-type" } do
    t.eq(head.headers[name], get.headers[name], name)
  end
  local pieces = ask(function(_, res) res:write(TEXT) end, "gzip", { method = "HEAD" })
  t.eq(pieces.headers["content-encoding"], "gzip")
end)

t.test("min, types, level and codings can be set", function()
  local function coding(handler, options, accept)
    return ask(handler, accept or "gzip, br", { options = options }).headers["content-encoding"]
  end
  t.eq(coding(function() return "short" end, { min = 0 }), "br")
  t.is_nil(coding(text, { min = 100000 }))
  t.eq({ coding(text, { min = #TEXT }), coding(text, { min = #TEXT + 1 }) }, { "br" })
  t.is_nil(coding(text, { types = { "application/json" } }))
  t.eq(coding(text, { types = { "text/*" } }), "br")
  t.eq(coding(text, { types = function(kind) return kind == "text/plain" end }), "br")
  t.eq(coding(text, { codings = { "gzip", "br" } }), "gzip")
  t.is_nil(coding(text, { codings = { "gzip" } }, "br"))
  local low = ask(text, "gzip", { options = { level = { gzip = 1 } } })
  t.ok(plain(low) == TEXT)
end)

t.test("invalid options raise at the caller's line", function()
  t.raises("web_compress_test.*compress: option 'size' is unknown %(known: codings, level, min, types%)$",
    function() web.compress { size = 1 } end)
  t.raises("compress: option 'min' must be an integer of at least 0, got \"1\"", web.compress, { min = "1" })
  t.raises("compress: .*level must be 1 to 9, not 99", web.compress, { level = { gzip = 99 } })
  t.raises("web.compress: coding 'zip' is unknown", web.compress, { codings = { "zip" } })
  t.raises("compress: option 'types' must be a list of media types, or a function, got a table",
    web.compress, { types = { 1 } })
end)

t.test("the response to an error is compressed like any other, and events are flushed one by one", function()
  local r
  http.logged(function()
    r = ask(function() error "boom" end, "gzip", { options = { min = 1 } })
  end)
  t.eq({ r.status, plain(r) }, { 500, "Internal Server Error\n" })
  local app = web.new()
  app:use(web.compress())
  app:get("/", function(_, res)
    local events = res:sse()
    events:send "one"
    events:wait()
  end)
  http.with(app, function(open)
    local c = open():send "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
    t.eq(c:read_head().headers["content-encoding"], "gzip")
    local decoder, got = compress.decoder "gzip", ""
    while got ~= "data: one\n\n" do
      local size = tonumber(c.c:recv("until", "\r\n"), 16)
      got = got .. decoder:write(c.c:recv(size))
      c.c:recv(2)
    end
  end)
end)

t.finish()
