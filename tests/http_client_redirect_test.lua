-- lio.http.client: redirects, and content codings.

local t = require "tests.kit"
local kit = require "tests.kit.scripted_server"
local netkit = require "tests.kit.net"
local client = require "lio.http.client"
local compress = require "lio.compress"
local loop = require "lio.loop"

local ok, fails, field = kit.ok, kit.fails, kit.field

-- Redirects `/STATUS` to `/end`, whose response contains the method, the path, the body and the type of the request.
local function redirecting(c)
  while true do
    local head, body = kit.read_request(c)
    if not head then return end
    local method, path = head:match "^(%u+) (%S+)"
    local status = path:match "^/(3%d%d)$"
    if status then
      c:send("HTTP/1.1 " .. status .. " Moved\r\nLocation: end\r\nContent-Length: 4\r\n\r\nmove")
    elseif method == "HEAD" then
      c:send "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Method: HEAD\r\n\r\n"
    else
      c:send(ok(method .. " " .. path .. " " .. body .. " " .. (field(head, "content-type") or "-")))
    end
  end
end

for _, case in ipairs {
  -- Status, method, and the request that arrives at `/end`.
  { 301, "GET", "GET /end  -" }, { 302, "GET", "GET /end  -" }, { 303, "GET", "GET /end  -" },
  { 307, "GET", "GET /end  -" }, { 308, "GET", "GET /end  -" },
  { 301, "POST", "GET /end  -" }, { 302, "POST", "GET /end  -" }, { 303, "POST", "GET /end  -" },
  { 307, "POST", "POST /end b text/x" }, { 308, "POST", "POST /end b text/x" },
  { 301, "PUT", "PUT /end b text/x" }, { 302, "PUT", "PUT /end b text/x" }, { 303, "PUT", "GET /end  -" },
  { 307, "PUT", "PUT /end b text/x" }, { 303, "DELETE", "GET /end  -" }, { 301, "DELETE", "DELETE /end b text/x" },
} do
  kit.test(("%d turns %s into %s"):format(case[1], case[2], case[3]:match "^%u+"), redirecting, function(http, url)
    local has_body = case[2] ~= "GET"
    local res = assert(http:request {
      url = url .. "/" .. case[1],
      method = case[2],
      body = has_body and "b" or nil,
      headers = has_body and { ["Content-Type"] = "text/x" } or nil,
    })
    t.eq({ res.body, res.url, #res.history }, { case[3], url .. "/end", 1 })
    t.eq({ res.history[1].status, res.history[1].url, res.history[1].headers.location },
      { case[1], url .. "/" .. case[1], "end" })
    t.eq(http:counts().opened, 1)
  end)
end

kit.test("a redirected HEAD is still a HEAD", redirecting, function(http, url)
  t.eq(http:head(url .. "/303").headers["x-method"], "HEAD")
end)

kit.test("300, 304, 305 and redirects without Location are not followed", function(c)
  while true do
    local head = kit.read_request(c)
    if not head then return end
    local status = head:match "/(%d+)"
    local location = status ~= "302" and "Location: /x\r\n" or ""
    c:send("HTTP/1.1 " .. status .. " X\r\nContent-Length: 0\r\n" .. location .. "\r\n")
  end
end, function(http, url)
  for _, status in ipairs { 300, 304, 305, 302 } do t.eq(http:get(url .. "/" .. status).status, status) end
end)

kit.test("no redirect is followed if `redirects` is 0", redirecting, function(http, url)
  local res = http:get(url .. "/302", { redirects = 0 })
  t.eq({ res.status, res.body, res.history }, { 302, "move", {} })
end)

kit.test("a request fails if there are too many redirects", function(c)
  while kit.read_request(c) do c:send "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n" end
end, function(http, url)
  fails("redirect", "more than 10 redirects", http:get(url))
  fails("redirect", "more than 2 redirects", http:get(url, { redirects = 2 }))
  local counts = http:counts()
  t.eq({ counts.open, counts.idle }, { 1, 1 })
end)

kit.test("redirects are followed up to the allowed number", function(c)
  while true do
    local head = kit.read_request(c)
    if not head then return end
    local left = tonumber(head:match "/(%d+) ")
    if left == 0 then
      c:send(ok "there")
    else
      c:send(("HTTP/1.1 302 Found\r\nLocation: /%d\r\nContent-Length: 0\r\n\r\n"):format(left - 1))
    end
  end
end, function(http, url)
  t.eq(http:get(url .. "/2", { redirects = 2 }).body, "there")
  fails("redirect", "more than 2 redirects", http:get(url .. "/3", { redirects = 2 }))
end)

kit.test("the GET that follows a POST is repeated when its connection is lost", function(c, number)
  kit.read_request(c)
  c:send(number == 1 and "HTTP/1.1 303 See Other\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n" or ok "x")
  kit.read_request(c)
end, function(http, url)
  t.eq(http:post(url, { body = "b" }).body, "x")
  t.eq(http:counts().opened, 2)
end)

kit.test("a redirect to a malformed location fails", function(c)
  local places = { "http://a b/", "ftp://x/", "http://x:99999/", "a\tb" }
  while true do
    local head = kit.read_request(c)
    if not head then return end
    local where = places[tonumber(head:match "/(%d)")]
    c:send("HTTP/1.1 302 Found\r\nLocation: " .. where .. "\r\nContent-Length: 0\r\n\r\n")
  end
end, function(http, url)
  for at = 1, 4 do fails("redirect", "redirect: ", http:get(url .. "/" .. at)) end
end)

kit.test("if the body cannot be read again, the redirect is returned as the response", function(c)
  c:recv("until", "0\r\n\r\n")
  c:send "HTTP/1.1 307 X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
  kit.read_request(c)
end, function(http, url)
  local pieces = { "a" }
  t.eq(http:post(url, { body = function() return table.remove(pieces) end }).status, 307)
end)

kit.test("after a redirect, a file is sent again from its first position", function(c)
  local _, body = kit.read_request(c)
  c:send "HTTP/1.1 307 X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
  c:send(ok(body .. "+" .. select(2, kit.read_request(c))))
end, function(http, url)
  local file <close> = assert(io.open(t.write(t.tmp() .. "/f", "0123")))
  file:read(1)
  t.eq(http:post(url, { body = file }).body, "123+123")
end)

netkit.test("credentials for one server are not sent to another server", function()
  local function tell(c)
    while true do
      local head = kit.read_request(c)
      if not head then return end
      local to = head:match "GET /to/(%S+)"
      if to then
        c:send("HTTP/1.1 302 Found\r\nLocation: " .. to .. "\r\nContent-Length: 0\r\n\r\n")
      else
        local told = {}
        for at, name in ipairs { "authorization", "cookie", "x", "host" } do told[at] = field(head, name) or "-" end
        c:send(ok(table.concat(told, " ")))
      end
    end
  end
  kit.serving(tell, function(one)
    kit.serving(tell, function(other)
      local http <close> = client.new()
      local host, other_host = one:match "//(.*)", other:match "//(.*)"
      local headers = { Authorization = "secret", Cookie = "c", X = "x" }
      t.eq(http:get(one .. "/to//same", { headers = headers }).body, "secret c x " .. host)
      t.eq(http:get(one .. "/to/" .. other, { headers = headers }).body, "- - x " .. other_host)
      t.eq(http:get(one .. "/to/" .. one .. "/to/" .. other, { headers = headers }).body, "- - x " .. other_host)
      local with = one:gsub("//", "//u:p@")
      t.eq(http:get(with .. "/to//same").body, "Basic dTpw - - " .. host)
      t.eq(http:get(with .. "/to/" .. other).body, "- - - " .. other_host)
      headers.Host = "virtual"
      t.eq(http:get(one .. "/to//same", { headers = headers }).body, "secret c x virtual")
      t.eq(http:get(one .. "/to/" .. other, { headers = headers }).body, "- - x " .. other_host)
    end)
  end)
end)

-- Content codings --------------------------------------------------------------------------------

local function coded(codings, text)
  for name in codings:gmatch "[^, ]+" do text = compress.encoder(name):finish(text) end
  return text
end

for _, codings in ipairs { "gzip", "deflate", "br", "gzip, br", "deflate, gzip, br" } do
  kit.test("a body in " .. codings .. " is decoded", function(c)
    while kit.read_request(c) do
      c:send(ok(coded(codings, ("text "):rep(1000)), "Content-Encoding: " .. codings:upper() .. "\r\nVary: x\r\n"))
    end
  end, function(http, url)
    local res = assert(http:get(url))
    t.eq(res.body, ("text "):rep(1000))
    t.eq({ res.headers["content-encoding"], res.headers["Content-Length"], res.headers.vary }, { nil, nil, "x" })
    t.eq({ res:header_all "content-encoding", res:header_list() }, { {}, { "Vary", "x" } })
    res = assert(http:get(url, { stream = true }))
    local pieces = {}
    for piece in res:stream() do pieces[#pieces + 1] = piece end
    t.eq(table.concat(pieces), ("text "):rep(1000))
    t.eq(http:counts(), { open = 1, idle = 1, opened = 1, reused = 1 })
  end)
end

kit.test("with decode = false the body is not decoded, and no coding is requested", function(c)
  while true do
    local head = kit.read_request(c)
    if not head then return end
    c:send(ok("raw" .. (field(head, "accept-encoding") or ""), "Content-Encoding: gzip\r\n"))
  end
end, function(http, url)
  local res = assert(http:get(url, { decode = false }))
  t.eq({ res.body, res.headers["content-encoding"], res.headers["content-length"] }, { "raw", "gzip", "3" })
end)

kit.test("a range, HEAD, an empty body and an unknown coding are not decoded", function(c)
  for _, bytes in ipairs {
    "HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n",
    ok("", "Content-Encoding: gzip\r\n"),
    ok("x", "Content-Encoding: zstd\r\n"),
    ok("x", "Content-Encoding: identity\r\n"),
  } do
    local head = kit.read_request(c)
    t.eq(field(head, "accept-encoding") == nil, field(head, "range") ~= nil)
    c:send(bytes)
  end
end, function(http, url)
  t.eq(http:get(url, { headers = { Range = "bytes=0-0" } }).body, "x")
  t.eq(http:head(url).headers["content-encoding"], "gzip")
  t.eq(http:get(url).body, "")
  local res = http:get(url)
  t.eq({ res.body, res.headers["content-encoding"] }, { "x", "zstd" })
  t.eq(http:get(url).body, "x")
end)

kit.test("a request fails if the encoded response body is corrupt, truncated or too long", function(c)
  local text = coded("gzip", ("0"):rep(100000))
  while true do
    local head = kit.read_request(c)
    if not head then return end
    local what = head:match "/(%a+)"
    if what == "broken" then c:send(ok("nonsense", "Content-Encoding: gzip\r\n")) end
    if what == "short" then c:send(ok(text:sub(1, -9), "Content-Encoding: gzip\r\n")) end
    if what == "bomb" then c:send(ok(text, "Content-Encoding: gzip\r\n")) end
  end
end, function(http, url)
  fails("corrupt", "decoding", http:get(url .. "/broken"))
  fails("truncated", "decoding", http:get(url .. "/short"))
  fails("too long", ".", http:get(url .. "/bomb", { limit = 99999 }))
  t.eq(#http:get(url .. "/bomb", { limit = 100000 }).body, 100000)
  t.raises("response body: decoding", function()
    for _ in http:get(url .. "/broken", { stream = true }):stream() do end
  end)
end)

-- Regression: empty gzip members decode to nothing, so the limit of decoded bytes was never reached, and the client
-- read endlessly.
local function empty_members(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
  local members = coded("gzip", ""):rep(4096)
  while c:send(members) do end
end

kit.test("an endless body of empty gzip members is too long", empty_members, function(http, url)
  local options = { timeout = 20 }
  local res, message, code = http:get(url, options)
  t.eq({ res, message, code }, { nil, "the encoded body is larger than allowed", "too long" })
  options.limit = 1000
  res, message, code = http:get(url, options)
  t.eq({ res, message, code }, { nil, "the encoded body is larger than allowed", "too long" })
end)

kit.test("a stream without a limit also fails for a body of empty gzip members", empty_members, function(http, url)
  local res <close> = t.ok(http:get(url, { stream = true, timeout = 20 }))
  local piece, message, code = res:piece()
  t.eq({ piece, message, code }, { nil, "the encoded body is larger than allowed", "too long" })
end)

-- Regression: a body of 60 bytes was one piece of 63 MiB, and a time limit ended only between pieces.
local function tiny(c)
  kit.read_request(c)
  local body = coded("br", ("\0"):rep(50000000))
  t.ok(#body < 1000)
  c:send(ok(body, "Content-Encoding: br\r\n"))
end

kit.test("a small body that decodes to much is returned in pieces, and other tasks run", tiny, function(http, url)
  local turns, is_over = 0, false
  loop.fork(function()
    repeat
      turns = turns + 1
      loop.sleep(0)
    until is_over
  end)
  local res <close> = t.ok(http:get(url, { stream = true }))
  local count, began = 0, turns
  for piece in res:stream() do
    t.ok(#piece < 256 * 1024)
    count = count + #piece
  end
  is_over = true
  t.eq(count, 50000000)
  t.ok(turns > began, "another task has run")
end)

kit.test("the time limit ends the decoding of a body that has arrived", tiny, function(http, url)
  local res <close> = t.ok(http:get(url, { stream = true, timeout = 0.3 }))
  t.ok(res:piece())
  loop.sleep(0.3)
  for _ = 1, 2 do t.eq({ res:piece() }, { nil, "reading the body: timeout", "timeout" }) end
end)

kit.test("a stream that is closed while it yields fails", tiny, function(http, url)
  local res <close> = t.ok(http:get(url, { stream = true }))
  t.ok(res:piece())
  loop.sleep(0.01)
  loop.fork(function() res:close() end)
  for _ = 1, 2 do t.eq({ res:piece() }, { nil, "closed", "closed" }) end
end)

kit.test("a stream that is closed before its end fails, even if all bytes have arrived", tiny, function(http, url)
  local res = t.ok(http:get(url, { stream = true }))
  t.raises("response body: closed", function()
    for _ in res:stream() do t.eq(select("#", res:close()), 0) end
  end)
  t.eq({ res:text() }, { nil, "closed", "closed" })
  res = t.ok(http:get(url, { stream = true }))
  for _ in res:stream() do end
  res:close()
  t.eq({ res:piece() }, { nil })
end)

-- Regression: the bytes between two codings were not limited, so that a body of 300 bytes could take seconds.
for what, text in pairs { ["nothing"] = "", ["little"] = "x" } do
  kit.test("a body with two codings is too long if much decodes to " .. what .. " in between", function(c)
    kit.read_request(c)
    local members = coded("gzip", text):rep(15000)
    c:send(ok(coded("br", members), "Content-Encoding: gzip, br\r\n"))
  end, function(http, url)
    local res, message, code = http:get(url)
    t.eq({ res, message, code }, { nil, "the encoded body is larger than allowed", "too long" })
  end)
end

kit.test("a body within the limit is accepted even if its encoding is longer than the limit", function(c)
  local bytes = {}
  math.randomseed(7)
  for i = 1, 50000 do bytes[i] = string.char(math.random(0, 255)) end
  kit.read_request(c)
  c:send(ok(coded("gzip", table.concat(bytes)), "Content-Encoding: gzip\r\n"))
end, function(http, url)
  t.eq(#t.ok(http:get(url, { limit = 50000 })).body, 50000)
end)

t.finish()
