-- Handlers that raise an error: the response, the entry in the log, and the connection afterwards.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

local HTML <const> = { "Accept: text/html,application/xhtml+xml,*/*;q=0.8" }

-- Returns an app's response to GET / and its log. The app has the route `handler`, and is passed to `prepare`; `fields`
-- are header lines of the request.
local function failing(handler, options, prepare, fields)
  local app, response = web.new(options), nil
  app:get("/", handler)
  app:get("/next", function() return "next" end)
  if prepare then prepare(app) end
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      response = c:request("GET", "/", fields)
      t.eq(c:request("GET", "/next").body, "next", "the connection stays open")
    end)
  end)
  return response, log
end

t.test("for an error the response is 500 without details, and the log has a traceback", function()
  local function culprit() error "secret" end
  local r, log = failing(function() culprit() end)
  t.eq({ r.status, r.body, r.headers["content-type"] },
    { 500, "Internal Server Error\n", "text/plain; charset=utf-8" })
  t.ok(log:find("lio: error in GET /: ", 1, true), log)
  t.ok(log:find "web_errors_test.lua:%d+: secret", log)
  t.ok(log:find "stack traceback:.*culprit", log)
end)

t.test("headers and a body that the handler had set are not part of the response to its error", function()
  local r = failing(function(_, res)
    res:status(201):header("X-Secret", "1"):json { 1 }
    error "x"
  end)
  t.eq({ r.status, r.headers["x-secret"], r.headers["content-type"] }, { 500, nil, "text/plain; charset=utf-8" })
end)

t.test("with debug = true the response is a page with the escaped traceback", function()
  local r = failing(function() error "<script>&\"" end, { debug = true }, nil, HTML)
  t.eq({ r.status, r.headers["content-type"] }, { 500, "text/html; charset=utf-8" })
  t.ok(r.body:find("&lt;script&gt;&amp;&quot;", 1, true), r.body)
  t.ok(not r.body:find("<script>", 1, true))
  t.ok(r.body:find "stack traceback")
end)

t.test("the page shows the lines around the error, and the headers except for secrets", function()
  local r
  local secret = ("hsuh"):reverse() -- reversed, because the page shows this line
  http.logged(function()
    local app = web.new { debug = true }
    app:get("/", function() error "here <it> is" end) -- the line of the error
    http.with(app, function(open)
      r = open():request("GET", "/?<b>'", {
        HTML[1], "Cookie: session=" .. secret,
        "Authorization: Bearer " .. secret, "X-Api-Key: " .. secret, "X-Plain: <seen>",
      })
    end)
  end)
  t.eq({ r.status, r.headers["content-type"] }, { 500, "text/html; charset=utf-8" })
  t.ok(r.body:find "<b><i>%d+</i>  [^\n]*the line of the error", r.body)
  t.ok(r.body:find("here &lt;it&gt; is", 1, true))
  t.ok(r.body:find("<dt>x%-plain</dt><dd>&lt;seen&gt;</dd>"))
  t.is_nil(r.body:find(secret))
  t.ok(r.body:find("GET /?&lt;b&gt;&#39;", 1, true))
  t.eq(r.headers["cache-control"], "no-store")
  local _, around = r.body:gsub("<span><i>", "")
  t.ok(r.body:find('<pre class=source tabindex=0 role=region aria-label="Source">', 1, true), r.body)
  t.eq(around, 10, "five lines before the error, and five after it")
  t.ok(r.body:find("<dt>authorization</dt><dd><em>hidden</em></dd>", 1, true))
end)

t.test("a client that does not request HTML gets the traceback as plain text", function()
  for _, accept in ipairs { "*/*", "text/*", "text/html;q=0, */*", "application/json, */*" } do
    local r = failing(function() error "<here>" end, { debug = true }, nil, { "Accept: " .. accept })
    t.eq({ r.status, r.headers["content-type"], r.headers["cache-control"] },
      { 500, "text/plain; charset=utf-8", "no-store" }, accept)
    t.ok(r.body:find "^%S*web_errors_test%.lua:%d+: <here>\nstack traceback:\n", r.body)
  end
  local r = failing(function() error "x" end, { debug = true })
  t.eq(r.headers["content-type"], "text/plain; charset=utf-8")
  r = failing(function() error "x" end, { debug = true }, nil, { "Accept: TEXT/HTML;level=1" })
  t.eq(r.headers["content-type"], "text/html; charset=utf-8")
end)

