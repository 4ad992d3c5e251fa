-- Forms with files: fields, files that are stored or streamed, limits, and malformed forms. Needs /proc.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local thread = require "lio.thread"
local web = require "lio.webserver"

local KIND <const> = "Content-Type: multipart/form-data; boundary=B"

local function read_file(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

-- Returns a part as browsers write it. If `filename` is nil, the part is a field.
local function part(name, data, filename, kind)
  return table.concat {
    "--B\r\nContent-Disposition: form-data; name=\"", name, '"',
    filename and '; filename="' .. filename .. '"' or "",
    filename and "\r\nContent-Type: " .. (kind or "text/plain") or "",
    "\r\n\r\n", data, "\r\n",
  }
end

local function form(...) return table.concat { ... } .. "--B--\r\n" end

-- Sends a form to an app with the route `handler`. Returns the response.
local function post(handler, body, options, fields)
  local app, response = web.new(options), nil
  app:post("/", handler)
  http.with(app, function(open)
    response = open():request("POST", "/", fields or { KIND }, body)
  end)
  return response
end

-- Sends the form `body`, and calls `check` with the results of `req:form(opts)`.
local function read(body, opts, check)
  local checked
  local logged = http.logged(function()
    local r = post(function(req)
      check(req:form(opts))
      checked = true
      return "checked"
    end, body)
    t.eq(r.body, "checked")
  end)
  t.ok(checked, logged)
end

-- Sends the form `body`, which must be refused. Returns the status, the message of `req:form(opts)`, and the response.
local function refused(body, opts, fields)
  local got
  local r = post(function(req)
    got = table.pack(req:form(opts))
  end, body, nil, fields)
  t.eq({ got[1], got.n }, { nil, 3 })
  t.eq(got[3], r.status)
  return r.status, got[2], r
end

-- One byte longer than the largest file that is kept in memory.
local BIG <const> = ("b"):rep(16 * 1024 + 1)

-- Returns the number of open temporary files of this process.
local function open_files()
  local count = 0
  for fd in pairs((t.descriptors())) do
    local info = read_file("/proc/self/fdinfo/" .. fd)
    if info:match "flags:%s*%d+" and tonumber(info:match "flags:%s*(%d+)", 8) & tonumber("020000000", 8) ~= 0 then
      count = count + 1 -- a file that was opened with O_TMPFILE
    end
  end
  return count
end

t.test("fields are strings of the bytes that were sent; the values of a repeated field are a list", function()
  local body = form(part("a", "one"), part("b", ""), part("a", "two\r\n--\r\n"), part("ü", "\0\255"), part("a", "3"))
  read(body, nil, function(fields, files)
    t.eq(fields, { a = { "one", "two\r\n--\r\n", "3" }, b = "", ["ü"] = "\0\255" })
    t.eq(files, {})
  end)
end)

t.test("files are stored in temporary files, and listed in order and by name", function()
  local body = form(part("x", "field"), part("f", "first", "a.txt"), part("g", "second", "b.png", "image/png"),
    part("f", "", "c.txt"))
  read(body, nil, function(fields, files)
    t.eq(fields, { x = "field" })
    t.eq(#files, 3)
    t.eq(files.g, files[2])
    t.eq(files.f, { files[1], files[3] })
    local f = files[1]
    t.eq({ f.name, f.filename, f.content_type, f.size }, { "f", "a.txt", "text/plain", 5 })
    t.eq(files.g.headers, {
      ["content-type"] = "image/png", ["content-disposition"] = 'form-data; name="g"; filename="b.png"',
    })
    t.eq({ f:read(), f:read(), files[3]:read() }, { "first", "first", "" })
    t.eq(read_file(f.path), "first")
    local handle <close> = f:open()
    t.eq(handle:read "a", "first")
    t.eq(t.run("cat " .. t.quote(f.path)).out, "first", "other programs can open the path")
    local pieces = {}
    for piece in f:stream() do pieces[#pieces + 1] = piece end
    t.eq(pieces, { "first" })
  end)
end)

t.test("a file input for which the user has chosen no file is ignored", function()
  read(form(part("f", "", ""), part("x", "1")), nil, function(fields, files)
    t.eq({ fields, files }, { { x = "1" }, {} })
  end)
  read(form(part("f", "content", "")), nil, function(_, files)
    t.eq({ files[1]:read(), files[1].filename, files[1].basename }, { "content", "", "file" })
  end)
end)

t.test("a form may have no parts", function()
  read("--B--\r\n", nil, function(fields, files) t.eq({ fields, files }, { {}, {} }) end)
end)

t.test("names are decoded as browsers and curl encode them", function()
  local sent = { 'a\\"b', "a%22b", "Größe.txt", "C:\\dir\\x.txt" }
  local want = { 'a"b', 'a"b', "Größe.txt", "C:\\dir\\x.txt" }
  for i, filename in ipairs(sent) do
    read(form(part("f", "x", filename)), nil, function(_, files) t.eq(files[1].filename, want[i]) end)
  end
end)

t.test("basename is safe for every filename", function()
  for filename, want in pairs {
    ["../../etc/passwd"] = "passwd", ["/abs/x.txt"] = "x.txt", ["C:\\dir\\x.txt"] = "x.txt", [".."] = "file",
    ["a/.."] = "file", ["dir/"] = "file", [" x%0D%0Ay "] = "xy", [".profile"] = ".profile",
    [("ä"):rep(200) .. ".jpeg"] = ("ä"):rep(125) .. ".jpeg", [("x"):rep(300)] = ("x"):rep(255),
  } do
    read(form(part("f", "x", filename)), nil, function(_, files) t.eq(files[1].basename, want) end)
  end
end)

-- The patterns took a time that grows with the square of the length. The limit of a part's header keeps names shorter
-- than these, so the part is made without a form.
t.test("basename is found at once in a long filename", function()
  local new_part = require("lio.web.form_part").new
  local function basename(filename) return new_part({}, "f", filename, {}).basename end
  local size <const> = 1 << 20
  t.eq(basename(("a"):rep(size) .. "/b"), "b")
  t.eq(basename(("a"):rep(size) .. "\\"), "file")
  t.eq(basename(("a"):rep(size)), ("a"):rep(255))
  t.eq(basename(("/"):rep(size) .. " b "), "b")
  t.eq(basename((" "):rep(size)), "file")
  t.eq(basename("a" .. (" "):rep(size) .. "\t"), "a")
  t.eq(basename("a" .. (" "):rep(size) .. ".b"), "a" .. (" "):rep(252) .. ".b")
end)

t.test("a form may arrive byte by byte", function()
  local app = web.new()
  app:post("/", function(req)
    local fields, files = req:form()
    return fields.a .. files.f:read() .. files.f.size
  end)
  local body = form(part("a", "one\r\n--B"  .. "\r"), part("f", "two\r\n-", "x"))
  body = body:gsub("%-%-B\r\r\n", "--C\r\r\n")
  http.with(app, function(open)
    local c = open()
    c:send("POST / HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nTransfer-Encoding: chunked\r\n\r\n")
    for byte in body:gmatch "." do c:send("1\r\n", byte, "\r\n") end
    c:send "0\r\n\r\n"
    t.eq(c:response().body, "one\r\n--C\rtwo\r\n-6")
    t.eq(c:request("POST", "/", { KIND }, body).status, 200, "the connection stays open")
  end)
end)

t.test("a form can be read twice, even if the body was read before", function()
  local body = form(part("a", "1"), part("f", "x", "y"))
  local function twice(before)
    return post(function(req)
      if before then req:body() end
      local fields, files = req:form()
      local again, same = req:form()
      return tostring(fields == again and files == same) .. fields.a .. files.f:read()
    end, body).body
  end
  t.eq(twice(false), "true1x")
  t.eq(twice(true), "true1x")
  local r = post(function(req)
    req:body()
    req:form { body = 3 }
  end, body)
  t.eq(r.status, 413)
end)

t.test("a urlencoded form has no files, and has its own limits", function()
  local kind = { "Content-Type: application/x-www-form-urlencoded" }
  t.eq(post(function(req)
    local fields, files = req:form()
    return fields.a[2] .. fields.b .. #files
  end, "a=1&a=+%41&b", nil, kind).body, " A0")
  t.eq(refused("a=1&b=2&c=3", { parts = 2 }, kind), 413)
  t.eq(refused("a=1&b=2&c=3", { fields = 10 }, kind), 413)
  t.eq(refused("a=1&b=2&c=3", 10, kind), 413)
  t.eq(refused("a=1", nil, { "Content-Type: multipart/mixed; boundary=B" }), 415)
end)

t.test("on_file gets each file as it arrives, and nothing is stored", function()
  local seen = {}
  read(form(part("a", "1"), part("f", "one", "x"), part("g", "two", "y"), part("b", "2")), {
    on_file = function(p)
      local pieces = {}
      for piece in p:stream() do pieces[#pieces + 1] = piece end
      seen[#seen + 1] = { p.name, p.filename, table.concat(pieces), p.size }
    end,
  }, function(fields, files)
    t.eq(fields, { a = "1", b = "2" })
    t.eq(seen, { { "f", "x", "one", 3 }, { "g", "y", "two", 3 } })
    t.eq({ #files, files.g.size, files.g.file }, { 2, 3, false })
    t.raises("keep: the part has already been read", files.f.keep, files.f)
  end)
end)

t.test("on_file may keep a file, skip it, or skip the rest of it", function()
  local data = ("0123456789"):rep(50000)
  read(form(part("f", data, "skip"), part("f", data, "half"), part("f", "kept", "keep"), part("f", data, "read")), {
    on_file = function(p)
      if p.filename == "half" then p:stream()() end
      if p.filename == "keep" then p:keep() end
      if p.filename == "read" then t.eq(p:read(), data) end
    end,
  }, function(_, files)
    t.eq(#files, 4)
    t.eq({ files[1].size, files[3].size, files[4].size }, { 0, 4, #data })
    t.ok(files[2].size < #data)
    t.eq(files[3]:read(), "kept")
    t.eq(files[1]:read(), "", "skipped bytes cannot be read")
    t.raises("keep: the part has already been read", function() return files[1].path end)
  end)
end)

t.test("on_file is called before the whole file has arrived, and the server reads only as fast as on_file", function()
  local app, gate, first, total = web.new { body = 2 ^ 40 }, {}, nil, 0
  app:post("/", function(req)
    assert(req:form { on_file = function(p)
      for piece in p:stream() do
        total = total + #piece
        if not first then
          first = true
          loop.wait(gate)
        end
      end
    end })
    return tostring(total)
  end)
  http.with(app, function(open)
    local c, size, sent = open(), 64 * 1024 * 1024, 0
    local head, tail = part("f", "", "big"):sub(1, -3), "\r\n--B--\r\n"
    c:send("POST / HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nContent-Length: ", tostring(#head + size + #tail), "\r\n\r\n")
    c:send(head)
    loop.fork(function()
      local piece = ("x"):rep(65536)
      while sent < size do
        c:send(piece)
        sent = sent + #piece
      end
      c:send(tail)
    end)
    http.stalls(function() return first and sent end)
    t.ok(sent < 32 * 1024 * 1024, sent .. " bytes were accepted from a sender whose file is not read")
    loop.wakeup(gate)
    t.eq(c:response().body, tostring(size))
  end)
end)

t.test("a file that arrives in many pieces is stored unchanged", function()
  local pieces = {}
  for i = 1, 3000 do pieces[i] = string.pack("<I4", i * 2654435761 & 0xffffffff):rep(256) .. "\r\n--b" end
  local data = table.concat(pieces)
  read(form(part("f", data, "big")), nil, function(_, files)
    t.eq(files.f.size, #data)
    t.ok(files.f:read() == data)
    local streamed = {}
    for piece in files.f:stream() do
      t.ok(#piece <= 65536)
      streamed[#streamed + 1] = piece
    end
    t.ok(table.concat(streamed) == data)
    local none, reason, status = files.f:read(1000)
    t.eq({ none, reason, status }, { nil, "the file is larger than allowed", 413 })
  end)
end)

t.test("move keeps a file under a name, and replaces another file only with the option replace", function()
  local dir = t.tmp()
  read(form(part("f", "new", "x"), part("g", "other", "y")), nil, function(_, files)
    t.eq(files.f:move(dir .. "/a"), true)
    t.eq(files.f.path, dir .. "/a")
    t.eq(files.f:move(dir .. "/b"), true, "the file gets a second name")
    local ok, message, code = files.g:move(dir .. "/a")
    t.eq({ ok, code }, { nil, "exists" })
    t.ok(message:find "^move: ", message)
    t.eq(read_file(dir .. "/a"), "new")
    t.eq(files.g:move(dir .. "/a", { replace = true }), true)
    t.eq(files.g:move(dir .. "/a", { replace = true }), true, "itself")
    ok, message, code = files.f:move(dir .. "/none/a")
    t.eq({ ok, code }, { nil, "not found" }, message)
    t.eq(files.f:read(), "new", "the file can still be read")
  end)
  t.eq({ read_file(dir .. "/a"), read_file(dir .. "/b") }, { "other", "new" })
  t.eq(t.run("ls -A " .. t.quote(dir)).out, "a\nb\n", "the folder has no other files")
end)

t.test("move copies to another file system", function()
  local other = "/dev/shm"
  local probe = io.open(other .. "/.")
  if not probe or t.run("stat -c %d " .. other .. " .").out:match "^(%d+)\n%1\n" then return end
  probe:close()
  local target = other .. "/lio-form-test-" .. t.run("mktemp -u XXXXXXXX").out:match "%w+"
  local data = ("x"):rep(3000000) .. "end"
  read(form(part("f", data, "x")), { dir = t.tmp() }, function(_, files)
    t.eq(files.f:move(target), true)
    local _, _, code = files.f:move(target)
    t.eq(code, "exists")
    t.ok(read_file(target) == data)
  end)
  os.remove(target)
end)

t.test("temporary files are created in dir; if dir does not exist, the response is 500 without details", function()
  local dir = t.tmp()
  read(form(part("f", "x", "y")), { dir = dir }, function(_, files)
    t.eq(t.run("stat -c %d " .. dir .. "; stat -Lc %d " .. files.f.path).out:match "^(%d+)\n%1\n" ~= nil, true)
  end)
  local status, reason, r = refused(form(part("f", BIG, "y")), { dir = dir .. "/none" })
  t.eq({ status, r.body }, { 500, "the upload cannot be stored\n" })
  t.ok(reason:find "^store: ", reason)
end)

t.test("temporary files are removed after a response, an error, a refusal, or when the client closes", function()
  local app, count = web.new(), nil
  app:post("/:how", function(req)
    local fields = req:form { parts = 3 }
    count = open_files()
    if req.params.how == "raise" then error "on purpose" end
    if fields then return "stored" end
  end)
  app:get("/", function() return tostring(open_files()) end)
  local files = part("f", BIG, "a") .. part("g", BIG, "b")
  http.logged(function()
    http.with(app, function(open)
      local c = open()
      for how, want in pairs { answer = 200, raise = 500 } do
        t.eq(c:request("POST", "/" .. how, { KIND }, form(files)).status, want)
        t.eq(count, 2)
        t.eq(c:request("GET", "/").body, "0", how)
      end
      t.eq(c:request("POST", "/refuse", { KIND }, form(files, files)).status, 413)
      t.eq(c:request("GET", "/").body, "0", "refused")
      t.eq(c:request("POST", "/refuse", { KIND }, files .. "--Bx").status, 400)
      t.eq(c:request("GET", "/").body, "0", "malformed")
      count = nil
      c:send("POST /cut HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nContent-Length: 100000\r\n\r\n", files)
      c.c:shutdown "w"
      t.eq(c:response().status, 400)
      t.eq(count, 0, "the form was closed when it failed")
    end)
  end)
end)

t.test("if a handler is killed, its connection is closed and its temporary files are removed", function()
  local app, task = web.new(), nil
  app:post("/", function(req)
    assert(req:form())
    task = coroutine.running()
    loop.sleep(100)
  end)
  http.with(app, function(open, server)
    -- Tests the first request of a connection, and a later request, which another task serves.
    for _, before in ipairs { 0, 1 } do
      local c = open()
      for _ = 1, before do t.eq(c:request("GET", "/").status, 405) end
      local body = form(part("f", BIG, "y"))
      c:send("POST / HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nContent-Length: ", tostring(#body), "\r\n\r\n", body)
      while not task do loop.sleep(0) end
      t.eq(open_files(), 1)
      t.ok(loop.kill(task))
      task = nil
      t.eq(open_files(), 0)
      t.ok(c:ended())
      t.eq(server.count, 0)
      c:close()
    end
  end)
end)

t.test("after the request, its parts cannot be used, but files that were moved stay", function()
  local kept
  post(function(req)
    local _, files = req:form()
    kept = files.f
    return "x"
  end, form(part("f", "1", "a")))
  for _, call in ipairs { "read", "stream", "open", "keep" } do
    t.raises(call .. ": the part is closed, because its request has ended", kept[call], kept)
  end
  t.raises("move: the part is closed", kept.move, kept, "x")
  kept:close()
end)

-- Regression: the error gave the end of the request as the reason, although the request had not ended.
t.test("the error for a closed part gives the reason: part:close(), or a form that could not be read", function()
  local begun
  post(function(req)
    local _, files = req:form()
    files.f:close()
    t.raises("part:read: the part is closed, because part:close%(%) was called", files.f.read, files.f)
    t.raises("part:close: call it with a colon", files.f.close)
    return "x"
  end, form(part("f", "1", "a")))
  post(function(req)
    t.raises("no more", req.form, req, { on_file = function(one)
      begun = one
      error "no more"
    end })
    t.raises("part:read: the part is closed, because its form could not be read", begun.read, begun)
    return "x"
  end, form(part("f", "1", "a")))
end)

-- Regression: the second call returned the rest of the form as the whole form.
t.test("a form that was refused after a part of it was read is refused again", function()
  local first, rest = part("a", "1") .. "--B\r\n", form(part("b", "2")):sub(6)
  local chunks = ("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n"):format(#first, first, #rest, rest)
  local results
  local app = web.new()
  app:post("/", function(req)
    results = { table.pack(req:form(#first)), table.pack(req:form(1000)) }
    return req:arg("b", "none")
  end)
  http.with(app, function(open)
    local r = open():ask("POST / HTTP/1.1\r\nHost: a\r\n" .. KIND .. "\r\nTransfer-Encoding: chunked\r\n\r\n" .. chunks)
    t.eq(r.body, "none")
  end)
  local refusal <const> = { nil, "the body is larger than allowed", 413, n = 3 }
  t.eq(results, { refusal, refusal })
end)

t.test("a form whose announced length exceeds the limit may be read with a larger one", function()
  local r = post(function(req)
    local _, _, status = req:form(10)
    return status .. req:form().a
  end, form(part("a", "1")))
  t.eq(r.body, "4131")
  r = post(function(req)
    req:form(10)
    assert(req:form())
  end, form(part("a", "1")))
  t.eq(r.status, 204)
end)

-- Sends the beginning of a form to an app with the route `handler`. Returns the response.
local function post_slowly(handler, bytes)
  local app, response = web.new(), nil
  app:post("/", handler)
  http.with(app, function(open)
    local c, body = open(), form(part("a", "1"), part("f", "0123456789", "f"))
    c:send(("POST / HTTP/1.1\r\nHost: a\r\n%s\r\nContent-Length: %d\r\n\r\n"):format(KIND, #body), body:sub(1, bytes))
    response = c:response()
  end)
  return response
end

t.test("only one call reads a form", function()
  local another <const> = "web_form_test.lua:%d+: req:form: another call is reading the form"
  post(function(req)
    req:form { on_file = function() t.raises(another, function() req:form() end) end }
    return "x"
  end, form(part("f", "1", "a")))
  -- The first call waits for the first piece.
  local r = post_slowly(function(req)
    local first = thread.spawn(req.form, req)
    loop.sleep(0)
    t.raises(another, function() req:form() end)
    thread.kill(first)
    return "x"
  end, 0)
  t.eq(r.body, "x")
end)

t.test("a form is refused after a call that was killed has lost a part of it", function()
  local results
  local r = post_slowly(function(req)
    results = { table.pack(thread.timeout(0.02, req.form, req)), table.pack(req:form()) }
    return req:form()
  end, 80)
  t.eq(results, { { nil, "timeout", n = 2 }, { nil, "only a part of the form was read", 400, n = 3 } })
  t.eq({ r.status, r.body }, { 400, "only a part of the form was read\n" })
end)

t.test("a file may be read again after a call that was killed", function()
  local data = ("0123456789"):rep(5000)
  local app, got, is_killed = web.new(), nil, false
  app:post("/", function(req)
    local _, files = req:form { on_file = function(p)
      thread.timeout(0.02, p.read, p)
      is_killed = true
      if p.filename == "read" then got = p:read() end
    end }
    t.eq({ files[2]:read(), files[1]:read() }, { "", "" })
    return "x"
  end)
  http.with(app, function(open)
    local c, body = open(), form(part("f", data, "read"), part("f", data, "skipped"))
    c:send(("POST / HTTP/1.1\r\nHost: a\r\n%s\r\nContent-Length: %d\r\n\r\n"):format(KIND, #body), body:sub(1, 20000))
    while not is_killed do loop.sleep(0.001) end
    c:send(body:sub(20001))
    t.eq(c:response().body, "x")
  end)
  t.ok(got == data)
end)

-- Regression: the second call returned what the first one had not received.
t.test("a file may be read with a larger limit after a smaller one has refused it", function()
  local data = ("0123456789"):rep(50000)
  for size, content in pairs { [10] = data, [0] = "x", [#data - 1] = data, [70000] = data } do
    read(form(part("f", content, "f"), part("g", "1")), {
      on_file = function(p)
        t.eq({ p:read(size) }, { nil, "the file is larger than allowed", 413 })
        t.eq({ p:read(size // 2) }, { nil, "the file is larger than allowed", 413 })
        t.ok(p:read(#content) == content)
        t.eq(p.size, #content)
      end,
    }, function(fields) t.eq(fields, { g = "1" }) end)
  end
end)

-- Regression: the beginning of the file counted as the whole file.
t.test("a file is not stored if the call of keep was killed", function()
  local app, size = web.new(), nil
  app:post("/", function(req)
    local _, files = req:form { on_file = function(p)
      thread.timeout(0.02, p.keep, p)
      t.raises("part:read: the part is being stored, or could not be stored", p.read, p)
      t.raises("part:keep: the part has already been read", p.keep, p)
      size = p.size
    end }
    t.raises("part:keep: the part has already been read", files[1].move, files[1], "/nowhere")
    return "x"
  end)
  http.with(app, function(open)
    local c, body = open(), form(part("f", BIG, "f"), part("g", "1"))
    c:send(("POST / HTTP/1.1\r\nHost: a\r\n%s\r\nContent-Length: %d\r\n\r\n"):format(KIND, #body), body:sub(1, 1000))
    while not size do loop.sleep(0.001) end
    c:send(body:sub(1001))
    t.eq(c:response().body, "x")
    t.eq(open_files(), 0)
  end)
end)

-- Regression: a hundred small files of one form kept a hundred descriptors open until the request ended.
t.test("small files have no descriptor until their path is requested", function()
  local parts = {}
  for i = 1, 90 do parts[i] = part("f" .. i, "content " .. i, "name" .. i) end
  parts[91] = part("limit", BIG:sub(2), "x")
  read(form(table.concat(parts)), nil, function(_, files)
    t.eq(#files, 91)
    t.eq(open_files(), 0)
    t.eq({ files.f90:read(), files.f90.size, files.limit.size }, { "content 90", 10, 16 * 1024 })
    t.eq(read_file(files.f7.path), "content 7")
    t.eq(open_files(), 1)
    t.eq(files.f7:read(), "content 7", "read works from the file too")
    local target = t.tmp() .. "/moved"
    t.eq(files.f8:move(target), true)
    t.eq(read_file(target), "content 8")
  end)
end)

t.test("if a small file cannot be stored, its path is nil, and open returns the reason", function()
  read(form(part("f", "x", "y")), { dir = t.tmp() .. "/none" }, function(_, files)
    t.eq(files.f:read(), "x")
    t.is_nil(files.f.path)
    local file, message, code = files.f:open()
    t.is_nil(file)
    t.ok(message:find "^store: ", message)
    t.ok(code)
    t.is_nil((files.f:move(t.tmp() .. "/moved")))
  end)
end)

t.test("close removes a temporary file early", function()
  read(form(part("f", BIG, "a")), nil, function(_, files)
    t.eq(open_files(), 1)
    files.f:close()
    t.eq(open_files(), 0)
  end)
end)

t.test("a form that exceeds a limit is refused with 413", function()
  local two = form(part("a", "12345"), part("f", "12345", "x"))
  for name, value in pairs { body = 50, parts = 1, part_headers = 40, field = 4, fields = 5, file = 4, files = 0 } do
    t.eq(refused(two, { [name] = value }), 413, name)
    local nothing = function() end
    if name ~= "file" then t.eq(refused(two, { [name] = value, on_file = nothing }), 413, name) end
  end
  read(two, { body = #two, parts = 2, part_headers = 90, field = 5, fields = 6, file = 5, files = 1 }, function(fields)
    t.eq(fields, { a = "12345" })
  end)
  t.eq(refused(two, 50), 413, "a number as options is the limit of the body")
  t.eq(post(function(req) req:form() end, two, { body = 50 }).status, 413, "the app's limit")
end)

t.test("a form over the body's limit is refused before it arrives", function()
  local app = web.new { body = 1000 }
  app:post("/", function(req) req:form() end)
  http.with(app, function(open)
    local c = open()
    c:send("POST / HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
    t.eq(c:response().status, 413)
    t.ok(c:ended())
  end)
end)

t.test("a client that waits for 100 Continue gets this response when the form is read", function()
  local app, gate = web.new(), {}
  app:post("/", function(req)
    loop.wait(gate)
    local fields = req:form()
    return fields and fields.a
  end)
  local body = form(part("a", "1"))
  http.with(app, function(open)
    local c = open()
    c:send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n", KIND, "\r\nContent-Length: ", tostring(#body),
      "\r\n\r\n")
    t.ok(c:silent(0.05))
    loop.wakeup(gate)
    t.eq({ c.c:recv "line", c.c:recv "line" }, { "HTTP/1.1 100 Continue", "" })
    c:send(body)
    t.eq(c:response().body, "1")
  end)
end)

t.test("a form that arrives too slowly is refused with 408", function()
  local app = web.new { body_time = 0.1, body_rate = 1000 }
  app:post("/", function(req) req:form() end)
  http.with(app, function(open)
    local c = open()
    c:send("POST / HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nContent-Length: 1000\r\n\r\n", part("f", "", "x"))
    t.eq(c:response().status, 408)
    t.ok(c:ended())
  end)
end)

t.test("other requests are served while a form is stored", function()
  local app, done = web.new { body = 2 ^ 30 }, nil
  app:post("/", function(req)
    local _, files = assert(req:form())
    done = true
    return tostring(files.f.size)
  end)
  app:get("/", function() return "x" end)
  local size = 64 * 1024 * 1024
  local head, tail = part("f", "", "big"):sub(1, -3), "\r\n--B--\r\n"
  http.with(app, function(open)
    local c, other, meanwhile = open(), open(), 0
    c:send("POST / HTTP/1.1\r\nHost: x\r\n", KIND, "\r\nContent-Length: ", tostring(#head + size + #tail), "\r\n\r\n")
    loop.fork(function() c:send(head, ("x"):rep(size), tail) end)
    while not done do
      t.eq(other:request("GET", "/").status, 200)
      meanwhile = meanwhile + 1
    end
    t.eq(c:response().body, tostring(size))
    t.ok(meanwhile > 5, meanwhile .. " requests were answered meanwhile")
  end)
end)

t.test("a malformed form is refused with 400, and the connection stays open", function()
  local app = web.new()
  app:post("/", function(req)
    local fields = req:form()
    return fields and "ok"
  end)
  local good = form(part("a", "1"))
  http.with(app, function(open)
    local c = open()
    for _, body in ipairs {
      "", "x", good:sub(1, -6), (good:gsub("\r\n", "\n")), (good:gsub("form%-data", "mixed")),
      (good:gsub("name", "nam")),
      (good:gsub('"a"', '"a"; name="b"')), part("a", "1"), "--Bx\r\n" .. good,
    } do
      t.eq(c:request("POST", "/", { KIND }, body).status, 400, body)
      t.eq(c:request("POST", "/", { KIND }, good).status, 200)
    end
    t.eq(c:request("POST", "/", { "Content-Type: multipart/form-data" }, good).status, 400)
    t.eq(c:request("POST", "/", { 'Content-Type: multipart/form-data; boundary="B"' }, good).status, 200)
  end)
end)

t.test("an error in on_file is an error in the handler, with its position", function()
  local logged = http.logged(function()
    t.eq(post(function(req) req:form { on_file = function() error "on purpose" end } end,
      form(part("f", "x", "y"))).status, 500)
  end)
  t.ok(logged:find "web_form_test.lua:%d+: on purpose", logged)
end)

t.test("a handler that catches an error from a stream cannot continue to read a refused form", function()
  local caught, r
  r = post(function(req)
    local fields = req:form { file = 3, on_file = function(p) caught = not pcall(p.read, p) end }
    t.is_nil(fields)
  end, form(part("f", "12345", "x"), part("a", "1")))
  t.eq({ caught, r.status }, { true, 413 })
end)

t.test("misuse raises an error that names the option", function()
  local function misuse(pattern, opts)
    post(function(req)
      t.raises(pattern, req.form, req, opts)
      return "x"
    end, form())
  end
  misuse("req:form: option 'boddy' is unknown %(did you mean 'body'%?%)", { boddy = 1 })
  misuse("'file' must be a number of at least 0, got \"1\"", { file = "1" })
  misuse("'file' must be a number of at least 0, got %-1", { file = -1 })
  misuse("'on_file' must be a function", { on_file = 1 })
  misuse("table or number expected, got string", "x")
end)

t.test("curl sends files", function()
  if t.run("curl --version").code ~= 0 then return end
  local app, got = web.new(), nil
  app:post("/", function(req)
    local fields, files = req:form()
    got = { fields.a, files[1].filename, files[1].content_type, files[1]:read(), files[2].filename }
    return "ok"
  end)
  local dir = t.tmp()
  t.write(dir .. "/a b.txt", ("line\r\n"):rep(1000))
  http.with(app, function(_, server)
    local child <close> = t.spawn(("curl -sS -F 'a=x y' -F 'f=@%s/a b.txt' -F 'f=@%s/a b.txt;filename=q\"\\ü' %s")
      :format(dir, dir, server.url))
    while not got do loop.sleep(0.01) end
    t.eq(child:all(), "ok")
  end)
  t.eq(got, { "x y", "a b.txt", "text/plain", ("line\r\n"):rep(1000), 'q"\\ü' })
end)

t.finish()
