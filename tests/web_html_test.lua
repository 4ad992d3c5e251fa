-- `web.html`, `res:html`, and the functions that escape text.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

local HTML <const> = "text/html; charset=utf-8"

-- Returns the status, the type and the body of the response to GET / of an app whose handler is `handler`.
local function get(handler, prepare)
  local r = http.once(function(app)
    if prepare then prepare(app) end
    app:get("/", handler)
  end, "GET", "/")
  return { r.status, r.headers["content-type"], r.body }
end

-- Asserts that `f(…)`, called at a line of this file, raises an error with this position and this message.
local function raises(message, f, ...)
  local arguments = table.pack(...)
  return t.raises("^tests/web_html_test.lua:%d+: " .. message, function()
    f(table.unpack(arguments, 1, arguments.n))
  end)
end

t.test("a plain string is sent as text, and web.html as HTML", function()
  t.eq(get(function() return "<b>1</b>" end), { 200, "text/plain; charset=utf-8", "<b>1</b>" })
  t.eq(get(function() return web.html "<b>1</b>" end), { 200, HTML, "<b>1</b>" })
end)

t.test("web.html can be returned in each place of a body", function()
  t.eq(get(function() return 404, web.html "<p>none" end), { 404, HTML, "<p>none" })
  t.eq(get(function() return web.html "<p>none", 404 end), { 404, HTML, "<p>none" })
  local r = http.once(function(app)
    app:get("/", function() return 201, web.html "x", { ["X-A"] = "1" } end)
  end, "GET", "/")
  t.eq({ r.status, r.headers["content-type"], r.headers["x-a"], r.body }, { 201, HTML, "1", "x" })
end)

t.test("a status and fields that were set before are kept", function()
  local r = http.once(function(app)
    app:get("/", function(_, res)
      res:status(202):header("X-A", "1")
      return web.html "x"
    end)
  end, "GET", "/")
  t.eq({ r.status, r.headers["x-a"], r.headers["content-type"] }, { 202, "1", HTML })
  t.eq(get(function(_, res)
    res:header("Content-Type", "application/xhtml+xml")
    return web.html "x"
  end), { 200, "application/xhtml+xml", "x" })
end)

t.test("res:html and res:send set an HTML body, and a later body is plain text again", function()
  t.eq(get(function(_, res) res:html "<i>" end), { 200, HTML, "<i>" })
  t.eq(get(function(_, res) return res:status(400):html "<i>" end), { 400, HTML, "<i>" })
  t.eq(get(function(_, res) res:send(web.html "<i>") end), { 200, HTML, "<i>" })
  t.eq(get(function(_, res) res:html("<i>"):send "text" end), { 200, "text/plain; charset=utf-8", "text" })
end)

t.test("middleware sees the text of an HTML result, and may return one", function()
  local seen
  t.eq(get(function() return web.html "inner" end, function(app)
    app:use(function(_, res, next)
      next()
      seen = { res.body, res.content_type }
      return web.html("<" .. res.body .. ">")
    end)
  end), { 200, HTML, "<inner>" })
  t.eq(seen, { "inner", HTML })
end)

t.test("a long page is sent completely, also to HEAD and as a response to an error", function()
  local page = ("<p>x</p>\n"):rep(100000)
  t.eq(get(function() return web.html(page) end), { 200, HTML, page })
  local r = http.once(function(app) app:get("/", function() return web.html(page) end) end, "HEAD", "/")
  t.eq({ r.status, r.headers["content-length"] }, { 200, tostring(#page) })
  local log = http.logged(function()
    t.eq(get(function() error "x" end, function(app)
      app:on_error(function() return web.html "<h1>sorry" end)
    end), { 500, HTML, "<h1>sorry" })
  end)
  t.ok(log:find "web_html_test.lua:%d+: x", log)
end)

t.test("web.html and res:html take only strings", function()
  for _, value in ipairs { 1, {}, true } do
    raises("bad argument #1 to 'html' %(string expected, got ", web.html, value)
  end
  t.raises("bad argument #1 to 'html' %(string expected, got nil%)", web.html)
  local message
  get(function(_, res)
    message = select(2, pcall(res.html, res, 5))
    return "x"
  end)
  t.ok(message:find "bad argument #1 to 'html' %(string expected, got number%)", message)
end)

t.test("web.escape escapes the content and the attributes of HTML", function()
  t.eq(web.escape [[<a href="x" title='y'>&amp;</a>]],
    "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;")
  t.eq(web.escape "", "")
  t.eq(web.escape "\0ü\xff", "\0ü\xff")
  t.eq(web.escape(12), "12")
  t.raises("bad argument #1 to 'escape' %(string expected, got nil%)", function() web.escape(nil) end)
end)

t.test("web.url_escape and web.url_unescape encode and decode one component", function()
  t.eq(web.url_escape "a b/c?d=é&~._-", "a%20b%2Fc%3Fd%3D%C3%A9%26~._-")
  t.eq(web.url_unescape "a%20b%2fc+%zz%", "a b/c+%zz%")
  local all = {}
  for byte = 0, 255 do all[#all + 1] = string.char(byte) end
  all = table.concat(all)
  t.eq(web.url_unescape(web.url_escape(all)), all)
end)

t.finish()
