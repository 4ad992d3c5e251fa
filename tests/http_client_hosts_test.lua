-- lio.http.client in different environments: in a handler of lio.webserver, in a service of the scheduler, and on a
-- given instance of lio.net; and the code of docs/http_client.md.

local t = require "tests.kit"
local kit = require "tests.kit.scripted_server"
local client = require "lio.http.client"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"
local web = require "lio.webserver"

t.test("a handler may send a request to its own server while it responds", function()
  local app, asking = web.new(), client.new()
  local url
  app:get("/inner", function() return { a = 1 } end)
  app:get("/outer", function() return tostring(assert(asking:get(url .. "inner")):json().a) end)
  app:get("/stream", function() return assert(asking:get(url .. "inner", { stream = true })):stream() end)
  http.with(app, function(open, server)
    url = server.url
    local c = open()
    for _ = 1, 3 do t.eq(c:request("GET", "/outer").body, "1") end
    t.eq(c:request("GET", "/stream").body, '{"a":1}')
    t.eq(asking:counts().opened, 1)
    asking:close()
  end)
end)

t.test("the client reads every kind of response that lio.webserver sends", function()
  local app, asking = web.new(), client.new()
  app:get("/pieces", function()
    local n = 0
    return function()
      n = n + 1
      if n <= 3 then return ("x"):rep(n) end
    end
  end)
  app:get("/empty", function() return 204 end)
  app:post("/echo", function(req) return req:body() end)
  app:post("/refuse", function() return 403, "no" end)
  http.with(app, function(_, server)
    local url = server.url
    t.eq(asking:get(url .. "pieces").body, "xxxxxx")
    t.eq(asking:get(url .. "empty").status, 204)
    t.eq(asking:head(url .. "pieces").body, "")
    t.eq(asking:post(url .. "echo", { body = ("x"):rep(5000000) }).body, ("x"):rep(5000000))
    t.eq(asking:post(url .. "echo", { body = { "a", "b" }, expect_continue = true }).body, "ab")
    t.eq(asking:get(url .. "echo").status, 405)
    t.eq(asking:post(url .. "refuse", { body = ("x"):rep(50000000) }).body, "no")
    asking:close()
  end)
end)

t.test("the client works in a service that owns a loop", function()
  local script = t.write(t.tmp() .. "/asks.lua", [[
    local http = require "lio.http.client"
    local loop = require "lio.loop"
    local net = require "lio.net"
    loop.run(function()
      local listener <close> = assert(net.listen("127.0.0.1", 0))
      local _, port = listener:address()
      loop.fork(function()
        local c <close> = net.accept(listener)
        while c:recv("until", "\r\n\r\n") do c:send "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" end
      end)
      local url = "http://127.0.0.1:" .. port
      print(http.get(url).body, http.get(url, { timeout = 5 }).body, http.counts().reused)
      http.close_idle()
    end)
  ]])
  local done = t.run(t.quote(t.bin()) .. " --service " .. t.quote(script))
  t.eq({ done.out, done.err, done.code }, { "hi\thi\t1\n", "", 0 })
end)

kit.test("the client works on a given instance of lio.net", kit.always(kit.ok "x"), function(_, url)
  local asking <close> = client.new { net = net.instance }
  t.eq(asking:get(url).body, "x")
end)

-- Regression: the first request raised `attempt to index a nil value` in the library.
kit.test("a table whose __index leads to an instance opens connections with its own connect", kit.always(kit.ok "x"),
  function(_, _, port)
    local count = 0
    local function connect(_, _, options)
      count = count + 1
      return net.connect("127.0.0.1", port, options)
    end
    for _, index in ipairs { loop.net, net, function(_, name) return loop.net[name] end } do
      local asking <close> = client.new { net = setmetatable({ connect = connect }, { __index = index }) }
      t.eq(asking:get("http://192.0.2.1:9/").body, "x")
    end
    t.eq(count, 3)
  end)

t.test("a table that leads to no instance of lio.net is refused", function()
  for _, wrong in ipairs { {}, { instance = {} }, setmetatable({}, { __index = error }) } do
    t.raises("http_client_hosts_test.lua:%d+: http.new: option 'net' must be an instance of lio.net, got a table$",
      function() client.new { net = wrong } end)
  end
  t.raises("http.new: option 'net' must be an instance of lio.net, got 5$", function() client.new { net = 5 } end)
end)

t.test("the first program of the guide prints the output that the guide shows", function()
  local guide = assert(io.open(t.root .. "docs/http_client.md"))
  local code = guide:read "a":match "```lua\n(.-)```"
  guide:close()
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(t.root .. "examples/hello.lua") .. " 0")
  local url = child:expect "(http://[%d.:]+)/"
  code = code:gsub("http://127%.0%.0%.1:8080", (url:gsub("0%.0%.0%.0", "127.0.0.1")))
  local script = t.write(t.tmp() .. "/guide.lua", code)
  local done = t.run(t.lio() .. " " .. t.quote(script))
  t.eq({ done.out, done.err }, { "200\tapplication/json\t7\n", "" })
  child:kill()
  child:all()
end)

t.finish()