t.test("a client's text cannot select the file whose lines the page shows", function()
  local path, content = os.tmpname(), ("elif a fo"):reverse() -- reversed, because the page shows this line
  local file = assert(io.open(path, "w"))
  file:write(content)
  file:close()
  for _, text in ipairs { path .. ":1: no", "x\nstack traceback:\n\t" .. path .. ":1: in x" } do
    -- A handler that calls `error(req.query.x, 0)` raises a string that the client has chosen.
    local r = failing(function() error(text, 0) end, { debug = true }, nil, HTML)
    t.eq(r.headers["content-type"], "text/html; charset=utf-8")
    t.is_nil(r.body:find(content, 1, true))
  end
  os.remove(path)
end)

t.test("a client that accepts only JSON gets errors as JSON", function()
  local app = web.new()
  app:get("/raise", function() error "x" end)
  http.logged(function()
    http.with(app, function(open)
      local c = open()
      for target, status in pairs { ["/raise"] = 500, ["/none"] = 404 } do
        local r = c:request("GET", target, { "Accept: application/json" })
        t.eq({ r.status, r.headers["content-type"] }, { status, "application/json" })
        t.eq(require("lio.json").decode(r.body).status, status)
        r = c:request("GET", target, { "Accept: application/json, text/plain, */*" })
        t.eq(r.headers["content-type"], "text/plain; charset=utf-8")
        r = c:request("GET", target, { "Accept: application/json, */*" })
        t.eq(r.headers["content-type"], "text/plain; charset=utf-8")
        r = c:request("GET", target, { "Accept: application/json, text/html" })
        t.eq(r.headers["content-type"], "text/html; charset=utf-8")
      end
      local r = c:request("POST", "/raise", { "Accept: application/problem+json" })
      t.eq({ r.status, r.headers.allow }, { 405, "GET, HEAD, OPTIONS" })
      t.eq(r.body, '{"error":"Method Not Allowed","status":405}\n')
    end)
  end)
end)

t.test("a browser gets 404, 405 and 500 as a page with a title, a language and a viewport", function()
  local app = web.new()
  app:get("/raise", function() error "secret" end)
  app:static("/files", "tests")
  http.logged(function()
    http.with(app, function(open)
      local c = open()
      for _, case in ipairs { { "GET", "/raise", 500, "Internal Server Error" }, { "GET", "/none", 404, "Not Found" },
        { "POST", "/raise", 405, "Method Not Allowed" }, { "GET", "/files/none", 404, "Not Found" } } do
        local r = c:request(case[1], case[2], HTML)
        t.eq({ r.status, r.headers["content-type"] }, { case[3], "text/html; charset=utf-8" })
        for _, part in ipairs { '<html lang="en">', "<title>" .. case[3] .. " " .. case[4] .. "</title>",
          'name="viewport"', "color-scheme:light dark", "<h1>" .. case[3] .. "</h1><p>" .. case[4] .. "</p>" } do
          t.ok(r.body:find(part, 1, true), part)
        end
        t.ok(not r.body:find("secret", 1, true))
      end
      t.eq(c:request("GET", "/none").body, "Not Found\n", "a client that does not ask for HTML")
    end)
  end)
end)

t.test("the log shows the program's functions, and neither those of the library nor a gap", function()
  local app = web.new()
  for _ = 1, 15 do app:use(function(_, _, next) next() end) end
  app:get("/", function() web.url_unescape(5) end)
  local log = http.logged(function()
    http.with(app, function(open) open():request("GET", "/") end)
  end)
  local here = "%S*web_errors_test%.lua:%d+: "
  t.ok(log:find("^lio: error in GET /: " .. here
    .. "bad argument #1 to 'url_unescape' %(string expected, got number%)\n"
    .. "stack traceback:\n\t" .. here .. "in [^\n]+\n\t" .. here), log)
  t.eq({ select(2, log:gsub("\n\t" .. here, "")), log:find "lio/", log:find "skipping" }, { 16 })
end)

