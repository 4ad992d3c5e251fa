-- `app:static` and `res:file`: which files are served, with which fields, and that paths cannot leave a folder.
-- web_range_test.lua tests ranges and conditional requests.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local web = require "lio.webserver"

local base = t.tmp()
local site = base .. "/site"
local function sh(command) assert(os.execute("cd " .. t.quote(base) .. " && " .. command)) end

sh [[mkdir -p site/docs site/empty 'site/a b' site/.git site/list/sub site/evil.com outside]]
t.write(base .. "/secret.txt", "secret")
t.write(base .. "/outside/x.txt", "secret")
t.write(site .. "/index.html", "<h1>home</h1>")
t.write(site .. "/docs/index.html", "docs")
t.write(site .. "/hello.txt", "hello\n")
t.write(site .. "/app.js", ("let x;"):rep(100))
t.write(site .. "/empty.txt", "")
t.write(site .. "/pixel.png", "png")
t.write(site .. "/a b/c+d.txt", "odd")
t.write(site .. "/100%.txt", "percent")
t.write(site .. "/.env", "secret")
t.write(site .. "/.git/config", "secret")
t.write(site .. "/list/<b>&\"'.txt", "x")
t.write(site .. "/list/Zebra.txt", ("x"):rep(1500))
t.write(site .. "/list/apple.txt", "")
t.write(site .. "/list/.hidden", "")
sh [[ln -s ../secret.txt site/escape.txt; ln -s ../outside site/away; ln -s hello.txt site/inside.txt
  ln -s "$PWD/site/hello.txt" site/absolute.txt; ln -s / site/root; mkfifo site/fifo
  printf x > site/list/fifo; rm site/list/fifo; mkfifo site/list/fifo; ln -s /etc site/list/etc]]

-- Requests `target` from an app that serves the folder at "/" and at "/files". Returns the response.
local function ask(target, fields, method, opts)
  return http.once(function(app)
    app:static("/", site, opts):static("/files/", site, opts)
  end, method or "GET", target, fields)
end

-- Requests an unusual target, which is sent unchanged. Returns the response.
local function raw(target, opts)
  local app, response = web.new(), nil
  app:static("/", site, opts)
  http.with(app, function(open)
    response = open():ask("GET " .. target .. " HTTP/1.1\r\nHost: test\r\n\r\n")
  end)
  return response
end

t.test("a file is served with its type, length, date and tag", function()
  local r = ask "/hello.txt"
  t.eq({ r.status, r.body }, { 200, "hello\n" })
  t.eq(r.headers["content-type"], "text/plain; charset=utf-8")
  t.eq(r.headers["content-length"], "6")
  t.eq(r.headers["accept-ranges"], "bytes")
  t.ok(r.headers["last-modified"]:find "^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$")
  t.ok(r.headers.etag:find '^"[%x.-]+"$', r.headers.etag)
  t.is_nil(r.headers["cache-control"])
end)

t.test("the tag is the same for a copy of the file, and changes when the file changes", function()
  sh [[cp -p site/hello.txt site/copy.txt]]
  local tag = ask("/hello.txt").headers.etag
  t.eq(ask("/copy.txt").headers.etag, tag)
  t.ok(tag:find '^"6%-%x+%.%x+"$', tag)
  sh [[touch -d '2020-01-02 03:04:05.000000006 UTC' site/copy.txt]]
  t.eq(ask("/copy.txt").headers.etag, '"6-5e0d5da5.6"')
end)

