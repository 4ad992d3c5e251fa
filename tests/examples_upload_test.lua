-- The upload example as a child process: uploads from a browser and from curl, the list of files, and file names that
-- point outside its folder.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"

local BOUNDARY <const> = "----WebKitFormBoundaryx7Y"

local function read_file(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

-- Calls `f(client, folder, port)` while the example runs.
local function with(f)
  local folder = t.tmp() .. "/it's here"
  local words = { t.lio(), t.quote(t.root .. "examples/upload.lua"), "0", t.quote(folder) }
  local child <close> = t.spawn(table.concat(words, " "))
  local port = math.tointeger(tonumber(child:expect "127%.0%.0%.1:(%d+)"))
  loop.run(function()
    local c <close> = http.open(port)
    f(c, folder, port)
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end

-- Posts files as a browser does when it submits the form without running the page's script.
local function browse(c, ...)
  local body = {}
  for _, file in ipairs { ... } do
    body[#body + 1] = ('--%s\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n'
      .. "Content-Type: application/octet-stream\r\n\r\n%s\r\n"):format(BOUNDARY, file[1], file[2])
  end
  body[#body + 1] = "--" .. BOUNDARY .. "--\r\n"
  return c:request("POST", "/", {
    "Content-Type: multipart/form-data; boundary=" .. BOUNDARY,
    "Accept: text/html,application/xhtml+xml,*/*;q=0.8",
  }, table.concat(body))
end

local function listed(folder)
  return t.run("ls -A " .. t.quote(folder)).out
end

t.test("the page has a form and links to the uploaded files", function()
  with(function(c, folder)
    local page = c:request("GET", "/")
    t.eq(page.headers["content-type"], "text/html; charset=utf-8")
    t.ok(page.body:find("<form method=post enctype=multipart/form-data>", 1, true))
    t.ok(page.body:find("at most 1.0 GiB at once", 1, true), page.body)
    t.ok(page.body:find("<p>There are no uploads yet.</p>", 1, true) and not page.body:find "<table", page.body)
    local r = browse(c, { "a.bin", "\0\r\n\255" }, { "Größe 1.txt", "text" })
    t.eq({ r.status, r.headers.location }, { 303, "/" })
    t.eq(listed(folder), "Größe_1.txt\na.bin\n")
    t.eq(read_file(folder .. "/a.bin"), "\0\r\n\255")
    page = c:request("GET", "/").body
    t.ok(page:find("<thead><tr><th scope=col>Name<th scope=col>Size</thead>", 1, true), page)
    t.ok(page:find('<a href="/files/a.bin">a.bin</a><td>4 bytes', 1, true), page)
    t.ok(page:find('<a href="/files/Gr%C3%B6%C3%9Fe_1.txt">Größe_1.txt</a>', 1, true), page)
    r = c:request("GET", "/files/Gr%C3%B6%C3%9Fe_1.txt")
    t.eq({ r.body, r.headers["content-type"] }, { "text", "application/octet-stream" })
    t.eq(r.headers["content-disposition"], "attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe_1.txt")
  end)
end)

t.test("curl gets the names of the stored files, and no file replaces another", function()
  if t.run("curl --version").code ~= 0 then return end
  with(function(_, folder, port)
    local dir = t.tmp()
    local data = ("0123456789abcde\n"):rep(300000)
    t.write(dir .. "/a.txt", data)
    local post = ("curl -sS -F file=@%s/a.txt -F more=@%s/a.txt http://127.0.0.1:%d/"):format(dir, dir, port)
    t.eq(t.run(post).out, "a.txt\na-2.txt\n")
    t.eq(t.run(post).out, "a-3.txt\na-4.txt\n")
    t.ok(read_file(folder .. "/a-3.txt") == data)
    t.ok(t.run(("curl -sS http://127.0.0.1:%d/files/a-4.txt"):format(port)).out == data)
  end)
end)

t.test("no file name leads out of the folder, hides a file or breaks the page", function()
  with(function(c, folder)
    local names = {
      ["../../evil"] = "evil", ["/etc/passwd"] = "passwd", ["..\\..\\x.exe"] = "x.exe", [".htaccess"] = "htaccess",
      [".."] = "file", ["<script>.html"] = "_script_.html", ["a%22b%0D%0A.txt"] = "a_b.txt",
    }
    for sent in pairs(names) do t.eq(browse(c, { sent, "x" }).status, 303) end
    local want = {}
    for _, name in pairs(names) do want[#want + 1] = name end
    table.sort(want)
    t.eq(t.run("LC_ALL=C ls -A " .. t.quote(folder)).out, table.concat(want, "\n") .. "\n")
    t.eq(t.run("ls -A " .. t.quote(folder .. "/..")).out, "it's here\n")
    t.ok(not c:request("GET", "/").body:find "<script>.html")
    for _, name in ipairs { "..%2F..%2Fetc%2Fpasswd", "%2e%2e", "none" } do
      t.eq(c:request("GET", "/files/" .. name).status, 404)
    end
  end)
end)

t.test("a form without a file is refused with 400, a body that is not a form with 415", function()
  with(function(c)
    t.eq(browse(c, { "", "" }).status, 400)
    t.eq(c:request("POST", "/", nil, "x").status, 415)
  end)
end)

t.finish()