t.test("Regression: no line of the program was named if the handler had called the library in a tail call", function()
  for _, uses in ipairs { false, true } do
    for message, handler in pairs {
      ["req:validate: the rule of 'a': type 'int' is unknown; a type is string, integer, number, boolean, array, "
        .. "object or any"] = function(req) return req:validate { a = "int" } end,
      ["json: cannot encode a function at .f"] = function() return { f = print } end,
    } do
      local app = web.new()
      if uses then app:use(function(_, _, next) next() end) end
      local log = http.logged(function()
        http.with(app:get("/", handler), function(open) open():request("GET", "/") end)
      end)
      local at = debug.getinfo(handler, "S")
      t.eq(log:match "^[^\n]*", ("lio: error in GET /: in the handler of GET / (%s:%d): %s"):format(at.short_src,
        at.linedefined, message))
    end
  end
end)

-- Regression: the log named an argument of a library function.
t.test("if res.code cannot be sent, the response is 500, and the log names res.code and the handler", function()
  local problem <const> = "lio: error in GET /: the handler of GET / (%s:%d): res.code must be an integer from 200 to "
    .. "599, got %s\n"
  for code, handler in pairs {
    ["600"] = function(_, res) res.code = 600 end,
    ['"x"'] = function(_, res) res.code = "x" end,
    ["199"] = function(_, res) res.code = 199 res:write "body" end,
    ["1.5"] = function(_, res) res.code = 1.5 return function() return nil end end,
    -- The native server sends the results of handlers that have set only fields.
    ["700"] = function(_, res)
      res:header("A", "b")
      res.code = 700
      return "text"
    end,
    ["99"] = function(_, res)
      res:header("A", "b")
      res.code = 99
    end,
  } do
    local r, log = failing(handler)
    t.eq({ r.status, r.body }, { 500, "Internal Server Error\n" })
    local at = debug.getinfo(handler, "S")
    t.ok(log:find(problem:format(at.short_src, at.linedefined, code), 1, true), log)
  end
end)

t.test("an invalid status is an error that names the argument, and shows a string in quotes", function()
  for problem, handler in pairs {
    ['bad argument #1 to \'status\' (integer from 200 to 599 expected, got "404")'] = function(_, res)
      res:status "404"
    end,
    ["bad argument #1 to 'status' (integer from 200 to 599 expected, got nil)"] = function(_, res) res:status() end,
    ["bad argument #2 to 'redirect' (integer from 200 to 599 expected, got 99)"] = function(_, res)
      res:redirect("/", 99)
    end,
  } do
    local _, log = failing(handler)
    t.ok(log:find("lio: error in GET /: tests/web_errors_test.lua:%d+: "), log)
    t.ok(log:find(problem, 1, true), log)
  end
end)

t.test("any value can be raised, and is described in the log", function()
  local cases = {
    { { 1 }, "error object is a table" },
    { setmetatable({}, { __tostring = function() return "described" end }), "described" },
    { setmetatable({}, { __tostring = function() error "no" end }), "error object is a table" },
    { setmetatable({}, { __metatable = 1 }), "error object is a table" },
    { print, "error object is a function" },
    { false, "error object is a boolean" },
    { 42, "42" },
  }
  for _, case in ipairs(cases) do
    local r, log = failing(function() error(case[1]) end)
    t.eq(r.status, 500)
    t.ok(log:find(case[2], 1, true), log)
  end
  local r, log = failing(function() error(nil) end)
  t.eq(r.status, 500)
  t.ok(log:find "nil", log)
end)

t.test("a raised table is shown with its content, down to a fixed depth, even if it has a cycle", function()
  local cycle = { code = 7 }
  cycle.self = cycle
  local many = {}
  for i = 1, 30 do many[i] = i end
  local cases = {
    { { code = 7 }, "{ code = 7 }" },
    { { "a", 2, reason = 'no "x"', [true] = false }, [[{ "a", 2, [true] = false, reason = "no \"x\"" }]] },
    { cycle, "{ code = 7, self = { code = 7, self = { code = 7, self = { … } } } }" },
    { { text = ("x"):rep(300) }, '{ text = "' .. ("x"):rep(200) .. '…" }' },
    { many, "{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, … }" },
    { { f = print, ["a b"] = {} }, '{ ["a b"] = {}, f = function }' },
    { setmetatable({ code = 1 }, { __index = error, __pairs = error, __len = error }), "{ code = 1 }" },
  }
  for _, case in ipairs(cases) do
    local r, log = failing(function() error(case[1]) end, { debug = true })
    local shown = "(error object is a table: " .. case[2] .. ")"
    t.ok(log:find("lio: error in GET /: " .. shown .. "\nstack traceback:", 1, true), log)
    t.eq(r.body:match "^[^\n]*", shown)
  end
end)

