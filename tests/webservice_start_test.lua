-- The service `lio.webservice`: what `start` returns and refuses, several services in one system, and `quit`.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local before <const> = [[
  local net = require "lio.socket"
  local function why(...) return (tostring(select(2, pcall(ltask.call, ...))):match "^[^\n]*") end
  local web = ltask.spawn "lio.webservice"
  local function get(port, path)
    local lio = require "lio"
    local s <close> = assert(net.create "tcp")
    s:connect(assert(net.endpoint("inet", "127.0.0.1", port)))
    local selector <close> = lio.create()
    local function await(what)
      selector:event_add(s, what)
      local _, events = selector:wait(10)()
      selector:event_del(s)
      return assert(events, "nothing came within 10 s")
    end
    await(lio.SELECT_WRITE)
    if not s:status() then return "refused" end
    s:send("GET " .. path .. " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    local all = {}
    while true do
      local data = s:recv()
      if data then all[#all + 1] = data elseif data == nil then break else await(lio.SELECT_READ) end
    end
    return (table.concat(all):match "\r\n\r\n(.*)$")
  end
  local function gone(service) while ltask.call(1, "stat")[service] do ltask.sleep(1) end end
]]

local cgi <const> = [[
  local ltask = require "ltask"
  return {
    get = function(path)
      if path == "slow" then
        -- The main service answers this call when the listener is closed.
        ltask.call(ltask.queryservice "main", "begun")
      end
      return 200, path .. " by " .. ltask.self()
    end,
  }
]]

local function test(name, main, out, more)
  local spec = { main = before:gsub("\n%s*", " ") .. main, out = out, modules = {
    cgi = cgi, wrong = "return 7", broken = "error 'does not load'", parts = "return { api = require 'cgi' }",
  } }
  for k, v in pairs(more or {}) do spec[k] = v end
  kit.test(name, spec)
end

test("start returns the URL and the port, and a second start raises an error with the URL", [[
  local url, port = ltask.call(web, "start", { port = 0, cgi = { x = "cgi" } })
  say(url == "http://127.0.0.1:" .. port .. "/")
  say(get(port, "/x/1") == "1 by " .. web)
  say(why(web, "start", { port = 0 }) == "start: the service is already serving at " .. url)
  say(get(port, "/x/2") == "2 by " .. web)
]], { "true", "true", "true", "true" })

test("two services in one system are independent, and each can quit while the other continues", [[
  local other = ltask.spawn "lio.webservice"
  local _, one = ltask.call(web, "start", { port = 0, cgi = { x = "cgi" } })
  local _, two = ltask.call(other, "start", { port = 0, cgi = { ["/y"] = "parts|api" } })
  say(get(one, "/x/1") == "1 by " .. web, get(two, "/y/2") == "2 by " .. other, get(two, "/x"))
  ltask.call(web, "quit")
  say(get(one, "/x/1"), get(two, "/y/2") == "2 by " .. other)
]], { "true\ttrue\tNot Found", "", "refused\ttrue" }, { out = function(out)
  t.eq(out, "true\ttrue\tNot Found\n\nrefused\ttrue\n")
end })

test("start with a port in use raises an error that names the port, and start may be called again", [[
  local _, port = ltask.call(web, "start", { port = 0 })
  local other = ltask.spawn "lio.webservice"
  say(why(other, "start", { port = port }):gsub(":%d+", ":N") .. "")
  say(why(other, "start", { addr = "nowhere", port = 1 }):match "^start: cannot listen on nowhere:1")
  say(why(other, "start", { addr = "unix:/no/such/folder/s" }):match "^start: cannot listen on unix:/no/such/folder/s")
  local _, free = ltask.call(other, "start", { port = 0, cgi = { x = "cgi" } })
  say(get(free, "/x/1") == "1 by " .. other)
]], function(out)
  t.ok(out:find "^start: cannot listen on 127.0.0.1:N: [^\n]*in use", out)
  t.eq(kit.lines(out)[2], "start: cannot listen on nowhere:1")
  t.eq(kit.lines(out)[3], "start: cannot listen on unix:/no/such/folder/s")
  t.eq(kit.lines(out)[4], "true")
end)

test("the error for an invalid configuration names the field", [[
  for _, conf in ipairs {
    7, {}, { port = "80" }, { port = 65536 }, { port = 1.5 }, { port = 0, adr = "x" }, { port = 0, addr = 1 },
    { port = 0, mode = "both" }, { port = 0, cgi = { "x" } }, { port = 0, route = { ["/x"] = 1 } },
    { port = 0, cgi = { ["/:id"] = "cgi" } }, { port = 0, cgi = { x = "cgi", ["/x/"] = "cgi" } },
    { port = 0, tunnel = 3 }, { port = 0, options = { boddy = 1 } }, { port = 0, cgi = { x = "wrong" } },
    { port = 0, cgi = { x = "nothing" } }, { port = 0, cgi = { x = "parts|no" } }, { port = 0, cgi = { x = "broken" } },
    { addr = "unix:" },
  } do
    say(why(web, "start", conf))
  end
  say(why(web, "start"))
]], function(out)
  local want = {
    "bad argument #1 to 'start' (table expected, got number)",
    "start: field 'port' is missing",
    "start: field 'port' must be an integer from 0 to 65535, got \"80\"",
    "start: field 'port' must be an integer from 0 to 65535, got 65536",
    "start: field 'port' must be an integer from 0 to 65535, got 1.5",
    "start: field 'adr' is unknown (did you mean 'addr'?)",
    "start: field 'addr' must be a string, got 1",
    "start: field 'mode' must be \"direct\" or \"redirect\", got \"both\"",
    "start: field 'cgi' must be a table of strings by path, as in { [\"/x\"] = ",
    "start: field 'route' must be a table of strings by path, as in { [\"/x\"] = ",
    "start: cgi['/:id']: a path without",
    "are for the same path",
    "start: field 'tunnel' needs mode = \"redirect\"",
    "start: field 'options': ",
    "start: cgi['x']: 'wrong' must be a table of functions, not a number",
    "start: cgi['x']: cannot load 'nothing': ",
    "start: cgi['x']: cannot load 'parts|no': module 'parts.no' not found, and 'parts' has no field 'no'",
    "start: cgi['x']: cannot load 'broken': ",
    "start: field 'addr' has no path after 'unix:'",
    "bad argument #1 to 'start' (table expected, got nil)",
  }
  local lines = kit.lines(out)
  for i, line in ipairs(want) do t.ok(lines[i] and lines[i]:find(line, 1, true), lines[i]) end
  t.eq(#lines, #want)
end)

test("quit answers the requests in progress, closes the listener, and ends the service", [[
  ltask.register "main"
  local _, port = ltask.call(web, "start", { port = 0, cgi = { x = "cgi" } })
  local client = ltask.spawn("client", port)
  function S.begun()
    ltask.wakeup "begun"
    repeat ltask.sleep(1) until get(port, "/x/1") == "refused"
  end
  ltask.fork(function()
    ltask.wait "begun"
    ltask.call(web, "quit")
    ltask.wakeup "quit"
  end)
  ltask.fork(function() ltask.wakeup("answer", ltask.call(client, "get", "/x/slow")) end)
  say(ltask.wait "answer" == "slow by " .. web)
  say(get(port, "/x/1"))
  gone(web)
  say((pcall(ltask.call, web, "start", {})))
]], { "true", "refused", "false" }, { services = {
  client = "local port = ...\n" .. before:gsub("local web = [^\n]*", "") .. [[
    return { get = function(path) return get(port, path) end }
  ]],
} })

test("quit may be sent before start", [[
  ltask.call(web, "quit")
  gone(web)
  say((pcall(ltask.call, web, "start", { port = 0 })))
]], { "false" })

t.finish()
