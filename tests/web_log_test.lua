-- `web.log`: the content of a line, when lines are written, and that a client cannot forge a line.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"
local web = require "lio.webserver"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

-- Serves an app with a log in `format` and the routes of `build` while it runs `f(open)`. Returns the logged lines.
local function logged(format, build, f)
  local lines, app = {}, web.new()
  local log = web.log { format = format, file = function(text)
    for line in text:gmatch "[^\n]*\n" do lines[#lines + 1] = line:sub(1, -2) end
  end }
  app:use(log)
  build(app)
  http.with(app, f)
  log:flush()
  return lines
end

local DATE <const> = "%[%d%d/%a%a%a/%d%d%d%d:%d%d:%d%d:%d%d %+0000%]"

t.test("a line has the Combined Log Format", function()
  local lines = logged("combined", function(app)
    app:get("/a", function() return "hello" end)
  end, function(open)
    open():request("GET", "/a?q=1", { "User-Agent: tester/1.0 (x; y)", "Referer: http://x/" })
  end)
  t.eq(#lines, 1)
  t.ok(lines[1]:find("^127%.0%.0%.1 %- %- " .. DATE ..
    ' "GET /a%?q=1 HTTP/1%.1" 200 5 "http://x/" "tester/1%.0 %(x; y%)"$'), lines[1])
end)

t.test("a missing value and a length of 0 are logged as a dash", function()
  local lines = logged("combined", function(app)
    app:get("/", function() return 204 end)
  end, function(open)
    open():request("GET", "/")
    open():request("HEAD", "/none")
  end)
  t.ok(lines[1]:find '" 204 %- "%-" "%-"$', lines[1])
  t.ok(lines[2]:find '"HEAD /none HTTP/1.1" 404 %- "%-" "%-"$', lines[2])
end)

t.test("a client cannot send bytes that end a field or a line of the log", function()
  local lines = logged("combined", function(app)
    app:get("/*rest", function() return "x" end)
  end, function(open)
    open():request("GET", '/a"b\\c', { 'User-Agent: x" 200 1 "evil\\', "Referer: t\tb\xE4\xFF" })
  end)
  t.eq(#lines, 1)
  t.ok(lines[1]:find([["GET /a\x22b\x5Cc HTTP/1.1" 200 1 "t\x09b\xE4\xFF" "x\x22 200 1 \x22evil\x5C"]], 1, true),
    lines[1])
end)

t.test("a user that the program has set is logged in one word, even if it has spaces or line ends", function()
  local lines = logged("combined", function(app)
    app:get("/", function(req)
      req.user = "jo e\n"
      return "x"
    end)
  end, function(open) open():request("GET", "/") end)
  t.ok(lines[1]:find "^127%.0%.0%.1 %- jo\\x20e\\x0A %[", lines[1])
end)

t.test("a line may be JSON", function()
  local lines = logged("json", function(app)
    app:get("/:name", function(req)
      req.request_id = "r1"
      require("lio.loop").sleep(0.05)
      return "hello"
    end)
  end, function(open)
    open():request("GET", "/%C3%A4?a=b", { 'User-Agent: x"y\xFF' })
  end)
  local entry = assert(json.decode(lines[1]))
  t.ok(entry.time:find "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$", entry.time)
  -- In seconds. The client's deadline is 10 s.
  t.ok(entry.duration >= 0.05 and entry.duration < 10, entry.duration)
  entry.time, entry.duration = nil, nil
  t.eq(entry, { method = "GET", path = "/ä", version = "1.1", status = 200, bytes = 5,
    remote = "127.0.0.1", agent = 'x"y\\xFF', request_id = "r1" })
end)

t.test("a function may format the line, or return nil to omit it", function()
  local lines = logged(function(entry, req, res)
    t.eq({ req.path, res:sent() }, { entry.path, entry.status, entry.bytes, false })
    return entry.path ~= "/quiet" and entry.status .. " " .. entry.path or nil
  end, function(app) app:get("/*rest", function() return "x" end) end, function(open)
    local c = open()
    for _, target in ipairs { "/loud", "/quiet", "/end" } do c:request("GET", target) end
  end)
  t.eq(lines, { "200 /loud", "200 /end" })
end)

local function short(entry)
  return ("%s %s %s %s%s"):format(entry.method, entry.path, entry.status, entry.bytes, entry.aborted and " cut" or "")
end

t.test("streams, long bodies, HEAD, errors, 404 and 405 are logged with the number of sent bytes", function()
  local lines
  http.logged(function()
    lines = logged(short, function(app)
      app:get("/pieces", function(_, res)
        res:header("Content-Length", 10)
        res:write "01234"
        res:write "56789"
      end)
      app:get("/chunks", function(_, res) res:write "hello" end)
      app:get("/long", function() return ("x"):rep(300000) end)
      app:get("/raise", function() error "x" end)
    end, function(open)
      local c = open()
      for _, target in ipairs { "/pieces", "/chunks", "/long", "/raise", "/none" } do c:request("GET", target) end
      c:request("HEAD", "/long")
      c:request("POST", "/long")
    end)
  end)
  t.eq(lines, {
    "GET /pieces 200 10", "GET /chunks 200 15", "GET /long 200 300000", "GET /raise 500 22", "GET /none 404 10",
    "HEAD /long 200 0", "POST /long 405 19",
  })
end)

t.test("pipelined requests are logged in order, each with its own number of bytes", function()
  local lines = logged(short, function(app)
    app:get("/:n", function(req) return ("x"):rep(tonumber(req.params.n)) end)
  end, function(open)
    local c = open():send(("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"):rep(3):format(1, 20, 300))
    for _ = 1, 3 do c:response "GET" end
  end)
  t.eq(lines, { "GET /1 200 1", "GET /20 200 20", "GET /300 200 300" })
end)

t.test("if the client closes during a response, the line has the sent bytes and is marked as aborted", function()
  local done, app, entry = {}, web.new(), nil
  app:use(web.log { file = function() end, format = function(e)
    entry = e
    loop.wakeup(done)
  end })
  app:get("/", function(_, res)
    while res:write(("x"):rep(50000)) do end
  end)
  http.with(app, function(open)
    local c = open():send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    c:read_head()
    c:close()
    loop.wait(done)
    t.eq({ entry.status, entry.aborted }, { 200, true })
    t.ok(entry.bytes > 0)
    t.eq(entry.remote, "127.0.0.1")
  end)
end)

t.test("lines are buffered for some time and written together", function()
  local writes, app = {}, web.new()
  local written = {}
  app:use(web.log { format = short, file = function(text)
    writes[#writes + 1] = text
    loop.wakeup(written)
  end })
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    for _ = 1, 20 do c:request("GET", "/") end
    t.ok(#writes <= 1)
    while #table.concat(writes) < 20 * #"GET / 200 1\n" do loop.wait(written) end
    t.eq(table.concat(writes), ("GET / 200 1\n"):rep(20))
    -- The next line sets the timer again.
    c:request("GET", "/")
    while #table.concat(writes) < 21 * #"GET / 200 1\n" do loop.wait(written) end
  end)
end)

t.test("if the buffer is full, lines are written before the time has passed", function()
  local size, app = 0, web.new()
  app:use(web.log { format = function() return ("x"):rep(40000) end, file = function(text) size = size + #text end })
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    for _ = 1, 2 do c:request("GET", "/") end
    t.eq(size, 80002)
  end)
end)

t.test("a stop loses no line", function()
  local lines, app, go = {}, web.new(), {}
  app:use(web.log { format = short, file = function(text) lines[#lines + 1] = text end })
  app:get("/slow", function()
    loop.wait(go)
    return "x"
  end)
  http.with(app, function(open, server)
    local c = open():send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    loop.fork(server.stop, server, 10)
    while not server.stopping or not loop.wakeup(go) do loop.sleep(0) end
    t.eq(c:response("GET").body, "x")
    -- The stop writes the line at once.
    t.eq(table.concat(lines), "GET /slow 200 1\n")
  end)
end)

t.test("lines are appended to a file, and after the file was renamed, reopen opens a new file", function()
  local path = t.tmp() .. "/access.log"
  t.write(path, "before\n")
  local app = web.new()
  local log <close> = web.log { format = short, file = path }
  app:use(log)
  app:get("/:x", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    c:request("GET", "/1")
    assert(os.rename(path, path .. ".1"))
    c:request("GET", "/2")
    t.eq(log:reopen(), true)
    c:request("GET", "/3")
    log:flush()
  end)
  t.eq(read(path .. ".1"), "before\nGET /1 200 1\nGET /2 200 1\n")
  t.eq(read(path), "GET /3 200 1\n")
end)

t.test("reopen leaks no descriptor, and keeps the old file if the new file cannot be opened", function()
  local folder = t.tmp()
  local log <close> = web.log { file = folder .. "/log" }
  local _, before = t.descriptors()
  collectgarbage "stop"
  for _ = 1, 5 do t.eq(log:reopen(), true) end
  local _, after = t.descriptors()
  collectgarbage "restart"
  t.eq(after, before)
  assert(os.remove(folder .. "/log"))
  assert(os.remove(folder))
  local ok, message = log:reopen()
  t.is_nil(ok)
  t.ok(message:find "log: No such file")
  t.eq(log:flush(), true)
end)

t.test("each line has the time at which its request arrived", function()
  local lines, app, now = {}, web.new(), 86399.25
  local formats = {}
  for _, format in ipairs { "combined", "json" } do
    local log = web.log { format = format, file = function(text) lines[#lines + 1] = text end }
    log.clock = function() return now end
    formats[#formats + 1] = log
    app:use(log)
  end
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    for _ = 1, 2 do
      c:request("GET", "/")
      for _, log in ipairs(formats) do log:flush() end
      now = now + 1.5
    end
  end)
  t.ok(lines[1]:find("[01/Jan/1970:23:59:59 +0000]", 1, true), lines[1])
  t.eq(json.decode(lines[2]).time, "1970-01-01T23:59:59.250Z")
  t.ok(lines[3]:find("[02/Jan/1970:00:00:00 +0000]", 1, true), lines[3])
  t.eq(json.decode(lines[4]).time, "1970-01-02T00:00:00.750Z")
end)

t.test("a writer that raises does not affect requests, and is reported again after a success", function()
  local app, fails = web.new(), true
  local log = web.log { format = short, file = function() if fails then error("no more", 0) end end }
  app:use(log)
  app:get("/", function() return "x" end)
  local text = http.logged(function()
    http.with(app, function(open)
      local c = open()
      for _, state in ipairs { true, true, false, true } do
        fails = state
        t.eq(c:request("GET", "/").body, "x")
        t.eq(log:flush(), not state or nil)
      end
    end)
  end)
  t.eq(text, ("lio: access log: no more\n"):rep(2))
end)

t.test("a writer that fails is reported once, and requests are still answered", function()
  local app = web.new()
  local log = web.log { format = short, file = { write = function() return nil, "disk full" end } }
  app:use(log)
  app:get("/", function() return "x" end)
  local text = http.logged(function()
    http.with(app, function(open)
      for _ = 1, 3 do
        t.eq(open():request("GET", "/").body, "x")
        local ok, message = log:flush()
        t.eq({ ok, message }, { nil, "disk full" })
      end
    end)
  end)
  t.eq(text, "lio: access log: disk full\n")
end)

t.test("if the format raises, only the line is lost", function()
  local app = web.new()
  app:use(web.log { format = function() error "bad format" end, file = function() end })
  app:get("/", function() return "x" end)
  local text = http.logged(function()
    http.with(app, function(open)
      local c = open()
      for _ = 1, 2 do t.eq(c:request("GET", "/").body, "x") end
    end)
  end)
  t.ok(text:find "bad format")
end)

t.test("invalid options raise at the caller's line", function()
  t.raises("web_log_test.*web.log: option 'path' is unknown %(known: file, format%)$",
    function() web.log { path = "x" } end)
  t.raises("web.log: option 'format' must be \"combined\" or \"json\" or a function, got \"xml\"",
    web.log, { format = "xml" })
  t.raises("log: /nonexistent/x: ", web.log, { file = "/nonexistent/x" })
  t.raises("web.log: option 'file' must be a path, a function or an object with the method 'write', got 1",
    web.log, { file = 1 })
  -- Regression: only the first line that was logged raised the error.
  for _, wrong in ipairs { {}, { write = 5 }, (require("lio.socket").pair()) } do
    t.raises("^[^\n]*web_log_test.lua:%d+: web.log: option 'file' must be a path, a function or an object with the "
      .. "method 'write', got a ", function() web.log { file = wrong } end)
  end
  web.log { file = { write = function(file) return file end } }
  web.log { file = io.stderr }
end)

t.finish()
