-- `lio.net` through requests with integer handles: how the service `lio` answers services without a loop. It is tested
-- as both kinds of service that can own a loop. Each test boots a system in its own process.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- A client that uses only integer handles.
local user <const> = [[
  local S = {}
  function S.call(io, name, ...) return ltask.call(io, name, ...) end
  function S.wait_in(io, name, ...)
    ltask.fork(function(...) S.result = table.pack(ltask.call(io, name, ...)) end, ...)
    ltask.sleep(0)
  end
  function S.stop() ltask.quit() end
  return S
]]

local head <const> = [[
  local function pair()
    local l = assert(ltask.call(io, "listen", "127.0.0.1", 0))
    local _, port = ltask.call(io, "sock", l)
    local a = assert(ltask.call(io, "connect", "127.0.0.1", port))
    local b = assert(ltask.call(io, "accept", l))
    return a, b, l, port
  end
  local function descriptors()
    local count = 0
    for fd = 0, 4095 do
      local f = require "io".open("/proc/self/fdinfo/" .. fd)
      if f then count = count + 1 f:close() end
    end
    return count
  end
  local function eventually(f)
    local deadline = ltask.counter() + 10
    repeat
      local value = f()
      if value then return value end
      ltask.sleep(1)
    until ltask.counter() > deadline
    return "never"
  end
]]

-- The programs may use: io
local hosts <const> = {
  ["a service with an event descriptor"] = { find = "local io = ltask.spawn 'lio' " },
  ["an exclusive service"] = { find = "local io = ltask.queryservice 'lio' ", exclusive = { "lio" } },
}

local function both(name, main, out)
  for host, how in pairs(hosts) do
    kit.test(name .. ", with " .. host, {
      services = { user = user },
      main = how.find .. head:gsub("\n", " ") .. main,
      config = { exclusive = how.exclusive },
      out = out,
    })
  end
end

both("requests with handles have the same results as the calls of lio.net", [[
  local a, b, l, port = pair()
  say(math.type(a), a ~= b and b ~= l)
  say(ltask.call(io, "send", a, "hello ", "you\nrest"))
  say(ltask.call(io, "recv", b, "line"))
  say(ltask.call(io, "recv", b, 4))
  say(ltask.call(io, "peer", a) == "127.0.0.1", select(2, ltask.call(io, "peer", a)) == port)
  say(select(2, ltask.call(io, "sock", b)) == port)
  say(ltask.call(io, "option", a, "nodelay"))
  say(ltask.call(io, "timeout", b, 0.01))
  say(ltask.call(io, "recv", b))
  ltask.call(io, "timeout", b)
  say(ltask.call(io, "shutdown", a, "w"))
  say(ltask.call(io, "recv", b))
  say(ltask.call(io, "recv", b, 3))
  say(ltask.call(io, "close", a))
  say(ltask.call(io, "connect", "127.0.0.1", 1))
]], function(out)
  t.eq(kit.lines((out:gsub("connect:[^\t\n]*", "connect: x"))), {
    "integer\ttrue", "true", "hello you", "rest", "true\ttrue", "true", "true", "true",
    "nil\ttimeout\tnil\ttimeout", "true", "nil", "nil\tclosed\t\tclosed", "true", "false\tconnect: x\trefused",
  })
end)

both("requests that wait do not delay other requests", [[
  local a, b, l = pair()
  local got = 0
  for n, handle in ipairs { a, b } do
    ltask.fork(function()
      say(n, ltask.call(io, "recv", handle))
      got = got + 1
    end)
  end
  ltask.fork(function() say(ltask.call(io, "accept", l)) got = got + 1 end)
  ltask.sleep(0)
  local c, d = pair() -- answered while the three requests above wait
  ltask.call(io, "send", c, "meanwhile")
  say(ltask.call(io, "recv", d))
  ltask.call(io, "send", b, "for a")
  eventually(function() return got == 1 end)
  ltask.call(io, "send", a, "for b")
  eventually(function() return got == 2 end)
  ltask.call(io, "close", l)
  eventually(function() return got == 3 end)
]], { "meanwhile", "1\tfor a", "2\tfor b", "false\tclosed\tclosed" })