t.test("without free descriptors the response is 503 with Retry-After, and one line is logged", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web, file = require "lio.webserver", require "lio.file"
    local app, kept = web.new(), {}
    local site = ...
    app:use(function(_, res, next) res:header("ETag", "x"):header("X-Kept", "1") next() end)
    app:static("/", site, { list = true })
    app:get("/file", function(_, res) return res:file(site .. "/hello.txt") end)
    app:get("/root", function(_, res) return res:file("hello.txt", { root = site }) end)
    app:get("/take", function()
      for _ = 1, 1000 do kept[#kept + 1] = file.open(site .. "/hello.txt") end
      return tostring(#kept > 10)
    end)
    app:get("/give", function()
      for _, f in ipairs(kept) do f:close() end
      return "given"
    end)
    app:run(0)]])
  local child <close> = t.spawn("sh -c " .. t.quote(("ulimit -n 48; exec %s %s %s 2>&1"):format(t.lio(),
    t.quote(script), t.quote(site))))
  local port = math.tointeger(tonumber(child:expect ":(%d+)/$"))
  loop.run(function()
    local c <close> = http.open(port)
    t.eq(c:request("GET", "/hello.txt").status, 200)
    t.eq(c:request("GET", "/take").body, "true")
    for _, path in ipairs { "/hello.txt", "/docs/", "/", "/file", "/root", "/list/" } do
      local r = c:request("GET", path)
      t.eq({ r.status, r.headers["retry-after"], r.body, r.headers.etag, r.headers["x-kept"] },
        { 503, "1", "Service Unavailable\n", nil, "1" }, path)
    end
    t.eq(c:request("GET", "/give").body, "given")
    for _, path in ipairs { "/hello.txt", "/docs/", "/file", "/root", "/list/" } do
      t.eq(c:request("GET", path).status, 200, path)
    end
  end)
  child:kill()
  t.eq(child:all(), "lio: GET /hello.txt: open: Too many open files (os error 24); requests for files get status 503\n")
  t.eq(child:close(), 0)
end)

t.test("the extension determines the type, which is application/octet-stream without a known extension", function()
  t.eq(ask("/app.js").headers["content-type"], "text/javascript; charset=utf-8")
  t.eq(ask("/pixel.png").headers["content-type"], "image/png")
  t.eq(ask("/").headers["content-type"], "text/html; charset=utf-8")
  t.write(site .. "/unknown", "x")
  t.eq(ask("/unknown").headers["content-type"], "application/octet-stream")
end)

t.test("an empty file, files with unusual names, and files below another prefix are served", function()
  local r = ask "/empty.txt"
  t.eq({ r.status, r.body, r.headers["content-length"] }, { 200, "", "0" })
  t.eq(ask("/a%20b/c+d.txt").body, "odd")
  t.eq(ask("/100%25.txt").body, "percent")
  t.eq(ask("/files/hello.txt").body, "hello\n")
  t.eq(ask("/files/").body, "<h1>home</h1>")
end)

t.test("HEAD gets the fields of GET and no body", function()
  local get, head = ask "/app.js", ask("/app.js", nil, "HEAD")
  t.eq({ head.status, head.body }, { 200, "" })
  for _, name in ipairs { "content-length", "content-type", "etag", "last-modified", "accept-ranges" } do
    t.eq(head.headers[name], get.headers[name], name)
  end
end)

t.test("other methods are refused with 405 and Allow, and OPTIONS lists the methods", function()
  local r = ask("/hello.txt", nil, "POST")
  t.eq({ r.status, r.headers.allow }, { 405, "GET, HEAD, OPTIONS" })
  t.eq(ask("/hello.txt", nil, "DELETE").status, 405)
  t.eq({ ask("/hello.txt", nil, "OPTIONS").status, ask("/", nil, "PUT").status }, { 204, 405 })
end)

t.test("for a directory, its index.html or the file that the option index names is served", function()
  t.eq(ask("/").body, "<h1>home</h1>")
  t.eq(ask("/docs/").body, "docs")
  t.eq(ask("/", nil, "GET", { index = "hello.txt" }).body, "hello\n")
end)

t.test("a directory without a slash at the end is redirected to a relative path, with the query", function()
  local r = ask "/docs"
  t.eq({ r.status, r.headers.location, r.body }, { 301, "./docs/", "" })
  t.eq(ask("/docs?a=1&b=%2F").headers.location, "./docs/?a=1&b=%2F")
  t.eq(ask("/files").headers.location, "./files/")
  t.eq(ask("/a%20b").headers.location, "./a%20b/")
end)

t.test("no path causes a redirect to another host", function()
  for _, target in ipairs { "//evil.com", "///evil.com", "/%2f/evil.com", "/\\evil.com", "//evil.com/..",
    "/%5cevil.com", "//evil.com/%2e%2e" } do
    local r = raw(target)
    local location = r.headers.location
    t.ok(r.status ~= 200 and (not location or location:find "^%./[^/\\]"), target .. " → " .. tostring(location))
  end
end)

