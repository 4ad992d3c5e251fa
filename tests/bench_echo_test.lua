-- The Lua programs of the benchmark suites net, selector and micro: they do the measured work and print their results.
-- The programs in Rust have separate tests, which `cargo test` runs.

local t = require "tests.kit"
local loop = require "lio.loop"
local net = require "lio.net"

local bench = t.root .. "bench/"

local function script(path, ...)
  return table.concat({ t.lio(), t.quote(bench .. path), ... }, " ")
end

-- Runs a program. Returns a table that maps the names of the printed results to their values.
local function figures(command)
  local result = t.run(command)
  t.eq(result.code, 0, command .. ": " .. result.err)
  local list = {}
  for name, value in result.out:gmatch "(%w+)\t([%d.e+-]+)\n" do list[name] = tonumber(value) end
  return list
end

local function echo_server()
  local server = t.spawn(script("echo/selector.lua", "0"))
  server.port = tonumber((server:expect "^listening on 127%.0%.0%.1:(%d+)"))
  return server
end

t.test("the echo server of the selector suite answers several connections in turn", function()
  local server <close> = echo_server()
  loop.run(function()
    local one <close> = t.ok(net.connect("127.0.0.1", server.port))
    local other <close> = t.ok(net.connect("127.0.0.1", server.port))
    for i = 1, 20 do
      for _, c in ipairs { one, other } do
        local data = ("%02d"):format(i):rep(32)
        t.ok(c:send(data))
        t.eq(c:recv(#data), data)
      end
    end
  end)
end, { leaks = true })

t.test("the echo server of the selector suite buffers unread data of a client, and serves other clients", function()
  local server <close> = echo_server()
  local data = ("0123456789abcdef"):rep(1 << 21) -- more than the socket buffers hold
  loop.run(function()
    local slow <close> = t.ok(net.connect("127.0.0.1", server.port))
    local sent = false
    loop.fork(function() sent = slow:send(data) end)
    for _ = 1, 100 do
      local c <close> = t.ok(net.connect("127.0.0.1", server.port))
      t.ok(c:send "x")
      t.eq(c:recv(1), "x")
    end
    t.eq(sent, false, "all was sent although the client does not read")
    t.ok(slow:recv(#data) == data, "other bytes came back")
    t.eq(sent, true)
  end)
end)

t.test("the selector suite counts rounds, with sockets and with bare descriptors", function()
  for _, words in ipairs { "2 1 0.02", "10 10 0.02", "100 10 0.02", "100 10 0.02 foreign" } do
    local seen = figures(script("selector/round.lua", words))
    t.ok(seen.rounds and seen.rounds >= 100 and seen.rate > 0 and seen.each > 0, words .. ": too few rounds")
  end
end)

t.test("every case of the micro suite runs", function()
  local cases = dofile(bench .. "micro/cases.lua")
  t.ok(#cases > 0)
  for _, one in ipairs(cases) do
    local result = t.run(script("micro/child.lua", one.name, "times=300"))
    t.eq({ result.code, result.out, result.err }, { 0, "", "" }, one.name)
  end
end)

t.test("a case of the micro suite prints the nanoseconds of a call", function()
  local seen = figures(script("micro/child.lua", "selector.now", "seconds=0.02"))
  t.ok(seen.each > 0 and seen.each < 1e6, "the clock is read in less than a millisecond")
end)

t.finish()