both("calls with a closed handle, or a handle of another service, fail with a message and a code", [[
  local a, _, l = pair()
  local other = ltask.spawn "user"
  local function theirs(...) return ltask.call(other, "call", io, ...) end
  say(theirs("recv", a))
  say(theirs("send", a, "x"))
  say(theirs("close", a))
  say(theirs("option", a, "nodelay"))
  say(theirs("close", l))
  say(ltask.call(io, "close", a), ltask.call(io, "close", a))
  say(ltask.call(io, "recv", a))
  say(ltask.call(io, "send", a, "x"))
  say(ltask.call(io, "peer", a))
  ltask.call(io, "close", l)
  say(ltask.call(io, "accept", l))
  say(ltask.call(io, "recv", 123456789))
]], {
  "nil\trecv: the handle belongs to another service\tnil\tdenied",
  "nil\tsend: the handle belongs to another service\t0\tdenied",
  "nil\tclose: the handle belongs to another service\tdenied",
  "nil\toption: the handle belongs to another service\tdenied",
  "nil\tclose: the handle belongs to another service\tdenied",
  "true\ttrue", "nil\tclosed\tnil\tclosed", "nil\tclosed\t0\tclosed", "nil\tclosed\tclosed",
  "false\tclosed\tclosed", "nil\tclosed\tnil\tclosed",
})

both("misuse raises an error in the caller that names the call and the argument", [[
  local a, b, l = pair()
  local function wrong(...)
    local ok, e = pcall(ltask.call, io, ...)
    say(ok, (e.message:gsub("^[^:]*:%d+: ", "")))
  end
  wrong("recv", "x")
  wrong("recv", l)
  wrong("accept", a)
  wrong("recv", a, -1)
  wrong("send", a, {})
  wrong("listen", 7, 8)
  wrong("connect", "127.0.0.1")
  wrong("shutdown", a, "x")
  wrong("transfer", a, "x")
  say(ltask.call(io, "send", a, "still there"), ltask.call(io, "recv", b))
]], {
  "false\tbad argument #1 to 'recv' (connection expected, got string)",
  "false\tbad argument #1 to 'recv' (connection expected, got listener)",
  "false\tbad argument #1 to 'accept' (listener expected, got connection)",
  "false\tbad argument #2 to 'recv' (size must be 0 to 4611686018427387903, not -1)",
  "false\tbad argument #2 to 'send' (string expected, got table)",
  "false\tbad argument #1 to 'listen' (address expected, got number)",
  "false\tbad argument #2 to 'connect' (port expected, got nil)",
  "false\tbad argument #2 to 'shutdown' ('r', 'w' or 'rw' expected)",
  "false\tbad argument #2 to 'transfer' (service expected, got string)",
  "true\tstill there",
})

both("any service may accept from a listener, and owns the connections that it accepts", [[
  local l = assert(ltask.call(io, "listen", "127.0.0.1", 0))
  local _, port = ltask.call(io, "sock", l)
  local other = ltask.spawn "user"
  local a = ltask.call(io, "connect", "127.0.0.1", port)
  local b = ltask.call(other, "call", io, "accept", l)
  ltask.call(io, "send", a, "for the other")
  say(select(4, ltask.call(io, "recv", b)))
  say(ltask.call(other, "call", io, "recv", b))
  say(ltask.call(other, "call", io, "give", b, ltask.self()))
  say(select(4, ltask.call(other, "call", io, "recv", b)))
  ltask.call(io, "send", a, "for me")
  say(ltask.call(io, "recv", b))
  -- After `give` the former owner no longer owns the handle, so the end of that owner does not close the handle.
  ltask.call(other, "call", io, "connect", "127.0.0.1", port)
  local its = ltask.call(io, "accept", l)
  ltask.kill(other)
  say(ltask.call(io, "recv", its))
  ltask.call(io, "send", a, "still")
  say(ltask.call(io, "recv", b))
]], { "denied", "for the other", "true", "denied", "for me", "nil", "still" })

