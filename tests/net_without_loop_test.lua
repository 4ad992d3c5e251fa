-- In a service that owns no loop, calls of `lio.net`, `lio.loop`, `lio.http.client` and `lio.webserver` that would wait
-- for the loop raise at once, with the program's line. Regression: these calls never returned.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The calls are on separate lines, whose numbers are compared with the line numbers of the errors.
local calls <const> = {
  { "net.listen", "net.listen('127.0.0.1', 0)", "net.remote(io)" },
  { "net.connect", "net.connect('127.0.0.1', 1)", "net.remote(io)" },
  { "net.accept", "net.accept(nil)", "net.remote(io)" },
  { "net.udp", "net.udp('127.0.0.1', 0)", "net.remote(io)" },
  { "net.resolve", "net.resolve('localhost')", "net.remote(io)" },
  { "net.serve", "net.serve(nil, print)", "net.remote(io)" },
  { "net.wrap", "net.wrap(assert(require 'lio.socket'.pair()))" },
  { "net.connect", "loop.net.connect('127.0.0.1', 1)", "net.remote(io)" },
  { "net.listen", "net.instance.listen('127.0.0.1', 0)", "net.remote(io)" },
  { "loop.sleep", "loop.sleep(0.01)", "ltask.sleep(centiseconds)" },
  { "loop.sleep", "loop.sleep(0)", "ltask.sleep(centiseconds)" },
  { "loop.timeout", "loop.timeout(0.01, print)", "ltask.timeout(centiseconds, f)" },
  { "loop.signal", "loop.signal('SIGHUP', print)" },
  { "loop.run", "loop.run(print)" },
  { "http.client: GET request", "http.get 'http://127.0.0.1:1/'" },
  { "http.client: POST request", "http.post('http://127.0.0.1:1/', { body = 'x' })" },
  { "http.client: PUT request", "http.request { method = 'PUT', url = 'http://127.0.0.1:1/' }" },
  { "http.client: GET request", "http.new():get 'http://127.0.0.1:1/'" },
  { "app:listen", "web.new():listen(0)" },
  { "app:server", "web.new():server()" },
  { "app:run", "web.new():run(0)" },
  { "app:run", "web.new():run(0, { workers = 2 })" },
}

-- A service that makes all calls, one per line from line 2, and writes their errors.
-- The programs may use: net, loop, http, web, try
local source = {
  "local net, loop, http, web = require 'lio.net', require 'lio.loop', require 'lio.http.client', "
    .. "require 'lio.webserver' local function try(f, ...) say(select(2, pcall(f, ...))) end",
}
for _, one in ipairs(calls) do source[#source + 1] = "try(function() local _ = " .. one[2] .. " end)" end
source[#source + 1] = "say 'end'"
local caller <const> = table.concat(source, "\n")

local function judge(out)
  local lines = kit.lines(out)
  t.eq(#lines, #calls + 1, out)
  for i, one in ipairs(calls) do
    local line = lines[i]
    local begin = ("caller.lua:%d: %s: this service owns no loop, "):format(i + 1, one[1])
    t.ok(line:find(begin, 1, true), one[2] .. ": " .. line)
    t.ok(line:find("`lio --service script.lua`, or the service 'lio'", 1, true), line)
    t.ok(not one[3] or line:find(one[3], 1, true), line)
  end
  t.eq(lines[#lines], "end")
end

kit.test("every call that waits raises at once, in a service's file", {
  config = { bootstrap = { { name = "caller" } } },
  services = { caller = caller },
  out = judge,
})

kit.test("every call that waits raises at once, in a task and in an exclusive service", {
  config = { bootstrap = { { name = "timer" } }, exclusive = { "caller" } },
  services = { caller = "ltask.fork(function() " .. caller .. " ltask.send(1, 'quit_ltask') end)" },
  out = judge,
})

kit.test("if another service owns a loop, the calls still raise, and net.remote works", {
  config = { bootstrap = { { name = "lio", unique = true }, { name = "main" } } },
  main = [[
    local net, loop = require "lio.net", require "lio.loop"
    say(select(2, pcall(net.connect, "127.0.0.1", 1)):match "net%.connect:[^:]*")
    local there = net.remote(ltask.queryservice "lio")
    local listener = assert(there.listen("127.0.0.1", 0))
    local _, port = listener:address()
    ltask.fork(function()
      local c = assert(there.accept(listener))
      c:send("hello " .. c:recv "line" .. "\n")
      c:close()
    end)
    local c = assert(there.connect("127.0.0.1", port))
    c:send "you\n"
    say(c:recv "line")
    c:close()
    listener:close()
    say(loop.drives(), (require "lio.thread".timeout(0.01, ltask.wait, "nobody")))
  ]],
  out = { "net.connect: this service owns no loop, so neither I/O nor a timer of lio.loop can wake its tasks; "
    .. "use net.remote(io), which sends requests to a service that owns a loop, or run this in a service that owns a "
    .. "loop",
    "hello you", "false\tnil" },
})

kit.test("a service may have its own driver on an event descriptor", {
  services = { owner = [[
    local lio, net = require "lio", require "lio.net"
    local selector = assert(lio.create())
    local driver = require "lio.net.driver".new(selector, {
      wait = ltask.wait, wakeup = ltask.wakeup, fork = ltask.fork, running = ltask.running,
    })
    net.use(driver.net)
    local take, descriptor = ltask.eventinit()
    driver:watch(descriptor, take)
    ltask.idle_handler(function() driver:step() end)
    local S = {}
    function S.echo()
      local http = require "lio.http.client"
      local listener = assert(net.listen("127.0.0.1", 0))
      local _, port = listener:address()
      ltask.fork(function()
        local c = assert(net.accept(listener))
        c:recv("until", "\r\n\r\n")
        c:send "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        c:close()
      end)
      local answer = assert(http.get("http://127.0.0.1:" .. port .. "/"))
      listener:close()
      return answer.body
    end
    return S
  ]] },
  main = "say(ltask.call(ltask.spawn 'owner', 'echo'))",
  out = { "ok" },
})

t.finish()
