-- Ranges of files and conditional requests, as a client sends them. The tests of the parsers, in src/codec/tests, test
-- the grammar of the fields.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"

local site = t.tmp()
local path = t.write(site .. "/ten.txt", "0123456789")
assert(os.execute("touch -d '2001-02-03T04:05:06.7Z' " .. t.quote(path)))
t.write(site .. "/empty.txt", "")
local DATE <const> = "Sat, 03 Feb 2001 04:05:06 GMT"

local function ask(fields, method, target)
  return http.once(function(app) app:static("/", site) end, method or "GET", target or "/ten.txt", fields)
end

local TAG <const> = ask {}.headers.etag

local function part(range, ...)
  local r = ask { "Range: " .. range, ... }
  return { r.status, r.headers["content-range"], r.body }
end

t.test("for one range the response is the requested part of the file", function()
  t.eq(part "bytes=2-4", { 206, "bytes 2-4/10", "234" })
  t.eq(part "bytes=7-", { 206, "bytes 7-9/10", "789" })
  t.eq(part "bytes=-2", { 206, "bytes 8-9/10", "89" })
  t.eq(part "bytes=0-1000", { 206, "bytes 0-9/10", "0123456789" })
  local r = ask { "Range: bytes=2-4" }
  t.eq({ r.headers["content-length"], r.headers["content-type"], r.headers.etag, r.headers["last-modified"] },
    { "3", "text/plain; charset=utf-8", TAG, DATE })
end)

t.test("for a range beyond the file the response is 416, with the size", function()
  local r = ask { "Range: bytes=10-" }
  t.eq({ r.status, r.headers["content-range"], r.body }, { 416, "bytes */10", "Range Not Satisfiable\n" })
  t.eq(ask({ "Range: bytes=0-" }, "GET", "/empty.txt").status, 416)
end)

t.test("for ranges that are malformed, overlapping or too many, the response is the whole file", function()
  local many = {}
  for index = 1, 200 do many[index] = "0-0" end
  for _, range in ipairs { "bytes=4-2", "items=0-1", "bytes=", "bytes=0-5,5-6", "bytes=" .. table.concat(many, ",") } do
    t.eq(part(range), { 200, nil, "0123456789" }, range)
  end
  t.eq(ask({ "Range: bytes=-5" }, "GET", "/empty.txt").status, 200)
end)