-- The ways in which a service can end, each with the call that causes it.
for how, stop in pairs {
  ["is killed"] = "ltask.kill(other)",
  ["quits"] = "ltask.send(other, 'stop')",
} do
  both("the handles of a service are closed when it " .. how .. " while its requests wait", [[
    local l = assert(ltask.call(io, "listen", "127.0.0.1", 0))
    local _, port = ltask.call(io, "sock", l)
    local other = ltask.spawn "user"
    local before = descriptors()
    local theirs = assert(ltask.call(other, "call", io, "connect", "127.0.0.1", port))
    local mine = assert(ltask.call(io, "accept", l))
    local listener = assert(ltask.call(other, "call", io, "listen", "127.0.0.1", 0))
    local _, its_port = ltask.call(io, "sock", listener)
    ltask.call(other, "wait_in", io, "recv", theirs)
    ltask.call(other, "wait_in", io, "accept", listener)
    ltask.call(other, "wait_in", io, "accept", l)
    ltask.call(other, "wait_in", io, "udp", "127.0.0.1", 0)
    ltask.call(io, "sock", l) -- answered when the four requests above are waiting
    ]] .. stop .. [[

    say(ltask.call(io, "recv", mine))
    say((select(3, ltask.call(io, "connect", "127.0.0.1", its_port))))
    ltask.call(io, "close", mine)
    say(eventually(function() return descriptors() == before end))
    -- The next accept request gets the next connection: the request of the ended service is not served.
    local again = ltask.call(io, "connect", "127.0.0.1", port)
    local b = ltask.call(io, "accept", l)
    ltask.call(io, "send", again, "here")
    say(ltask.call(io, "recv", b))
  ]], { "nil", "refused", "true", "here" })
end

both("if a service with a thousand handles is killed, all of them are closed", [[
  local other = ltask.spawn "user"
  local l = assert(ltask.call(io, "listen", "127.0.0.1", 0, { backlog = 2000 }))
  local _, port = ltask.call(io, "sock", l)
  local before = descriptors()
  for _ = 1, 500 do
    assert(ltask.call(other, "call", io, "udp", "127.0.0.1", 0))
    assert(ltask.call(other, "call", io, "connect", "127.0.0.1", port))
  end
  say(descriptors() - before)
  ltask.kill(other)
  say(eventually(function() return descriptors() == before end))
  local one = assert(ltask.call(io, "udp", "127.0.0.1", 0))
  say(one > 1000)
]], { "1000", "true", "true" })

both("a connect ends when the service that requested it ends", [[
  local other = ltask.spawn "user"
  local l = ltask.call(io, "listen", "127.0.0.1", 0, { backlog = 0 })
  local _, port = ltask.call(io, "sock", l)
  -- More connections than the backlog takes, so further connects wait, as with a host that drops packets.
  local fillers = {}
  for i = 1, 8 do
    fillers[i] = assert(require "lio.socket".create "tcp")
    fillers[i]:connect("127.0.0.1", port)
  end
  local before = descriptors()
  ltask.call(other, "wait_in", io, "connect", "127.0.0.1", port, { timeout = 60 })
  ltask.call(io, "sock", l) -- answered when the connect above is waiting
  say(descriptors() - before)
  ltask.kill(other)
  say(eventually(function() return descriptors() == before end))
]], { "1", "true" })

both("a service with a script answers requests, and ends when the script's tasks have ended", [[
  local dir = ...
  local f = require "io".open(dir .. "/script.lua", "w")
  f:write [=[
    local loop, net = require "lio.loop", require "lio.net"
    loop.run(function()
      local listener = assert(net.listen("127.0.0.1", 0))
      local ltask = require "ltask"
      ltask.dispatch { port = function() return select(2, listener:address()) end }
      local c = net.accept(listener)
      c:send(c:recv "line", "!")
      c:close()
    end)
  ]=]
  f:close()
  local server = ltask.spawn("lio", dir .. "/script.lua")
  local port = eventually(function()
    local ok, port = pcall(ltask.call, server, "port")
    return ok and port
  end)
  assert(ltask.call(server, "udp", "127.0.0.1", 0))
  local a = assert(ltask.call(io, "connect", "127.0.0.1", port))
  ltask.call(io, "send", a, "hi\n")
  say(ltask.call(io, "recv", a))
  say(eventually(function() return not pcall(ltask.call, server, "recv", 1) end))
]], { "hi!", "true" })

t.finish()
