-- Tests the server with curl. The options of curl reproduce differences between real clients: HTTP versions, uploads
-- with and without a length, Expect, unusual request targets, reused connections, slow reading.

local t = require "tests.kit"

local child, port

-- Runs curl with `options`, in which `URL` is replaced with the server's address. Returns its output, exit code and
-- standard error.
local function curl(options, stdin)
  local command = "curl -sS --noproxy '*' --max-time 30 " .. options:gsub("URL", "http://127.0.0.1:" .. port)
  local r = t.run(command, stdin)
  return r.out, r.code, r.err
end

t.test("the server starts", function()
  child = t.spawn(t.lio() .. " " .. t.quote(t.root .. "tests/peers/server.lua"))
  port = child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"
end, { leaks = true })

t.test("--http1.1 and --http1.0 get the same body, with --http1.0 without chunks", function()
  for _, path in ipairs { "/", "/pieces?count=3", "/empty" } do
    local new = curl("--http1.1 'URL" .. path .. "'")
    local old, code = curl("--http1.0 -D - 'URL" .. path .. "'")
    t.eq(code, 0)
    t.ok(old:find("^HTTP/1.1 200 OK\r\n"))
    t.ok(not old:lower():find "transfer%-encoding")
    t.ok(old:lower():find "\r\nconnection: close\r\n")
    t.eq(old:match "\r\n\r\n(.*)$", new)
  end
end)

t.test("-I (HEAD) gets the header fields and no body", function()
  local out, code = curl "-I 'URL/json'"
  t.eq(code, 0)
  t.ok(out:find "\r\nContent%-Type: application/json\r\n" and out:find "\r\n\r\n$", out)
  t.eq(select(2, curl "-I 'URL/pieces?count=3'"), 0)
end)

t.test("several URLs are requested on one connection", function()
  local _, code, err = curl("-v" .. (" -o /dev/null"):rep(4)
    .. " URL/ URL/nothing URL/pieces -X POST URL/refuse")
  t.eq(code, 0)
  t.eq(select(2, err:gsub("Connected to", "")), 1, err)
  t.eq(select(2, err:gsub("Re%-using existing connection", "")), 3, err)
end)

t.test("-T uploads a file with a Content-Length, and standard input in chunks", function()
  local body = ("0123456789"):rep(30000)
  local file = t.write(t.tmp() .. "/upload", body)
  t.eq({ curl("-T " .. file .. " URL/body") }, { body, 0, "" })
  t.eq({ curl("-T - URL/body", body) }, { body, 0, "" })
  t.eq({ curl("-T - URL/mirror", body) }, { body, 0, "" })
  t.eq({ curl("-T - URL/body", "") }, { "", 0, "" })
end)

t.test("--data-binary of a megabyte waits for 100 Continue, and is not sent if it is refused", function()
  local file = t.write(t.tmp() .. "/large", ("x"):rep(1024 * 1024 + 1))
  local upload = "-v --expect100-timeout 20 -H 'Expect: 100-continue' --data-binary @" .. file
  local out, code, err = curl(upload .. " URL/count")
  t.eq({ code, out }, { 0, '{"bytes":1048577}' })
  t.ok(err:find "< HTTP/1.1 100 Continue", err)
  out, code, err = curl(upload .. " URL/refuse")
  t.eq({ code, out }, { 0, "no\n" })
  t.ok(not err:find "100 Continue", err)
  t.ok(err:find "< HTTP/1.1 403 Forbidden", err)
end)

t.test("-d sends a form", function()
  local out = curl "-d a=1 --data-urlencode 'b=x&y z' URL/form"
  t.eq(require("lio.json").decode(out), { a = "1", b = "x&y z" })
end)

t.test("--limit-rate: a slow reader gets the whole body", function()
  local out, code = curl "--limit-rate 3M 'URL/large?kib=2048'"
  t.eq({ code, #out }, { 0, 2 * 1024 * 1024 })
end)

t.test("-Z sends many requests at once", function()
  local out, code = curl "-Z --parallel-max 20 'URL/path/[1-200]'"
  t.eq(code, 0)
  local seen = {}
  for number in out:gmatch "/path/(%d+)" do seen[number] = true end
  for i = 1, 200 do t.ok(seen[tostring(i)], "answer " .. i) end
end)

t.test("--path-as-is: dots stay in the path, and escapes are decoded once", function()
  t.eq((curl "--path-as-is URL/path/../../etc/passwd"), "/path/../../etc/passwd")
  t.eq((curl "--path-as-is URL/path/%2e%2e/x"), "/path/../x")
  t.eq((curl "URL/path/%252e"), "/path/%2e")
end)

t.test("--request-target: the asterisk and absolute forms are served, malformed targets are refused", function()
  local out, code = curl "-i -X OPTIONS --request-target '*' URL"
  t.eq(code, 0)
  t.ok(out:find "^HTTP/1.1 204 No Content\r\n" and out:find "\r\nAllow: ", out)
  t.eq((curl "--request-target 'http://other.example/path/x' URL"), "/path/x")
  t.eq((curl "-o /dev/null -w '%{http_code}' --request-target 'path/x' URL"), "400")
  t.eq((curl "-o /dev/null -w '%{http_code}' --request-target '*' URL"), "400")
end)

t.test("a request without Host is refused, and a request with an empty Host is served", function()
  t.eq((curl "-o /dev/null -w '%{http_code}' -H 'Host:' URL/"), "400")
  t.eq((curl "-o /dev/null -w '%{http_code}' -H 'Host;' URL/"), "200")
end)

t.test("-L follows redirects, and after a 307 sends the same method and body", function()
  t.eq((curl "-L URL/redirect"), "Hello, World!\n")
  local out = curl "-L -d kept URL/redirect"
  t.ok(out:find('"method":"POST"', 1, true) and out:find('"body":"kept"', 1, true), out)
end)

t.test("for a response that is cut short curl reports error 18", function()
  t.eq({ curl "-o /dev/null URL/cut" }, { "", 18, "curl: (18) transfer closed with outstanding read data remaining\n" })
end)

t.test("--max-time: a client that times out does not affect other clients", function()
  t.eq(select(2, curl "--max-time 0.1 'URL/slow?seconds=1'"), 28)
  t.eq((curl "URL/"), "Hello, World!\n")
end)

t.test("the server exits normally", function()
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.finish()