t.test("for a file that does not exist the response is 404, or that of the app's not_found", function()
  for _, target in ipairs { "/none", "/none/", "/hello.txt/", "/hello.txt/x", "/empty/", "/files/none" } do
    local r = ask(target)
    t.eq({ target, r.status, r.body }, { target, 404, "Not Found\n" })
  end
  local r = http.once(function(app)
    app:static("/", site)
    app:not_found(function(req) return 404, "no " .. req.path end)
  end, "GET", "/none")
  t.eq({ r.status, r.body }, { 404, "no /none" })
end)

t.test("no path leads out of the folder, and the response to such a path is 404", function()
  local targets = {
    "/../secret.txt", "/..", "/../", "/docs/../../secret.txt", "/%2e%2e/secret.txt", "/%2E%2e/secret.txt",
    "/.%2e/secret.txt", "/..%2fsecret.txt", "/%2e%2e%2fsecret.txt", "/docs/..%2f..%2fsecret.txt",
    "/..%5csecret.txt", "/..\\secret.txt", "/docs\\..\\..\\secret.txt", "/%5c..%5csecret.txt",
    "/hello.txt%00", "/hello.txt%00.png", "/%00", "/..%00/secret.txt", "//etc/passwd", "/%2fetc%2fpasswd",
    "/%2fetc/passwd", "/....//secret.txt", "/..;/secret.txt", "/%252e%252e/secret.txt", "/%c0%ae%c0%ae/secret.txt",
    "/escape.txt", "/away/x.txt", "/away/", "/away", "/root/etc/passwd", "/root/", "/root", "/away/../../secret.txt",
    "/docs/../hello.txt", "/fifo", "/.", "/./hello.txt", "/docs/.", "/docs/./",
  }
  for _, hidden in ipairs { false, true } do
    for _, target in ipairs(targets) do
      local r = raw(target, { list = true, hidden = hidden })
      t.ok(not r.body:find("secret", 1, true) and not r.body:find("root:", 1, true), target .. ": " .. r.body)
      local is_dot = hidden and target:find "/%.?$" or target:find "/%./"
      if not (hidden and is_dot) then t.eq({ target, r.status }, { target, 404 }) end
    end
  end
end)

t.test("a malformed escape is refused", function()
  t.eq(raw("/%zz").status, 400)
  t.eq(raw("/%").status, 400)
end)

t.test("links to places inside the folder are followed, even absolute links", function()
  t.eq(ask("/inside.txt").body, "hello\n")
  t.eq(ask("/absolute.txt").body, "hello\n")
end)

t.test("names that begin with a dot are hidden by default", function()
  for _, target in ipairs { "/.env", "/.git/config", "/.git/", "/.git", "/%2eenv" } do
    t.eq({ target, ask(target).status }, { target, 404 })
  end
  t.eq(ask("/.env", nil, "GET", { hidden = true }).body, "secret")
  t.eq(ask("/.git/config", nil, "GET", { hidden = true }).body, "secret")
end)

t.test("for a file without read permission the response is 403", function()
  t.write(site .. "/closed.txt", "closed")
  sh "chmod 0 site/closed.txt"
  local readable = io.open(site .. "/closed.txt")
  if readable then readable:close() end -- root can read every file
  local r = ask "/closed.txt"
  t.eq({ r.status, r.body }, readable and { 200, "closed" } or { 403, "Forbidden\n" })
end)

t.test("directories are not listed by default", function()
  t.eq(ask("/list/").status, 404)
end)