t.test("the log escapes control characters of a raised value, so that the value cannot begin a line", function()
  local r, log = failing(function()
    error("a\nlio: serving\r\27[2J\tb\127\0\u{9b}c\u{e9}", 0)
  end)
  t.eq(r.status, 500)
  t.eq(log:match "^[^\n]*", [[lio: error in GET /: a\nlio: serving\r\x1B[2J\tb\x7F\x00\xC2\x9Bcé]])
  log = select(2, failing(function() error { "x\ny" } end))
  t.eq(log:match "^[^\n]*", [[lio: error in GET /: (error object is a table: { "x\ny" })]])
end)

t.test("if the body was refused and the handler raises another error, it is logged, and the response is 500", function()
  local app, wrong = web.new { body = 10 }, nil
  local handlers = {
    ["/index"] = function(req) return req:json().name end,
    ["/own"] = function(req)
      if not req:json() then error "a fault of its own" end
    end,
    ["/after"] = function(req)
      req:body()
      return wrong.name
    end,
    ["/form"] = function(req)
      req:form()
      return wrong.name
    end,
  }
  for path, handler in pairs(handlers) do app:post(path, handler) end
  for path in pairs(handlers) do
    for _, body in ipairs { "{", "{ too long }" } do
      local log = http.logged(function()
        http.with(app, function(open)
          local r = open():request("POST", path, { "Content-Type: text/x" }, body)
          local is_read = path == "/after" and body == "{"
          t.eq({ r.status, r.body }, { 500, "Internal Server Error\n" }, path)
          t.ok(is_read or r.headers["content-length"] == "22")
        end)
      end)
      t.ok(log:find("lio: error in POST " .. path .. ": ", 1, true), log)
      t.ok(log:find "web_errors_test.lua:%d+: .*\nstack traceback:", log)
    end
  end
end)

t.test("if the handler raises the refusal of its body again, the status is unchanged, and nothing is logged", function()
  local app = web.new { body = 10 }
  app:post("/assert", function(req) return assert(req:json()) end)
  app:post("/error", function(req)
    local value, reason = req:json()
    if not value then error(reason) end
    return value
  end)
  app:post("/return", function(req) return req:json() end)
  app:post("/stream", function(req) for _ in req:stream() do end end)
  local log = http.logged(function()
    http.with(app, function(open)
      for _, path in ipairs { "/assert", "/error", "/return" } do
        local r = open():request("POST", path, nil, "{")
        t.eq({ r.status, r.body },
          { 400, "the body is not valid JSON: EOF while parsing an object at line 1 column 1\n" }, path)
      end
      for _, path in ipairs { "/assert", "/error", "/return", "/stream" } do
        t.eq(open():request("POST", path, nil, "[1, 2, 3, 4]").status, 413, path)
      end
    end)
  end)
  t.eq(log, "")
end)

t.test("an error in on_file is logged once, with the place where it was raised", function()
  local app, seen = web.new(), nil
  app:post("/", function(req)
    req:form { on_file = function() error "in on_file" end }
  end)
  app:on_error(function(err, _, _, traceback)
    seen = { err:match "in on_file$", traceback:match "[^\n]*", select(2, traceback:gsub("stack traceback", "")) }
    return 500, "x"
  end)
  local body = table.concat({ "--b", 'Content-Disposition: form-data; name="f"; filename="f"', "", "x", "--b--", "" },
    "\r\n")
  local log = http.logged(function()
    http.with(app, function(open)
      t.eq(open():request("POST", "/", { "Content-Type: multipart/form-data; boundary=b" }, body).status, 500)
    end)
  end)
  t.eq({ seen[1], seen[3] }, { "in on_file", 1 })
  t.ok(seen[2]:find "web_errors_test.lua:%d+: in on_file$", seen[2])
  t.eq(select(2, log:gsub("stack traceback", "")), 1)
end)

t.test("the default status of on_error's response is 500; without a response, the server's 500 is sent", function()
  local r = failing(function() error "x" end, nil, function(app) app:on_error(function() return "sorry" end) end)
  t.eq({ r.status, r.body }, { 500, "sorry" })
  r = failing(function() error "x" end, nil, function(app)
    app:on_error(function(_, _, res) res:header("X-Seen", "1") end)
  end)
  t.eq({ r.status, r.body }, { 500, "Internal Server Error\n" })
end)

t.test("on_error gets the raised value and responds instead of the server", function()
  local raised = { status = 409, text = "conflict" }
  local seen
  local r, log = failing(function() error(raised) end, nil, function(app)
    app:on_error(function(err, req, res, traceback)
      seen = { err == raised, req.path, traceback:find "stack traceback" ~= nil }
      res:header("X-Error", "1")
      return err.status, err.text
    end)
  end)
  t.eq({ r.status, r.body, r.headers["x-error"] }, { 409, "conflict", "1" })
  t.eq(seen, { true, "/", true })
  t.ok(log:find "error in GET /", "the error is still logged")
end)

t.test("on_error gets a raised string with its position and without a traceback", function()
  local r = failing(function() error "oops" end, nil, function(app)
    app:on_error(function(err) return 500, err end)
  end)
  t.ok(r.body:find "^%S*web_errors_test.lua:%d+: oops$", r.body)
end)

t.test("an error or an invalid result of on_error is logged too, and the response is 500", function()
  for _, f in ipairs { function() error "second" end, function() return true end } do
    local r, log = failing(function() error "first" end, nil, function(app) app:on_error(f) end)
    t.eq({ r.status, r.body }, { 500, "Internal Server Error\n" })
    t.ok(log:find "first.*error in GET /", log)
  end
end)

t.test("after an error in a started response the connection ends, so that the client detects it", function()
  local app = web.new()
  app:get("/", function(_, res)
    res:write "part"
    error "halfway"
  end)
  app:get("/function", function()
    local given
    return function()
      if given then error "halfway" end
      given = true
      return "part"
    end
  end)
  for _, path in ipairs { "/", "/function" } do
    local log = http.logged(function()
      http.with(app, function(open, server)
        local c = open()
        c:send("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        t.eq(c:read_head().status, 200)
        t.eq(c.c:recv "all", "4\r\npart\r\n", "and no last chunk")
        t.eq(server.count, 0)
      end)
    end)
    t.ok(log:find "halfway", log)
  end
end)

t.test("responses that were complete before the error are sent", function()
  local app = web.new()
  app:get("/ok", function() return "ok" end)
  app:get("/", function(_, res)
    res:write "part"
    error "halfway"
  end)
  http.logged(function()
    http.with(app, function(open)
      local c = open()
      c:send "GET /ok HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
      t.eq(c:response().body, "ok")
      t.eq(c:read_head().status, 200)
    end)
  end)
end)

t.test("an error in a stream that the client has closed is not logged", function()
  local app = web.new()
  app:post("/", function(req)
    for _ in req:stream() do end
    return "x"
  end)
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      c:send "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
      t.eq(c:response().status, 400)
      t.ok(c:ended())
    end)
  end)
  t.eq(log, "")
end)