t.test("for several ranges the response is multipart, with the ranges in the order of the request", function()
  local r = ask { "Range: bytes=7-8, 0-0,-1" }
  t.eq({ r.status, r.headers["content-range"] }, { 206, nil })
  local boundary = t.ok(r.headers["content-type"]:match "^multipart/byteranges; boundary=(%x+)$")
  local expected = {}
  for _, one in ipairs { { "7-8", "78" }, { "0-0", "0" }, { "9-9", "9" } } do
    expected[#expected + 1] = "--" .. boundary .. "\r\nContent-Type: text/plain; charset=utf-8\r\n"
      .. "Content-Range: bytes " .. one[1] .. "/10\r\n\r\n" .. one[2] .. "\r\n"
  end
  t.eq(r.body, table.concat(expected) .. "--" .. boundary .. "--\r\n")
  t.ok(ask { "Range: bytes=0-0,2-2" }.headers["content-type"] ~= r.headers["content-type"], "boundaries differ")
end)

t.test("if only one of several ranges is in the file, the response has only this range", function()
  t.eq(part "bytes=20-30,3-3", { 206, "bytes 3-3/10", "3" })
end)

t.test("one range of a large file arrives whole, and so do several ranges", function()
  local text = {}
  for index = 1, 100000 do text[index] = ("%08d"):format(index) end
  text = table.concat(text)
  t.write(site .. "/large.bin", text)
  local r = ask({ "Range: bytes=100000-799998" }, "GET", "/large.bin")
  t.ok(r.status == 206 and r.body == text:sub(100001, 799999))
  r = ask({ "Range: bytes=0-299999,400000-400009,500000-" }, "GET", "/large.bin")
  local bodies = {}
  for body in r.body:gmatch "\r\n\r\n(%d+)\r\n%-%-" do bodies[#bodies + 1] = body end
  t.ok(#bodies == 3 and bodies[1] == text:sub(1, 300000) and bodies[2] == text:sub(400001, 400010)
    and bodies[3] == text:sub(500001))
end)

t.test("HEAD ignores ranges", function()
  local r = ask({ "Range: bytes=2-4" }, "HEAD")
  t.eq({ r.status, r.headers["content-length"], r.headers["content-range"] }, { 200, "10" })
end)

t.test("for If-Range with another tag, a weak tag or another date, the response is the whole file", function()
  t.eq(part("bytes=0-0", "If-Range: " .. TAG)[1], 206)
  t.eq(part("bytes=0-0", "If-Range: " .. DATE)[1], 206)
  for _, value in ipairs { '"x"', "W/" .. TAG, "Sat, 03 Feb 2001 04:05:07 GMT", "nonsense" } do
    t.eq(part("bytes=0-0", "If-Range: " .. value)[1], 200, value)
  end
end)

local function status(...) return ask { ... }.status end

t.test("for If-None-Match with the tag, even weak or in a list, or with *, the response is 304", function()
  for _, value in ipairs { TAG, "W/" .. TAG, '"x", ' .. TAG, "*" } do
    local r = ask { "If-None-Match: " .. value }
    t.eq({ r.status, r.body, r.headers.etag, r.headers["last-modified"], r.headers["content-type"] },
      { 304, "", TAG, DATE }, value)
  end
  t.eq(status('If-None-Match: "x"'), 200)
  t.eq(status("If-None-Match: " .. TAG, "Range: bytes=0-0"), 304)
  t.eq(ask({ "If-None-Match: *" }, "HEAD").status, 304)
end)

t.test("for If-Modified-Since the response is 304 from the file's date on, unless If-None-Match is present", function()
  t.eq(status("If-Modified-Since: " .. DATE), 304)
  t.eq(status "If-Modified-Since: Sat, 03 Feb 2001 04:05:05 GMT", 200)
  t.eq(status("If-Modified-Since: " .. DATE, 'If-None-Match: "x"'), 200)
  t.eq(status "If-Modified-Since: today", 200)
end)

t.test("if the condition of If-Match or If-Unmodified-Since is false, the response is 412", function()
  t.eq({ status("If-Match: " .. TAG), status "If-Match: *" }, { 200, 200 })
  t.eq({ status 'If-Match: "x"', status("If-Match: W/" .. TAG) }, { 412, 412 })
  t.eq(status("If-Unmodified-Since: " .. DATE), 200)
  t.eq(status "If-Unmodified-Since: Sat, 03 Feb 2001 04:05:05 GMT", 412)
  t.eq(ask { 'If-Match: "x"' }.body, "Precondition Failed\n")
end)

t.test("different contents have different tags, even with the same length and in the same second", function()
  local function tag(content)
    t.write(site .. "/changes.txt", content)
    assert(os.execute("touch -d '2001-02-03T04:05:06.7Z' " .. t.quote(site .. "/changes.txt")))
    return ask({}, "GET", "/changes.txt").headers.etag
  end
  t.ok(tag "one" ~= tag "three")
  local first = tag "one"
  assert(os.execute("touch -d '2001-02-03T04:05:06.8Z' " .. t.quote(site .. "/changes.txt")))
  t.ok(ask({}, "GET", "/changes.txt").headers.etag ~= first)
end)

t.test("a Last-Modified in the future is not sent", function()
  t.write(site .. "/future.txt", "x")
  assert(os.execute("touch -d '2090-01-01' " .. t.quote(site .. "/future.txt")))
  t.ok(not ask({}, "GET", "/future.txt").headers["last-modified"]:find "2090")
end)

t.finish()