t.test("a listing shows the accessible files, escaped, directories first, with sizes", function()
  local r = ask("/list/", nil, "GET", { list = true })
  t.eq({ r.status, r.headers["content-type"] }, { 200, "text/html; charset=utf-8" })
  local names = {}
  for name in r.body:gsub("</?bdi>", ""):gmatch '<a href="[^"]*"[^>]*>([^<]*)</a>' do names[#names + 1] = name end
  t.eq(names, { "../", "sub/", "&lt;b&gt;&amp;&quot;&#39;.txt", "apple.txt", "Zebra.txt" })
  t.ok(r.body:find('href="./%3Cb%3E%26%22%27.txt"', 1, true), r.body)
  t.ok(r.body:find("1.5 kB", 1, true) and r.body:find("1 folder, 3 files", 1, true), r.body)
  t.ok(r.body:find('name="viewport"', 1, true) and r.body:find("prefers-color-scheme:dark", 1, true))
  t.ok(not ask("/list/sub/", nil, "GET", { list = true }).body:find("<td><a href=\"./", 1, true))
  t.ok(ask("/list/", nil, "GET", { list = true, hidden = true }).body:find(".hidden", 1, true))
  t.eq(ask("/list/", nil, "HEAD", { list = true }).body, "")
  t.eq(ask("/docs/", nil, "GET", { list = true }).body, "docs", "an index is served instead of a listing")
end)

-- Regression: with U+202E, `invoice\u{202E}gpj.exe` was shown as `invoiceexe.jpg`.
t.test("in a listing, question marks replace characters that change the direction of text", function()
  local places = {}
  for _, code in ipairs {
    0x61C, 0x200D, 0x200E, 0x200F, 0x2010, 0x2029, 0x202A, 0x202E, 0x202F, 0x2065, 0x2066, 0x2069, 0x206A, 0x627,
  } do places[#places + 1] = utf8.char(code) end
  local name = "a" .. table.concat(places, "b")
  sh "mkdir -p site/directions"
  t.write(site .. "/directions/" .. name, "x")
  local r = ask("/directions/", nil, "GET", { list = true })
  t.ok(r.body:find("<title>Files in /directions/</title>", 1, true), r.body)
  t.eq(r.body:match "<bdi>([^<]*)</bdi>",
    "a?b\u{200D}b?b?b\u{2010}b\u{2029}b?b?b\u{202F}b\u{2065}b?b?b\u{206A}b\u{627}")
end)

t.test("while a long listing is written, other tasks run", function()
  local long = base .. "/long"
  sh "mkdir long && cd long && seq -f 'file-%05g' 2001 | xargs touch"
  local app, turns, response = web.new(), 0, nil
  local listed
  app:use(function(_, _, continue)
    local counting = true
    loop.fork(function()
      while counting do
        turns = turns + 1
        loop.sleep(0)
      end
    end)
    continue()
    counting, listed = false, turns
  end)
  app:static("/", long, { list = true })
  http.with(app, function(open) response = open():ask "GET / HTTP/1.1\r\nHost: test\r\n\r\n" end)
  t.eq(select(2, response.body:gsub("file%-%d+</bdi>", "")), 2001)
  -- The other task begins with the first of the four pauses.
  t.eq(listed, 4)
end)

t.test("the path of a listing is escaped in its title", function()
  sh [[mkdir -p 'site/<script>x']]
  local r = ask("/%3Cscript%3Ex/", nil, "GET", { list = true })
  t.eq(r.status, 200)
  t.ok(not r.body:find("<script", 1, true) and r.body:find("/&lt;script&gt;x/", 1, true), r.body)
end)

t.test("Cache-Control follows the options", function()
  local function cache(opts) return ask("/hello.txt", nil, "GET", opts).headers["cache-control"] end
  t.eq(cache { max_age = 60 }, "public, max-age=60")
  t.eq(cache { max_age = 1e6, immutable = true }, "public, max-age=1000000, immutable")
  t.eq(cache { cache_control = "no-store" }, "no-store")
end)

t.test("compressed copies are sent to clients that accept them, with type, coding and their own tag", function()
  t.write(site .. "/app.js.gz", "gzip bytes")
  t.write(site .. "/app.js.br", "brotli bytes")
  local function get(accept, method)
    return ask("/app.js", accept and { "Accept-Encoding: " .. accept }, method)
  end
  local plain, gzip, brotli = get(), get "gzip", get "gzip, deflate, br"
  t.eq({ #plain.body, gzip.body, brotli.body }, { 600, "gzip bytes", "brotli bytes" })
  t.eq({ plain.headers["content-encoding"], gzip.headers["content-encoding"], brotli.headers["content-encoding"] },
    { nil, "gzip", "br" })
  for _, r in ipairs { plain, gzip, brotli } do
    t.eq({ r.headers.vary, r.headers["content-type"] }, { "Accept-Encoding", "text/javascript; charset=utf-8" })
  end
  local tags = { [plain.headers.etag] = 1, [gzip.headers.etag] = 2, [brotli.headers.etag] = 3 }
  t.eq(tags[gzip.headers.etag] + tags[plain.headers.etag], 3, "three different tags")
  t.eq(get("br;q=0.1, gzip;q=0.2").body, "gzip bytes")
  t.eq(#get("gzip;q=0, identity").body, 600)
  t.eq(get("br", "HEAD").headers["content-length"], "12")
  t.eq(#ask("/app.js", { "Accept-Encoding: gzip" }, "GET", { precompressed = false }).body, 600)
  t.eq(ask("/pixel.png", { "Accept-Encoding: gzip" }).headers.vary, nil, "pictures need no Vary")
  local again = ask("/app.js", { "Accept-Encoding: gzip", "If-None-Match: " .. gzip.headers.etag })
  t.eq({ again.status, again.headers.vary, again.headers.etag }, { 304, "Accept-Encoding", gzip.headers.etag })
  local part = ask("/app.js", { "Accept-Encoding: gzip", "Range: bytes=0-3" })
  t.eq({ part.status, part.body, part.headers["content-range"] }, { 206, "gzip", "bytes 0-3/10" })
end)

t.test("a compressed copy that is older than its file is not sent", function()
  t.write(site .. "/stale.css", "new")
  t.write(site .. "/stale.css.gz", "old")
  sh "touch -d '2001-01-01' site/stale.css.gz"
  t.eq(ask("/stale.css", { "Accept-Encoding: gzip" }).body, "new")
end)

t.test("a large file is sent whole, even between other responses", function()
  local text = ("0123456789abcdef"):rep(128 * 1024)
  t.write(site .. "/large.bin", text)
  local app = web.new()
  app:static("/", site)
  http.with(app, function(open)
    local c = open()
    local get = "GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
    c:send(get:format "/hello.txt", get:format "/large.bin", get:format "/empty.txt", get:format "/large.bin",
      get:format "/none", get:format "/hello.txt")
    for _, expected in ipairs { "hello\n", text, "", text, "Not Found\n", "hello\n" } do
      t.ok(c:response("GET").body == expected)
    end
  end)
end)

t.test("an HTTP/1.0 client gets a file with its length", function()
  local app = web.new()
  app:static("/", site)
  http.with(app, function(open)
    local c = open()
    local r = c:ask "GET /hello.txt HTTP/1.0\r\n\r\n"
    t.eq({ r.status, r.body, r.headers["content-length"], r.headers.connection }, { 200, "hello\n", "6", "close" })
    t.ok(c:ended())
  end)
end)

t.test("an idle connection whose file was sent keeps no file open", function()
  local app = web.new()
  app:static("/", site)
  http.with(app, function(open)
    local c = open()
    c:request("GET", "/none")
    local _, before = t.descriptors()
    for _, target in ipairs { "/hello.txt", "/large.bin" } do
      c:request("GET", target)
      -- The server's task may end some time after the client has read the response.
      local deadline = loop.now() + 10
      while select(2, t.descriptors()) > before and loop.now() < deadline do loop.sleep(0.001) end
      t.eq({ target, select(2, t.descriptors()) }, { target, before })
    end
  end)
end)

t.test("aborted downloads leave no file open, and are not logged", function()
  local f <close> = assert(io.open(site .. "/endless.bin", "w"))
  f:seek("set", (1 << 30) - 1)
  f:write "x"
  f:flush()
  local app = web.new { write_time = 0.05 }
  app:static("/", site)
  local log = http.logged(function()
    http.with(app, function(open, server)
      local _, before = t.descriptors()
      for index = 1, 5 do
        local c = open()
        c:send "GET /endless.bin HTTP/1.1\r\nHost: x\r\n\r\n"
        t.eq(c:read_head().status, 200)
        -- The first client stops reading, so the write time ends its download; the others close.
        if index > 1 then c:close() end
      end
      local deadline = loop.now() + 10
      while server.count > 0 and loop.now() < deadline do loop.sleep(0.01) end
      t.eq(server.count, 0)
      t.eq(select(2, t.descriptors()), before + 1, "only the socket of the first client is open")
    end)
  end)
  t.eq(log, "")
end)

t.test("a file that shrinks while it is sent ends the connection", function()
  t.write(site .. "/shrinks.bin", ("x"):rep(1 << 24))
  local app = web.new()
  app:static("/", site)
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      c:send "GET /shrinks.bin HTTP/1.1\r\nHost: x\r\n\r\n"
      local length = math.tointeger(tonumber(c:read_head().headers["content-length"]))
      assert(io.open(site .. "/shrinks.bin", "w")):close()
      local got = 0
      for piece in function() return c.c:recv() end do got = got + #piece end
      t.ok(got < length, got)
    end)
  end)
  t.ok(log:find("GET /shrinks.bin: sendfile: the file has become shorter", 1, true), log)
end)

t.test("middleware runs around the handler of files, and can replace its response", function()
  local r = http.once(function(app)
    app:use(function(_, res, next)
      next()
      res:header("X-A", "1")
    end)
    app:static("/", site)
  end, "GET", "/hello.txt")
  t.eq({ r.body, r.headers["x-a"] }, { "hello\n", "1" })
  r = http.once(function(app)
    app:use(function(_, _, next)
      next()
      return "another"
    end)
    app:static("/", site)
  end, "GET", "/hello.txt")
  t.eq({ r.status, r.body, r.headers["content-length"] }, { 200, "another", "7" })
end)

t.test("the response for a file is the same with and without middleware, and in a mounted app", function()
  local function app_with(shape)
    local app, inner = web.new(), web.new()
    if shape == "middleware" then app:use(function(_, _, next) next() end) end
    if shape == "mounted" then
      inner:static("/", site, { max_age = 5 })
      return app:mount("/", inner)
    end
    return app:static("/", site, { max_age = 5 })
  end
  local seen = {}
  for _, shape in ipairs { "plain", "middleware", "mounted" } do
    local answers = {}
    http.with(app_with(shape), function(open)
      local tag = open():request("GET", "/app.js").headers.etag
      for _, method in ipairs { "GET", "HEAD" } do
        for _, target in ipairs { "/app.js", "/empty.txt", "/a%20b/c+d.txt", "/pixel.png", "/large.bin", "/docs",
          "/none", "/%2eenv", "/a%2Fb", "/" } do
          for _, field in ipairs { "X: y", "Range: bytes=1-2", "Range: bytes=9999999-", "Range: bytes=0-0, 2-2",
            "Accept-Encoding: gzip", "If-None-Match: " .. tag, "If-Match: \"other\"", "Connection: close",
            "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT" } do
            local r = open():request(method, target, { field })
            local fields = {}
            for _, one in ipairs(r.fields) do
              local value = one[1] == "Date" and "" or one[2]:gsub("boundary=%x+", "")
              fields[#fields + 1] = one[1] .. ": " .. value
            end
            answers[#answers + 1] = { method, target, field, r.status, table.concat(fields, "\n"),
              r.body:gsub("%-%-%x+", "") }
          end
        end
      end
    end)
    seen[shape] = answers
  end
  t.eq(seen.middleware, seen.plain)
  t.eq(seen.mounted, seen.plain)
end)

-- Returns the number of bytes that the process has read, or nil if the system does not report it.
local function bytes_read()
  local f = io.open "/proc/self/io"
  if not f then return nil end
  local count = f:read "a":match "rchar: (%d+)"
  f:close()
  return tonumber(count)
end

t.test("a small file is read once, and again when it has changed, unless the cache is disabled or too small", function()
  local name, size = site .. "/kept.bin", 30000
  local app = web.new()
  app:static("/on", site):static("/off", site, { cache = false }):static("/few", site, { cache_file = size - 1 })
  http.with(app, function(open)
    local c = open()
    local function cost(prefix)
      local before = bytes_read()
      local r = c:request("GET", prefix .. "/kept.bin")
      return r.body, before and bytes_read() - before
    end
    t.write(name, ("a"):rep(size))
    t.eq(cost "/on", ("a"):rep(size))
    -- The server does not cache a file that has just changed.
    local deadline = loop.now() + 20
    local body, read
    repeat
      loop.sleep(0.1)
      body, read = cost "/on"
      t.eq(body, ("a"):rep(size))
    until not read or read < size or loop.now() > deadline
    t.ok(not read or read < size, "the file is never cached")
    for _, prefix in ipairs { "/off", "/few" } do
      for _ = 1, 2 do
        body, read = cost(prefix)
        t.eq(body, ("a"):rep(size))
        t.ok(not read or read >= size, prefix)
      end
    end
    local kept = c:request("GET", "/on/kept.bin", { "Range: bytes=5-9" })
    t.eq({ kept.status, kept.body, kept.headers["content-range"] }, { 206, "aaaaa", "bytes 5-9/30000" })
    kept = c:request("HEAD", "/on/kept.bin")
    t.eq({ kept.status, kept.headers["content-length"] }, { 200, "30000" })
    t.eq(c:request("GET", "/on/kept.bin", { "If-None-Match: " .. kept.headers.etag }).status, 304)
    t.eq(c:request("GET", "/on/kept.bin", { "Range: bytes=0-0, 2-2" }).status, 206)
    -- The new file has the same size and the same modification time.
    assert(os.execute(("touch -r %s %s.time"):format(t.quote(name), t.quote(name))))
    t.write(name, ("b"):rep(size))
    assert(os.execute(("touch -r %s.time %s"):format(t.quote(name), t.quote(name))))
    t.eq(cost "/on", ("b"):rep(size))
    os.remove(name)
    t.eq(c:request("GET", "/on/kept.bin").status, 404)
  end)
end)

t.test("a route of the app takes precedence over a file", function()
  local r = http.once(function(app)
    app:static("/", site)
    app:get("/hello.txt", function() return "route" end)
  end, "GET", "/hello.txt")
  t.eq(r.body, "route")
end)

t.test("for a missing folder or invalid options, app:static raises at the caller's line", function()
  local app = web.new()
  t.raises("web_static_test.lua:%d+: app:static: cannot serve '.*/none': No such file", function()
    app:static("/", base .. "/none")
  end)
  t.raises("web_static_test.lua:%d+: app:static: cannot serve", function() app:static("/", site .. "/hello.txt") end)
  t.raises("web_static_test.lua:%d+: app:static: option 'lists' is unknown %(did you mean 'list'%?%)", function()
    app:static("/", site, { lists = true })
  end)
  t.raises("app:static: option 'list' must be true or false, got \"yes\"", app.static, app, "/", site, { list = "yes" })
  t.raises("app:static: option 'max_age' must be a finite, non%-negative number of seconds, got %-1",
    app.static, app, "/", site, { max_age = -1 })
  t.raises("app:static: option 'cache' must be false or an integer of at least 0, got true",
    app.static, app, "/", site, { cache = true })
  t.raises("'static' %(the prefix must", app.static, app, "files", site)
  t.raises("'static' %(the prefix must", app.static, app, "/:id", site)
  t.raises("bad argument #2 to 'static' %(path of a folder expected, got nil", app.static, app, "/")
end)

-- Requests `path`, for which a handler calls res:file. Returns the response, and the results of res:file.
local function sent(path, opts, fields)
  local result
  local r = http.once(function(app)
    app:get("/", function(_, res)
      result = table.pack(res:file(path, opts))
      if result[1] == res then result[1] = "res" end
    end)
  end, "GET", "/", fields)
  return r, result
end

t.test("res:file serves one file, with conditional requests, ranges and compressed copies", function()
  local r, result = sent(site .. "/hello.txt")
  t.eq({ r.status, r.body, r.headers["content-type"], result[1] },
    { 200, "hello\n", "text/plain; charset=utf-8", "res" })
  t.eq(sent(site .. "/hello.txt", nil, { "If-None-Match: " .. r.headers.etag }).status, 304)
  t.eq(sent(site .. "/hello.txt", nil, { "Range: bytes=1-2" }).body, "el")
  t.eq(sent(site .. "/app.js", nil, { "Accept-Encoding: br" }).body, "brotli bytes")
  t.eq(#sent(site .. "/app.js", { precompressed = false }, { "Accept-Encoding: br" }).body, 600)
end)

t.test("res:file accepts a type, a name for a download, and cache options", function()
  local r = sent(site .. "/hello.txt", { type = "text/x-own", name = 'a "b".txt', max_age = 5 })
  t.eq({ r.headers["content-type"], r.headers["cache-control"] }, { "text/x-own", "public, max-age=5" })
  t.eq(r.headers["content-disposition"], "attachment; filename=\"a _b_.txt\"; filename*=UTF-8''a%20%22b%22.txt")
  r = sent(site .. "/hello.txt", { name = "a\\b%41" })
  t.eq(r.headers["content-disposition"], "attachment; filename=\"a_b_41\"; filename*=UTF-8''a%5Cb%2541")
  r = sent(site .. "/hello.txt", { name = "plain.txt" })
  t.eq(r.headers["content-disposition"], 'attachment; filename="plain.txt"')
  local log = http.logged(function()
    t.eq(sent(site .. "/hello.txt", { cache_control = 1 }).status, 500)
  end)
  t.ok(log:find("web_static_test.lua:%d+: res:file: option 'cache_control' must be a string, got 1"), log)
end)

t.test("if res:file cannot open a file it returns the reason, and the response is 404 by default", function()
  local r, result = sent(site .. "/none")
  t.eq({ r.status, r.body, result[1], result[3] }, { 404, "Not Found\n", nil, "not found" })
  t.eq({ sent(site).status, sent(site .. "/fifo").status }, { 404, 404 })
  r = http.once(function(app)
    app:get("/", function(_, res)
      if not res:file(site .. "/none") then return 200, "instead" end
    end)
  end, "GET", "/")
  t.eq({ r.status, r.body }, { 200, "instead" })
end)

t.test("res:file with a root serves only files below the root", function()
  t.eq(sent("hello.txt", { root = site }).body, "hello\n")
  for _, path in ipairs { "../secret.txt", "/etc/passwd", "escape.txt", "hello.txt\0", "docs\\index.html" } do
    local r, result = sent(path, { root = site })
    t.eq({ path, r.status, result[3] }, { path, 404, "outside" })
  end
end)

t.test("res:file with another status, as for error pages, sends the whole file", function()
  local r = http.once(function(app)
    app:get("/", function(_, res) return res:status(404):file(site .. "/hello.txt") end)
  end, "GET", "/", { "Range: bytes=0-0", "If-None-Match: *" })
  t.eq({ r.status, r.body }, { 404, "hello\n" })
end)

t.test("if a handler raises after res:file, the response is 500, and the file is closed", function()
  local r
  http.logged(function()
    r = http.once(function(app)
      app:get("/", function(_, res)
        res:file(site .. "/hello.txt")
        error "after"
      end)
    end, "GET", "/")
  end)
  t.eq({ r.status, r.body }, { 500, "Internal Server Error\n" })
end)

t.test("web.compress compresses a file that has no compressed copy, but no ranges", function()
  t.write(site .. "/long.txt", ("a long text, "):rep(10000))
  local function get(target, ...)
    return http.once(function(app)
      app:use(web.compress())
      app:static("/", site)
    end, "GET", target, { "Accept-Encoding: gzip", ... })
  end
  local r = get "/long.txt"
  t.eq({ r.status, r.headers["content-encoding"], r.headers["content-length"] }, { 200, "gzip", nil })
  local plain = require("lio.compress").decoder("gzip"):finish(r.body)
  t.ok(plain == ("a long text, "):rep(10000))
  r = get("/long.txt", "Range: bytes=2-5")
  t.eq({ r.status, r.headers["content-encoding"], r.body }, { 206, nil, "long" })
  t.eq(get("/app.js").body, "gzip bytes")
end)

t.test("the log counts the bytes of a file that were sent", function()
  local lines = {}
  local r = http.once(function(app)
    app:use(web.log { format = function(entry)
      lines[#lines + 1] = entry.bytes
      return nil
    end })
    app:static("/", site)
  end, "GET", "/large.bin")
  t.eq({ #r.body, lines }, { 2097152, { 2097152 } })
end)

t.test("a mounted app serves files below its prefix, and redirects within it", function()
  local function get(target)
    return http.once(function(app)
      local inner = web.new()
      inner:static("/files", site)
      app:mount("/app", inner)
    end, "GET", target)
  end
  t.eq(get("/app/files/hello.txt").body, "hello\n")
  t.eq(get("/app/files/docs").headers.location, "./docs/")
  t.eq(get("/app/files/docs/").body, "docs")
  t.eq(get("/app/files/").body, "<h1>home</h1>")
end)

t.test("if the constraint of a route is not satisfied, a file with the path is served", function()
  local function get(target)
    return http.once(function(app)
      app:get("/:id<%d+>", function(req) return "id " .. req.params.id end)
      app:static("/", site)
    end, "GET", target)
  end
  t.eq(get("/12").body, "id 12")
  local r = get "/hello.txt"
  t.eq({ r.status, r.body }, { 200, "hello\n" })
end)

t.finish()
