-- The connections of lio.http.client: they are kept, shared and waited for; closed connections are detected, and
-- connections in an uncertain state are never reused.

local t = require "tests.kit"
local kit = require "tests.kit.scripted_server"
local netkit = require "tests.kit.net"
local client = require "lio.http.client"
local endpoints = require "lio.http.client.endpoint"
local loop = require "lio.loop"
local net = require "lio.net"
local urls = require "lio.http.client.url"

local ok, always, fails = kit.ok, kit.always, kit.fails

-- Waits until `f()` is true; raises an error after 10 s.
local function await(f)
  local deadline = loop.now() + 10
  while not f() do
    if loop.now() > deadline then error("the condition was not met within 10 s", 2) end
    loop.sleep(0.002)
  end
end

kit.test("sequential requests share one connection", function(c, number)
  while kit.read_request(c) do c:send(ok(tostring(number))) end
end, function(http, url)
  for _ = 1, 3 do t.eq(http:get(url).body, "1") end
  t.eq(http:post(url, { body = "x" }).body, "1")
  t.eq(http:counts(), { open = 1, idle = 1, opened = 1, reused = 3 })
end)

-- Returns a handler that does not respond until `count` requests have arrived on all connections.
local function all_at_once(count)
  local asked = 0
  return function(c)
    while kit.read_request(c) do
      asked = asked + 1
      await(function() return asked >= count end)
      c:send(ok "x")
    end
  end
end

kit.test("each concurrent request has its own connection, and all of them are kept", all_at_once(5), function(http, url)
  local waits = {}
  for at = 1, 5 do waits[at] = netkit.promise(http.get, http, url) end
  for at = 1, 5 do t.eq(waits[at]().body, "x") end
  t.eq(http:counts(), { open = 5, idle = 5, opened = 5, reused = 0 })
end)

kit.test("connections to different servers are separate", always(ok "x"), function(http, url, port)
  http:get(url)
  http:get("http://localhost:" .. port)
  t.eq(http:counts().opened, 2)
end)

