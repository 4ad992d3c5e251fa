-- Requests of lio.http.client to Python's http.server, nginx and Node, whose ports are the arguments. Run by
-- tests/long/http_client_peers.sh.

local t = require "tests.kit"
local client = require "lio.http.client"
local loop = require "lio.loop"

local python, nginx, node = "http://127.0.0.1:" .. arg[1], "http://127.0.0.1:" .. arg[2], "http://127.0.0.1:" .. arg[3]

local function case(name, f)
  t.test(name, function()
    loop.run(function()
      local http <close> = client.new()
      f(http)
    end)
  end)
end

-- Returns a function that returns `count` pieces of 64 KiB.
local function pieces(count)
  return function()
    count = count - 1
    if count >= 0 then return ("y"):rep(65536) end
  end
end

for name, base in pairs { ["http.server"] = python, nginx = nginx } do
  case(name .. ": files, a folder, HEAD, 404, a method it does not take", function(http)
    t.eq(http:get(base .. "/a b.txt").body, "hello\n")
    local res = http:get(base .. "/dir")
    t.eq({ res.body, res.url, #res.history }, { "<p>dir", base .. "/dir/", 1 })
    t.eq(http:head(base .. "/big.txt").body, "")
    t.eq(#http:get(base .. "/big.txt").body, 1020000)
    t.eq(http:get(base .. "/none").status, 404)
    t.eq(http:post(base .. "/a%20b.txt", { body = "x" }).status, base == nginx and 405 or 501)
    for _ = 1, 20 do t.eq(http:get(base .. "/a%20b.txt").body, "hello\n") end
    t.eq(http:counts().reused > 0, base == nginx)
  end)
end

case("nginx: ranges, a redirect of POST, gzip", function(http)
  local res = http:get(nginx .. "/big.txt", { headers = { Range = "bytes=1-4" } })
  t.eq({ res.status, res.body }, { 206, "xxxx" })
  t.eq(http:post(nginx .. "/old", { form = { a = 1 } }).body, "<p>dir")
  t.eq(http:get(nginx .. "/big.txt", { decode = false, headers = { ["Accept-Encoding"] = "gzip" } })
    .headers["content-encoding"], "gzip")
end)

case("nginx: a body over its limit is refused while it is sent, and chunks are accepted", function(http)
  t.eq(http:post(nginx .. "/up", { body = ("x"):rep(4 * 1024 * 1024) }).status, 413)
  t.eq(http:post(nginx .. "/up", { body = pieces(10) }).body, "655360")
end)

case("nginx: a connection that it ended is not used for a POST", function(http)
  t.eq(http:get(nginx .. "/a%20b.txt").status, 200)
  loop.sleep(1.5)
  t.eq(http:post(nginx .. "/up", { body = "x" }).body, "1")
  t.eq(http:counts().opened, 2)
end)

case("Node: long bodies by length, in chunks, and echoed while they are sent", function(http)
  t.eq(http:put(node .. "/up", { body = ("x"):rep(10000000) }).body, "10000000")
  t.eq(http:put(node .. "/up", { body = pieces(100) }).body, "6553600")
  local text = ("0123456789"):rep(2000000)
  t.ok(http:post(node .. "/echo", { body = text }).body == text)
end)

case("Node: trailers, interim responses, codings, an early refusal, a destroyed socket", function(http)
  local res = http:get(node .. "/trailers")
  t.eq({ res.body, res.trailers }, { "abc", { ["x-sum"] = "3" } })
  t.eq(http:get(node .. "/early").body, "hinted")
  t.eq(http:post(node .. "/c", { body = "abc", expect_continue = true }).body, "3")
  for _, coding in ipairs { "gzip", "br", "deflate" } do
    t.eq(http:get(node .. "/coded", { headers = { ["X-Coding"] = coding } }).body, ("text "):rep(10000))
  end
  t.eq(http:post(node .. "/refuse", { body = ("x"):rep(50000000) }).status, 413)
  t.eq(select(3, http:get(node .. "/die")), "truncated")
end)

case("Node: an upgrade", function(http)
  local c <close> = http:get(node, { headers = { Connection = "upgrade", Upgrade = "x" } }):take_over()
  c:send "ping"
  t.eq(c:recv(4), "ping")
end)

case("Node: 2,000 requests from 200 tasks", function(http)
  local done = 0
  for i = 1, 200 do
    loop.fork(function()
      for j = 1, 10 do
        local path = "/" .. i .. "/" .. j
        t.eq(http:get(node .. path).body, "GET " .. path)
      end
      done = done + 1
      if done == 200 then loop.wakeup "done" end
    end)
  end
  loop.wait "done"
  t.eq(http:counts().open, 16)
end)

t.finish()
