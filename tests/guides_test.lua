-- The code of docs/webserver.md and docs/http_client.md runs, and does what the guides describe. Their blocks are parts
-- of programs. This suite completes each block to a program, and runs it with the case whose phrase it contains: the
-- commands for a server, or the output of a client. A block of docs/webserver.md without a case must run without an
-- error.

local t = require "tests.kit"
local book = require "tests.kit.book_page"
local markdown = require "docs.markdown"

-- Each case: a phrase of the block, commands with their output, and optionally commands that run before the server.
local WEB <const> = {
  { [[app:any("/echo"]], [[
$ curl http://127.0.0.1:8080/
Hello, World!
$ curl http://127.0.0.1:8080/users/7
{"id":7}
$ curl http://127.0.0.1:8080/files/a/b
a/b
$ curl -d text http://127.0.0.1:8080/echo
text
]] },
  { "text/csv", [[
$ curl http://127.0.0.1:8080/report | tail -n 1
1000000
$ curl -o /dev/null -w '%{http_code} %{redirect_url}' http://127.0.0.1:8080/old
301 http://127.0.0.1:8080/new
]] },
  { [[req.cookies.key]], [[
$ curl http://127.0.0.1:8080/admin
Forbidden
$ curl -D - -b key=secret http://127.0.0.1:8080/admin | grep -i cache-control
Cache-Control: no-store
]] },
  { "workers = 4", [[
$ curl http://127.0.0.1:8080/prelude
the prelude
]] },
  { [[app:post("/photos"]], [[
$ printf 'a picture' > picture
$ curl -F title=one -F photo=@picture http://127.0.0.1:8080/photos
{"title":"one","bytes":9}
$ cat photos/picture
a picture
$ curl -F title=one -F photo=@picture http://127.0.0.1:8080/photos
…exists…
$ curl -F title=one http://127.0.0.1:8080/photos
a photo is missing
]], "mkdir photos" },
  { [[app:post("/count"]], [[
$ printf 'a\nb\n' > lines
$ curl -F file=@lines http://127.0.0.1:8080/count
{"lines":2}
]] },
  { [[app:put("/files/]], [[
$ curl -T - -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/files/one < /dev/null
201
$ wc -c < files/one
0
]], "mkdir files" },
  { "app:mount", [[
$ curl http://127.0.0.1:8080/api/users
["Ada"]
$ curl http://127.0.0.1:8080/api/users/7
{"id":"7"}
]] },
  { "app:static", [[
$ curl http://127.0.0.1:8080/assets/a.txt
asset
$ curl -D - -o /dev/null http://127.0.0.1:8080/assets/a.txt | grep -i cache-control
Cache-Control: public, max-age=3600
$ curl http://127.0.0.1:8080/
index
$ curl -D - -o /dev/null http://127.0.0.1:8080/report | grep -i disposition
…Report.pdf…
$ curl http://127.0.0.1:8080/photos/one
photo
$ curl http://127.0.0.1:8080/photos/..%2Freport.pdf
Not Found
]], "mkdir public site photos && echo asset > public/a.txt && echo index > site/index.html && "
    .. "echo photo > photos/one && echo pdf > report.pdf" },
  { "web.compress", [[
$ curl --compressed -D - -o /dev/null http://127.0.0.1:8080/prelude/long | grep -i content-encoding
Content-Encoding: …
]] },
  { "res:sse()", [[
$ curl --max-time 30 http://127.0.0.1:8080/events 2>/dev/null | head -n 1
event: tick
]] },
  { "res.code == 405", [[
$ curl http://127.0.0.1:8080/nowhere
{"error":"there is no such path"}
$ curl -X POST http://127.0.0.1:8080/prelude
{"error":"this path has other methods"}
$ curl http://127.0.0.1:8080/prelude/bug
{"error":"something went wrong"}
]] },
  { [[app:post("/notes"]], [[
$ curl -d '{"text":"x"}' http://127.0.0.1:8080/notes
{"text":"x"}
$ curl -d '{' http://127.0.0.1:8080/notes
{"error":"…"}
]] },
}

local PRELUDE <const> = [[
local loop, web = require "lio.loop", require "lio.webserver"
local function list() return { "Ada" } end
local function show(req) return { id = req.params.id } end
local app = web.new()
app:get("/prelude", function() return "the prelude\n" end)
app:get("/prelude/bug", function() error "a bug" end)
app:get("/prelude/long", function() return ("text "):rep(1000) end)
]]

-- Returns the case whose phrase is in the block, and marks the case as used.
local function case_of(cases, block)
  for _, case in ipairs(cases) do
    if block.text:find(case[1], 1, true) then
      case.used = true
      return case
    end
  end
end

local function lua_blocks(path)
  local list = {}
  for _, block in ipairs(markdown.blocks(book.read(path))) do
    if block.language == "lua" then list[#list + 1] = block end
  end
  return list
end

-- Returns a page with the completed block and the commands.
local function page_of(before, code, commands)
  local parts = {}
  if before then parts[#parts + 1] = "```console\n$ " .. before .. "\n```\n" end
  parts[#parts + 1] = "```lua server\n" .. code .. "```\n"
  if commands then parts[#parts + 1] = "```console\n" .. commands .. "```\n" end
  return table.concat(parts)
end

for _, block in ipairs(lua_blocks "docs/webserver.md") do
  local name = ("docs/webserver.md:%d"):format(block.line)
  t.test("the code at " .. name .. " serves what the guide describes", function()
    local case = case_of(WEB, block) or {}
    local code = PRELUDE .. block.text:gsub("/var/log/app/", "")
    if not block.text:find "app:run" then code = code .. "app:run(8080)\n" end
    book.run_text(name, page_of(case[3], code, case[2]))
  end, { leaks = true })
end

-- ---------------------------------------------------------------------------------------------
-- docs/http_client.md

-- The server to which the blocks send their requests.
local SERVER <const> = [[
```lua server
local web = require "lio.webserver"
local app = web.new()
app:get("/users/:id", function(req) return { id = req.params.id } end)
app:post("/api/users", function(req)
  return 201, { name = req:json().name, authorization = req:header "authorization" }
end)
app:run(8080)
```
]]

-- Each case: a phrase of the block, the code before and after it, and the output of the program.
local CLIENT <const> = {
  { [[print("no answer:"]], "", "", "200\tapplication/json\t7" },
  { "stream = true", [[
local http, loop = require "lio.http.client", require "lio.loop"
loop.run(function()
local url, file = "http://127.0.0.1:8080/users/7", io.stdout
]], "end)", '{"id":"7"}' },
  { "base_url", [[
local http, loop = require "lio.http.client", require "lio.loop"
loop.run(function()
local token = "secret"
]], "print(res.status, res:json().name, res:json().authorization) end)", "201\tAda\tBearer secret" },
}

for _, block in ipairs(lua_blocks "docs/http_client.md") do
  local name = ("docs/http_client.md:%d"):format(block.line)
  t.test("the code at " .. name .. " gets the responses that the guide describes", function()
    local case = t.ok(case_of(CLIENT, block), "a case for this block")
    local code = case[2] .. block.text:gsub("10%.0%.0%.5", "127.0.0.1") .. case[3]
    book.run_text(name, SERVER .. ("```lua\n%s\n--> %s\n```\n"):format(code, case[4]))
  end, { leaks = true })
end

t.test("every case belongs to a block of its guide", function()
  local unused = {}
  for _, cases in ipairs { WEB, CLIENT } do
    for _, case in ipairs(cases) do
      if not case.used then unused[#unused + 1] = case[1] end
    end
  end
  t.eq(unused, {})
end)

t.finish()
