-- Bytes that `net.remote` sends from the caller's own thread: their order relative to the bytes in requests, the
-- results of failures, and that they cause no work in the loop's service. Each test boots a system.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- `a` and `b` are the two ends of a connection. After the first send, `a` sends from the caller's thread.
local head <const> = ([[
  local io = ltask.spawn 'lio' local net = require 'lio.net'.remote(io)
  local function later(f, ...)
    local token, done = {}, nil
    ltask.fork(function(...)
      done = table.pack(f(...))
      ltask.wakeup(token)
    end, ...)
    return function()
      while not done do ltask.wait(token) end
      return table.unpack(done, 1, done.n)
    end
  end
  local l <close> = assert(net.listen("127.0.0.1", 0))
  local a = assert(net.connect("127.0.0.1", (select(2, l:address()))))
  local b = assert(net.accept(l))
  assert(a:send "!" and b:recv(1))
]]):gsub("\n", " ")

local function remotely(name, body, out, services)
  kit.test(name, { main = head .. body, out = out, services = services })
end

remotely("small messages cause no work in the loop's service", [[
  local function messages() return ltask.call(1, "stat")[io].messages end
  local before = messages()
  for i = 1, 30 do assert(a:send("message ", i, "\n")) end
  local after = messages()
  for i = 1, 30 do assert(b:recv "line" == "message " .. i) end
  say(after - before)
]], { "0" })

remotely("a task that sends in a loop lets other tasks run", [[
  local turns, over = 0, false
  ltask.fork(function()
    while not over do
      turns = turns + 1
      ltask.sleep(0)
    end
  end)
  local reader = later(b.recv, b, 20000)
  for _ = 1, 2000 do assert(a:send "0123456789") end
  over = true
  say(#reader(), turns > 10)
]], { "20000\ttrue" })

remotely("messages that the socket buffer cannot hold are sent later, in order and complete", [[
  local size = 3 * 1024 * 1024
  local waits = {}
  for i = 1, 4 do
    waits[i] = later(function()
      assert(a:send((("%d"):format(i)):rep(size), "\n"))
      return a:send(("%d again\n"):format(i))
    end)
  end
  local seen = {}
  for _ = 1, 8 do
    local line = assert(b:recv "line")
    local first = line:sub(1, 1)
    seen[first] = (seen[first] or 0) + 1
    if seen[first] == 1 then assert(line == first:rep(size)) else assert(line == first .. " again") end
  end
  for i = 1, 4 do assert(waits[i]() == true) end
  say "whole"
]], { "whole" })

remotely("a send that times out returns the number of sent bytes", [[
  a:timeout(nil, 0.05)
  local ok, message, sent, code = a:send(("x"):rep(30 * 1024 * 1024), "y")
  a:close()
  local rest = b:recv "all"
  say(ok, message, code, sent > 0, sent == #rest)
]], { "nil\ttimeout\ttimeout\ttrue\ttrue" })

remotely("send to a closed peer fails with the code reset or closed", [[
  a:send "unread"
  b:wait_readable(5)
  b:close()
  a:wait_closed(5)
  local ok, message, sent, code
  repeat ok, message, sent, code = a:send "x" until not ok
  say(ok, type(message), sent, code == "reset" or code == "closed")
  say((a:send "x"))
  a:close()
  say(a:send "x")
]], { "nil\tstring\t0\ttrue", "nil", "nil\tclosed\t0\tclosed" })

remotely("nothing is sent after a shutdown", [[
  local down = later(a.shutdown, a, "w")
  ltask.sleep(0)
  local ok, _, _, code = a:send "late"
  say(down(), ok, code)
  say(b:recv "all" == "")
]], { "true\tnil\tclosed", "true" })

remotely("sends of other tasks do not interrupt sendfile with a path", [[
  local dir = ...
  local path = dir .. "/big"
  local f = require "io".open(path, "wb")
  f:write(("f"):rep(4 * 1024 * 1024)) f:close()
  local sent = later(a.sendfile, a, path)
  ltask.sleep(0)
  local behind = later(function() return a:send "behind" end)
  assert(b:recv(4 * 1024 * 1024) == ("f"):rep(4 * 1024 * 1024))
  say(b:recv(6), sent() and true, behind())
  say(a:send "on", b:recv(2))
]], { "behind\ttrue\ttrue", "true\ton" })

remotely("a connection that was given to another service sends from that service", [[
  local other = ltask.spawn("other", io)
  local handle = assert(a:give(other))
  say((a:send "x"))
  say(ltask.call(other, "send", handle, "one ", "two"), b:recv(7))
  say(ltask.call(other, "send", handle, "three"), b:recv(5))
]], { "nil", "true\tone two", "true\tthree" }, { other = [[
  local net = require "lio.net.remote"(...)
  local S, known = {}, {}
  function S.send(handle, ...)
    known[handle] = known[handle] or net.connection(handle)
    return known[handle]:send(...)
  end
  return S
]] })

t.finish()