kit.test("requests beyond max_per_host wait for a connection, in order", function(c, number)
  while true do
    local head = kit.read_request(c)
    if not head then return end
    loop.sleep(0.002)
    c:send(ok(number .. head:match "/(%d)"))
  end
end, function(http, url)
  local order, waits = {}, {}
  for at = 1, 6 do
    waits[at] = netkit.promise(function()
      local body = http:get(url .. "/" .. at).body
      order[#order + 1] = at
      return body
    end)
  end
  for at = 1, 6 do t.eq(waits[at](), "1" .. at) end
  t.eq(order, { 1, 2, 3, 4, 5, 6 })
  t.eq(http:counts(), { open = 1, idle = 1, opened = 1, reused = 5 })
end, { max_per_host = 1 })

kit.test("a task that waits for a connection gets the place of a connection that failed", function(c, number)
  kit.read_request(c)
  netkit.settle()
  if number > 1 then c:send(ok "x") end
end, function(http, url)
  local first, second = netkit.promise(http.post, http, url), netkit.promise(http.post, http, url)
  fails("truncated", ".", first())
  t.eq(second().body, "x")
  t.eq(http:counts().opened, 2)
end, { max_per_host = 1 })

kit.test("the wait for a connection ends with the timeout", function(c)
  kit.read_request(c)
  c:wait_closed()
end, function(http, url)
  local first = netkit.promise(http.get, http, url)
  netkit.settle()
  fails("timeout", "waiting for a connection", http:get(url, { connect_timeout = 0.02 }))
  fails("timeout", "waiting for a connection", http:get(url, { timeout = 0.02 }))
  http:close()
  fails("closed", "closed", first())
end, { max_per_host = 1 })

kit.test("a killed task loses its connection and its position in the queue", function(c, number)
  while kit.read_request(c) do
    if number > 1 then c:send(ok(tostring(number))) end
  end
end, function(http, url)
  local tasks = {}
  for at = 1, 3 do tasks[at] = loop.fork(function() http:get(url) end) end
  local last = netkit.promise(http.get, http, url)
  await(function() return http:counts().open == 1 end)
  netkit.settle()
  loop.kill(tasks[2])
  loop.kill(tasks[3])
  loop.kill(tasks[1])
  t.eq(last().body, "2")
  t.eq(http:counts(), { open = 1, idle = 1, opened = 2, reused = 0 })
end, { max_per_host = 1 })

kit.test("if a task is killed after it was granted a connection, the next task gets the connection", function(c)
  while kit.read_request(c) do c:send(ok "x") end
end, function(http, url)
  http:get(url)
  -- The only place is in use, so both tasks wait. The first task is granted the connection, and is killed before it
  -- runs.
  local conn = assert(http.pool:acquire(endpoints.of { url = urls.parse(url) }, {}))
  local first = loop.fork(function() http:get(url) end)
  netkit.settle()
  local second = netkit.promise(http.get, http, url)
  netkit.settle()
  http.pool:release(conn)
  loop.kill(first)
  t.eq(second().body, "x")
  t.eq(http:counts().open, 1)
end, { max_per_host = 1 })

kit.test("if a task is killed after it was granted a place, the next task gets the place", function(c)
  while kit.read_request(c) do c:send(ok "x") end
end, function(http, url)
  local conn = assert(http.pool:acquire(endpoints.of { url = urls.parse(url) }, {}))
  local first = loop.fork(function() http:get(url) end)
  netkit.settle()
  local second = netkit.promise(http.get, http, url)
  netkit.settle()
  conn:close()
  loop.kill(first)
  t.eq(second().body, "x")
  t.eq(http:counts(), { open = 1, idle = 1, opened = 2, reused = 0 })
end, { max_per_host = 1 })

kit.test("close of a client that is connecting leaves no connection open", always(ok "x"), function(http, _, port)
  local answer = netkit.promise(http.get, http, "http://localhost:" .. port)
  repeat loop.sleep(0) until next(http.pool.hosts)
  http:close()
  fails("closed", "closed", answer())
  t.eq(http:counts().open, 0)
end)

kit.test("an idle connection is removed when the server closes it", function(c)
  kit.read_request(c)
  c:send(ok "x")
end, function(http, url)
  http:get(url)
  await(function() return http:counts().open == 0 end)
end)

local may_speak = false
kit.test("an idle connection is closed if the server sends data", function(c)
  kit.read_request(c)
  c:send(ok "x")
  await(function() return may_speak end)
  c:send(ok "unasked")
  t.is_nil(c:recv())
end, function(http, url)
  http:get(url)
  may_speak = true
  await(function() return http:counts().open == 0 end)
end)

local over = false
kit.test("a connection that the server has closed since the loop's last round is not used", function(c, number)
  kit.read_request(c)
  c:send(ok(tostring(number)))
  if number == 1 then
    c:close()
    over = true
    return
  end
  kit.read_request(c)
end, function(http, url)
  local res = http:get(url, { stream = true })
  await(function() return over end)
  t.eq(res:text(), "1")
  -- The loop has not run since the server closed the connection. If the client used this connection, the POST would
  -- fail, because a POST is not repeated.
  t.eq(http:post(url, { body = "x" }).body, "2")
end)

-- Returns a handler that answers the first request of a connection, and closes the connection when the second request
-- has arrived. `seen` gets the method and the body of each second request.
local function ends_at_second(seen)
  return function(c, number)
    kit.read_request(c)
    c:send(ok(tostring(number)))
    local head, body = kit.read_request(c)
    if head then seen[#seen + 1] = head:match "^%u+" .. body end
  end
end

for _, case in ipairs {
  { "a GET", { method = "GET" }, true },
  { "a DELETE", { method = "DELETE" }, true },
  { "a PUT with a body", { method = "PUT", body = "b" }, true },
  { "a POST with an Idempotency-Key", { method = "POST", body = "b", headers = { ["Idempotency-Key"] = "1" } }, true },
  { "a POST with the option idempotent", { method = "POST", body = "b", idempotent = true }, true },
  { "a POST", { method = "POST", body = "b" }, false },
  { "a PUT whose body cannot be read again", { method = "PUT", body = function() end }, false },
} do
  local seen = {}
  kit.test((case[3] and "sent once more" or "not sent again") .. " if a kept connection is lost: " .. case[1],
    ends_at_second(seen), function(http, url)
      http:get(url)
      case[2].url = url
      local res, _, code = http:request(case[2])
      if case[3] then
        t.eq({ res.body, #seen }, { "2", 1 })
      else
        t.eq({ res, code }, { nil, "truncated" })
      end
    end)
end

kit.test("a request is not repeated if its connection was new or bytes of a response have arrived", function(c, number)
  if number == 2 then
    kit.read_request(c)
    c:send(ok "x")
    kit.read_request(c)
    c:send "HTTP/1.1 2"
    return
  end
  kit.read_request(c)
end, function(http, url)
  fails("truncated", ".", http:get(url))
  t.eq(http:get(url).body, "x")
  fails("truncated", ".", http:get(url))
  t.eq(http:counts().opened, 2)
end)

kit.test("a request is repeated at most once", function(c, number)
  if number > 1 then return kit.read_request(c) end
  kit.read_request(c)
  c:send(ok "x")
  kit.read_request(c)
end, function(http, url)
  http:get(url)
  fails("truncated", ".", http:get(url))
  t.eq(http:counts().opened, 2)
end)

kit.test("the new connection of a repeated request replaces the one that the request is granted", function(c, number)
  kit.read_request(c)
  c:send(ok(tostring(number)))
  if number == 1 then return kit.read_request(c) end
  while kit.read_request(c) do c:send(ok(tostring(number))) end
end, function(http, url)
  t.eq(http:get(url).body, "1")
  -- The first request loses the kept connection. The second request opens connection 2 in place of that connection.
  -- When the first request is repeated, it is granted connection 2, closes it, and opens connection 3 instead.
  local first, second = netkit.promise(http.get, http, url), netkit.promise(http.get, http, url)
  t.eq({ second().body, first().body }, { "2", "3" })
  t.eq(http:counts(), { open = 1, idle = 1, opened = 3, reused = 1 })
  first, second = netkit.promise(http.get, http, url), netkit.promise(http.get, http, url)
  t.eq({ second().body, first().body }, { "3", "3" })
  t.eq(http:counts().opened, 3)
end, { max_per_host = 1 })

kit.test("idle connections are closed after idle_timeout", always(ok "x"), function(http, url)
  http:get(url)
  t.eq(http:counts().idle, 1)
  await(function() return http:counts().open == 0 end)
end, { idle_timeout = 0.01 })

kit.test("max_idle_per_host limits the idle connections of a host", all_at_once(4), function(http, url)
  local waits = {}
  for at = 1, 4 do waits[at] = netkit.promise(http.get, http, url) end
  for at = 1, 4 do waits[at]() end
  t.eq(http:counts().open, 2)
  http:close_idle()
  t.eq(http:counts().open, 0)
end, { max_idle_per_host = 2 })

kit.test("max_idle limits the idle connections of all hosts together", always(ok "x"), function(http, url, port)
  http:get(url)
  http:get("http://localhost:" .. port)
  t.eq(http:counts().open, 1)
end, { max_idle = 1 })

for _, case in ipairs {
  { "Connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx" },
  { "HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx" },
} do
  kit.test("the connection is closed after a response with " .. case[1], always(case[2]), function(http, url)
    t.eq(http:get(url).body, "x")
    t.eq(http:counts().open, 0)
  end)
end

kit.test("HTTP/1.0 with keep-alive keeps the connection", always(
  "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx"), function(http, url)
  t.eq(http:get(url).body, "x")
  t.eq(http:counts().idle, 1)
end)

kit.test("a request with Connection: close is the last one on its connection", always(ok "x"), function(http, url)
  http:get(url, { headers = { Connection = "close" } })
  t.eq(http:counts().open, 0)
end)

-- Timeouts and other ends -------------------------------------------------------------------------

local function silent(c)
  kit.read_request(c)
  c:wait_closed()
end

kit.test("a request times out if the server does not respond or stops within its response", function(c, number)
  kit.read_request(c)
  if number == 2 then c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab" end
  c:wait_closed()
end, function(http, url)
  fails("timeout", "waiting for the response: timeout", http:get(url, { read_timeout = 0.02 }))
  -- This time limit is longer, so that the head arrives within it.
  fails("timeout", "reading the body: timeout", http:get(url, { read_timeout = 1 }))
  fails("timeout", "timeout", http:get(url, { timeout = 0.02 }))
  t.eq(http:counts().open, 0)
end)

kit.test("a request times out if the head arrives byte by byte", function(c)
  kit.read_request(c)
  while c:send "H" and false do end
  c:send "TTP/1.1 200 OK\r\nA: "
  while c:send "x" do loop.sleep(0.005) end
end, function(http, url)
  fails("timeout", "waiting for the response", http:get(url, { read_timeout = 0.05 }))
end)

kit.test("the total timeout ends a request whose body arrives byte by byte", function(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
  while c:send "x" do loop.sleep(0.005) end
end, function(http, url)
  fails("timeout", "reading the body", http:get(url, { timeout = 1 }))
  local res = http:get(url, { timeout = 1, stream = true })
  local piece, message, code
  repeat piece, message, code = res:piece() until not piece
  fails("timeout", "reading the body", piece, message, code)
end)

kit.test("a request times out if the server does not read", function(c)
  c:wait_closed()
end, function(http, url)
  fails("timeout", "sending: timeout", http:post(url, { body = ("x"):rep(32 * 1024 * 1024), write_timeout = 0.02 }))
end)

kit.test("a request fails if the client cannot connect to the server", silent, function(http)
  fails("refused", "refused", http:get("http://127.0.0.1:" .. netkit.dead_port()))
  local _, _, code = http:get "http://name.invalid/"
  t.eq(code, "unresolved")
  t.eq(http.pool.hosts, {})
end)

kit.test("close ends requests that are in progress, and refuses later requests", silent, function(http, url)
  local waiting = netkit.promise(http.get, http, url)
  await(function() return http:counts().open == 1 end)
  netkit.settle()
  http:close()
  fails("closed", "closed", waiting())
  fails("closed", "closed", http:get(url))
  t.eq(http:counts().open, 0)
end)

local served
kit.test("a request that is killed in any of its waits closes its connection", function(c, number)
  if number == 1 then
    served = number
    return c:wait_closed()
  end
  kit.read_request(c)
  if number == 3 then c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab" end
  served = number
  c:wait_closed()
end, function(http, url)
  for at, options in ipairs { { body = ("x"):rep(32 * 1024 * 1024) }, {}, {} } do
    local co = loop.fork(function() http:post(url, options) end)
    await(function() return http:counts().open == 1 and served == at end)
    netkit.settle()
    loop.kill(co)
    await(function() return http:counts().open == 0 end)
  end
end)

kit.test("if a task is killed while it reads a stream, the connection is closed", function(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"
  c:wait_closed()
end, function(http, url)
  local pieces = 0
  local co = loop.fork(function()
    for _ in http:get(url, { stream = true }):stream() do pieces = pieces + 1 end
  end)
  await(function() return pieces == 1 end)
  netkit.settle()
  loop.kill(co)
  t.eq(http:counts().open, 0)
end)

netkit.test("the functions of the module share one client", function()
  kit.serving(always(ok "x"), function(url)
    t.eq(client.get(url).body, "x")
    t.eq(client.request({ url = url, method = "PUT" }).body, "x")
    t.eq({ client.counts().opened, client.counts().reused }, { 1, 1 })
    client.close_idle()
    t.eq(client.counts().open, 0)
  end)
end)

netkit.test("a request can be sent through a unix socket", function()
  local path = t.tmp() .. "/socket"
  local listener <close> = assert(net.listen("unix:" .. path))
  loop.fork(function()
    local c <close> = net.accept(listener)
    t.eq(kit.field(kit.read_request(c), "host"), "somewhere")
    c:send(ok "x")
    t.ok(kit.read_request(c))
    c:send "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n"
  end)
  local http <close> = client.new { socket = path }
  t.eq(http:get("http://somewhere/").body, "x")
  fails("redirect", "another server", http:get "http://somewhere/")
end)

netkit.test("a request to a proxy has the whole URL and the proxy's password", function()
  kit.serving(function(c)
    while true do
      local head = kit.read_request(c)
      if not head then return end
      local line = head:match "^(.-)\r\n"
      c:send(ok(line .. "|" .. kit.field(head, "host") .. "|" .. kit.field(head, "proxy-authorization")))
    end
  end, function(url)
    local http <close> = client.new { proxy = url:gsub("//", "//u:p@") }
    t.eq(http:get("http://one.invalid:81/x?y").body, "GET http://one.invalid:81/x?y HTTP/1.1|one.invalid:81|Basic dTpw")
    t.eq(http:get("http://two.invalid/").body, "GET http://two.invalid/ HTTP/1.1|two.invalid|Basic dTpw")
    t.eq(http:counts().opened, 1)
    local _, _, code = http:get("http://one.invalid/", { proxy = false })
    t.eq(code, "unresolved")
  end)
end)

netkit.test("a request to an IPv6 host has the address in brackets in its Host field", function()
  local listener <close> = assert(net.listen("::1", 0))
  local _, port = listener:address()
  loop.fork(function()
    local c <close> = net.accept(listener)
    c:send(ok(kit.field(kit.read_request(c), "host")))
  end)
  local http <close> = client.new()
  t.eq(http:get("http://[::1]:" .. port .. "/").body, "[::1]:" .. port)
end)

t.test("the default time limits are those in the guide", function()
  local guide = assert(io.open(t.root .. "docs/http_client.md")):read "a"
  for name, want in pairs { connect_timeout = 10, read_timeout = 60, write_timeout = 60 } do
    t.eq(client.defaults[name], want, name)
    t.ok(guide:find(("\n| `%s` | %d |"):format(name, want), 1, true), name)
  end
  t.is_nil(client.defaults.timeout)
end)

kit.test("the timeout of the client or of the request ends a request to a server that never responds", function(c)
  kit.read_request(c)
  c:wait_closed()
end, function(http, url)
  fails("timeout", "waiting for the response: timeout", http:get(url))
  fails("timeout", "waiting for the response: timeout", http:get(url, { read_timeout = 0.01 }))
  fails("timeout", "timeout", http:get(url, { read_timeout = false, timeout = 0.02 }))
  fails("timeout", "timeout", http:get(url, { read_timeout = math.huge, timeout = 0.02 }))
end, { read_timeout = 0.02 })

t.finish()
