-- The service `lio.webservice` in redirect mode: the requests to its tunnel, and how sessions end. In each system, the
-- main service is the tunnel, and also sends the clients' bytes.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local cgi <const> = [[
  local ltask = require "ltask"
  return {
    get = function(path, query)
      if path == "slow" then ltask.sleep(tonumber(query.cs)) end
      if path == "large" then return 200, ("x"):rep(tonumber(query.n)) end
      return 200, path
    end,
    post = function(path, query, header, body) return 200, tostring(#body) .. body:sub(-3) end,
  }
]]

-- The first part of a main service that is the tunnel.
local before <const> = [[
  local got, ends, opened = {}, {}, nil
  local function changed() ltask.multi_wakeup "changed" end
  local function until_(f)
    local late
    ltask.timeout(1000, function() late = true changed() end)
    while not f() do
      if late then error("nothing came within 10 s: " .. debug.traceback()) end
      ltask.multi_wait "changed"
    end
  end
  function S.tunnel_open(...) opened = table.pack(...) end
  function S.tunnel_data(session, data)
    got[session] = (got[session] or "") .. data
    changed()
  end
  function S.tunnel_close(session)
    ends[session] = (ends[session] or 0) + 1
    changed()
  end
  function S.tunnel_end(...)
    ends.all = table.pack(...)
    changed()
  end
  local web = ltask.spawn "lio.webservice"
  local conf = { mode = "redirect", addr = "here", port = 80, cgi = { cgi = "cgi" }, options = {} }
  local function start() return ltask.call(web, "start", conf) end
  local function data(session, ...) return ltask.call(web, "tunnel_data", session, ...) end
  local function get(path, more) return "GET /cgi/" .. path .. " HTTP/1.1\r\nHost: x\r\n" .. (more or "") .. "\r\n" end
  local function answered(session, text)
    until_(function() return got[session] and got[session]:sub(-#text) == text end)
  end
]]

local function test(name, main, out, more)
  local spec = { main = before:gsub("\n%s*", " ") .. main, out = out, modules = { cgi = cgi } }
  for k, v in pairs(more or {}) do spec[k] = v end
  kit.test(name, spec)
end

test("start sends the address to the tunnel, which is by default the service that called start", [[
  say(start() == "the tunnel of service " .. ltask.self())
  say(opened[1], opened[2])
  say(data(1, get "hello"))
  answered(1, "\r\n\r\nhello")
  say(got[1]:match "^HTTP/1.1 200 OK\r\n" ~= nil)
]], { "true", "here\t80", "true", "true" })

test("the tunnel may be given by address or by name, and its results are the results of start", [[
  ltask.register "carrier"
  function S.tunnel_open() return "over there", 7 end
  conf.tunnel = "carrier"
  say(start())
  ltask.call(web, "quit")
  web, conf.tunnel = ltask.spawn "lio.webservice", ltask.self()
  say(start())
]], { "over there\t7", "over there\t7" })

test("start fails with a message if the tunnel refuses, raises an error, or does not exist", [[
  local function why() return select(2, pcall(start)) end
  function S.tunnel_open() return false, "not today" end
  say(tostring(why()):match "refused: [^\n]*")
  function S.tunnel_open() error "broken" end
  say(tostring(why()):match "broken")
  conf.tunnel = 12345
  say(tostring(why()):match "the tunnel, service 12345")
  conf.tunnel = web
  say(tostring(why()):match "cannot be this service itself")
  conf.tunnel = nil
  function S.tunnel_open() end
  say(pcall(start))
]], { "refused: not today", "broken", "the tunnel, service 12345", "cannot be this service itself",
  "true\tthe tunnel of service 3" }, { out = function(out)
  t.ok(out:find "refused: not today\nbroken\nthe tunnel, service 12345\ncannot be this service itself\ntrue\t", out)
end })

test("data of any length arrives in order, in both directions", [[
  start()
  local piece = {}
  for i = 1, 5000 do piece[i] = ("%07d,"):format(i) end
  local body = table.concat(piece):rep(20)
  local text = "POST /cgi/x HTTP/1.1\r\nHost: x\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
  local at, n = 1, 1
  while at <= #text do
    data("big", text:sub(at, at + n - 1))
    at, n = at + n, n * 3
  end
  answered("big", "\r\n\r\n80000000,")
  for i = 1, 20 do
    ltask.send(web, "tunnel_data", "small", get(i):sub(1, 9))
    ltask.send(web, "tunnel_data", "small", get(i):sub(10))
  end
  answered("small", "\r\n\r\n20")
  local order = {}
  for path in got.small:gmatch "\r\n\r\n(%d+)" do order[#order + 1] = path:sub(1, #tostring(#order + 1)) end
  say(#order, order[7], order[20])
  data("large", get "large?n=5000000")
  until_(function() return got.large and #got.large > 5000000 end)
  say(#got.large:match "\r\n\r\n(x+)$")
]], { "20\t7\t20", "5000000" })

test("a session may send more than the backlog in total, and one piece may be longer than the backlog", [[
  conf.options = { body = 64 << 20 }
  start()
  local mebibyte = ("x"):rep(1 << 20)
  say(data(1, "POST /cgi/x HTTP/1.1\r\nHost: x\r\nContent-Length: " .. (40 << 20) .. "\r\n\r\n"))
  say(data(1, mebibyte:rep(17)))
  for _ = 1, 23 do assert(data(1, mebibyte)) end
  answered(1, "\r\n\r\n" .. (40 << 20) .. "xxx")
]], { "true", "true" })

test("a tunnel that refuses bytes gets no further request of the session", [[
  start()
  local count = 0
  function S.tunnel_data()
    count = count + 1
    changed()
    return false
  end
  data(1, get "large?n=5000000")
  until_(function() return count > 0 end)
  ltask.call(web, "quit")
  say(count, ends[1])
]], { "1\tnil" })

test("a session may last longer than the write time", [[
  conf.options = { write_time = 1 }
  start()
  data(1, get "one")
  answered(1, "one")
  ltask.sleep(150)
  say(ends[1])
  data(1, get "two")
  answered(1, "two")
]], { "nil" })

test("a session ends when the server closes it, and the tunnel is notified once", [[
  start()
  data(1, get("x", "Connection: close\r\n"))
  until_(function() return ends[1] end)
  say(got[1]:match "Connection: close" ~= nil, ends[1])
  say(ltask.call(web, "tunnel_close", 1))
  data(2, "nonsense\r\n\r\n")
  until_(function() return ends[2] end)
  say(got[2]:match "^HTTP/1.1 400")
]], { "true\t1", "false", "HTTP/1.1 400" })

-- Bytes that the tunnel sends before it is notified that the server has closed must not be parsed as another request.
test("until the tunnel is notified that a session has ended, its bytes are refused and open no new session", [[
  start()
  local release
  function S.tunnel_close(session)
    ends[session] = true
    changed()
    release = {}
    ltask.wait(release)
  end
  data(1, get("x", "Connection: close\r\n"))
  until_(function() return release end)
  say(data(1, get "y"))
  ltask.wakeup(release)
  got[1] = nil
  -- The server receives the result of `tunnel_close` later, so the data may be refused at first.
  local taken
  repeat
    taken = data(1, get "z")
    if not taken then ltask.sleep(1) end
  until taken
  say(taken)
  answered(1, "z")
]], { "false\tclosed", "true" })

test("a session ends when the tunnel closes it, even while a handler runs", [[
  conf.options = { grace = 0.1 }
  start()
  data(1, get "slow?cs=100000")
  say(ltask.call(web, "tunnel_close", 1), ltask.call(web, "tunnel_close", 1))
  say(data(1, get "again"))
  answered(1, "again")
  say(ends[1])
]], { "true\tfalse", "true", "nil" })

test("a client that has shut down its sending side gets the response", [[
  start()
  data(1, get "slow?cs=1")
  say(ltask.call(web, "tunnel_shutdown", 1))
  until_(function() return ends[1] end)
  say(got[1]:match "slow$")
  say(ltask.call(web, "tunnel_shutdown", 1))
]], { "true", "slow", "false" })

-- Regression: in redirect mode no session ended.
test("idle sessions end, and so do sessions without a complete request", [[
  conf.options = { keep_alive_time = 0.05, header_time = 0.05 }
  start()
  data(1, get "x")
  data(2, "GET / HT")
  until_(function() return ends[1] and ends[2] end)
  say(got[2]:match "^HTTP/1.1 408")
]], { "HTTP/1.1 408" })

test("a thousand sessions leave no descriptor open", [[
  start()
  local pid = io.open "/proc/self/stat":read "n"
  local function open()
    local n = 0
    for _ in io.popen("ls /proc/" .. pid .. "/fd"):lines() do n = n + 1 end
    return n
  end
  data(0, get("0", "Connection: close\r\n"))
  until_(function() return ends[0] end)
  local before = open()
  for i = 1, 1000 do
    data(i, get(i, i % 2 == 0 and "Connection: close\r\n" or nil))
    if i % 2 == 0 then until_(function() return ends[i] end) else ltask.call(web, "tunnel_close", i) end
  end
  say(open() - before < 8)
]], { "true" })

test("a session whose tunnel does not answer ends, and the tunnel is notified later", [[
  conf.options = { write_time = 0.05 }
  start()
  local held
  function S.tunnel_data() held = {} changed() ltask.wait(held) end
  data(1, get "x")
  until_(function() return ends[1] end)
  say(held ~= nil)
]], { "true" })

test("a tunnel that does not accept bytes makes the server wait", [[
  start()
  local held, bytes = nil, 0
  function S.tunnel_data(_, piece)
    bytes = bytes + #piece
    if not held then
      held = {}
      changed()
      ltask.wait(held)
    end
    changed()
  end
  data(1, get "large?n=3000000")
  until_(function() return held end)
  -- If the server did not wait, all bytes would have been sent before these later requests are answered.
  data(2, get "x")
  say(ltask.call(web, "tunnel_close", 2))
  say(bytes < 1000000)
  ltask.wakeup(held)
  until_(function() return bytes > 3000000 end)
]], { "true", "true" })

test("when the tunnel's service ends, its sessions end, and start may be called again", [[
  local other = ltask.spawn("carrier", web)
  conf.tunnel = other
  start()
  ltask.call(other, "begin", get "slow?cs=1")
  ltask.kill(other)
  conf.tunnel = nil
  until_(function()
    ltask.timeout(2, changed)
    return (pcall(start))
  end)
  say(data(1, get "mine"))
  answered(1, "mine")
]], { "true" }, { services = { carrier = [[
  local web = ...
  local S = {}
  function S.tunnel_open() end
  function S.tunnel_data() end
  function S.tunnel_close() end
  function S.begin(text)
    ltask.call(web, "tunnel_data", 1, text)
    ltask.call(web, "tunnel_data", 2, "GET")
  end
  return S
]] } })

test("quit answers the requests in progress, ends the sessions, and notifies the tunnel", [[
  start()
  data(1, get "slow?cs=20")
  data(2, get "x")
  answered(2, "x")
  local refused
  ltask.fork(function()
    -- This task runs after the `quit` below was sent, while the request of session 1 is in progress.
    refused = table.pack(data(3, get "late"))
  end)
  ltask.call(web, "quit")
  say(got[1]:match "slow$", ends[1], ends[2])
  say(table.unpack(refused))
  say(ends.all[1], ends.all[2])
  while ltask.call(1, "stat")[web] do ltask.sleep(1) end
  say((pcall(ltask.call, web, "start", conf)))
]], { "slow\t1\t1", "false\tclosed", "here\t80", "false" })

test("quit does not wait longer than the grace period", [[
  conf.options = { grace = 0.05 }
  start()
  data(1, get "slow?cs=100000")
  ltask.call(web, "quit")
  say(ends.all ~= nil)
]], { "true" })

test("misuse raises an error that names the argument", [[
  say(data(1, "GET"))
  start()
  for _, list in ipairs { { {}, "x" }, { 1.5, "x" }, { 1, 7 }, { 1 } } do
    say((tostring(select(2, pcall(data, table.unpack(list)))):match "[^\n]*"))
  end
]], { "false\tclosed",
  "bad argument #1 to 'tunnel_data' (session expected, got table)",
  "bad argument #1 to 'tunnel_data' (session expected, got number)",
  "bad argument #2 to 'tunnel_data' (string expected, got number)",
  "bad argument #2 to 'tunnel_data' (string expected, got nil)" })

t.finish()