t.test("an error after take_over is logged, and nothing is sent on the connection", function()
  local app = web.new()
  app:get("/", function(req)
    local c <close> = req:take_over()
    c:send "mine"
    error "after"
  end)
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      t.eq(c.c:recv "all", "mine")
    end)
  end)
  t.ok(log:find "after", log)
end)

t.test("if a constraint raises during a request, the response is 500", function()
  local app = web.new()
  app:get("/x/:a<b[>", function() return "x" end)
  app:get("/y", function() return "y" end)
  http.logged(function()
    http.with(app, function(open)
      local c = open()
      t.eq(c:request("GET", "/x/b").status, 500)
      t.eq(c:request("GET", "/y").body, "y")
    end)
  end)
end)

t.test("not_found responds to requests for paths without a route, as a handler does", function()
  local app = web.new()
  app:get("/", function() return "x" end)
  app:not_found(function(req, res)
    res:header("X-Missing", req.path)
    return 404, { missing = req.path }
  end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("GET", "/nope")
    t.eq({ r.status, r.body, r.headers["x-missing"] }, { 404, '{"missing":"/nope"}', "/nope" })
    t.eq(c:request("POST", "/", nil, "").status, 405, "a path with another method is not missing")
  end)
end)

t.test("on_error and not_found accept functions only", function()
  local app = web.new()
  t.raises("on_error.*function expected, got table", app.on_error, app, {})
  t.raises("not_found.*function expected, got nil", app.not_found, app)
end)

t.finish()
