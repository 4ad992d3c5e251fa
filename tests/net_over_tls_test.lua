-- The suites of `lio.net` for connected pairs run again, with TLS on both ends of each pair: every call works on TLS as
-- on a plain socket. The list below has the tests that are about the socket itself.
-- The programs may use: net, loop

local netkit = require "tests.kit.net"
local t = require "tests.kit"
local tlskit = require "tests.kit.tls"

local SUITES <const> = { "net_recv", "net_send", "net_sendfile", "net_broadcast", "net_close" }

local LEFT_OUT <const> = {
  ["a reset is an error with a message, not the end of the stream"] =
    "close_notify arrives before the reset",
  ["if the reader stops reading, the timeout returns the number of sent bytes"] =
    "the time limit also applies to the shutdown, which sends what TLS holds back",
}

netkit.pair = function() return tlskit.pair() end

local test, finish <const> = t.test, t.finish
local used = {}

function t.test(name, f, opts)
  if LEFT_OUT[name] then
    used[name] = true
    return
  end
  test("with TLS: " .. name, f, opts)
end

t.finish = function() end

for _, suite in ipairs(SUITES) do assert(loadfile(t.root .. "tests/" .. suite .. "_test.lua"))() end

-- The programs of the suite of `net.transfer` create their pairs themselves.
local function transfer_suite()
  local dir = t.tmp()
  local cert, key = tlskit.write(dir, "site", tlskit.cert, tlskit.key)
  local ca = t.write(dir .. "/ca.pem", tlskit.authority.cert)
  local f <close> = assert(io.open(t.root .. "tests/net_transfer_test.lua"))
  local pair = ([[
    local l <close> = assert(net.listen("127.0.0.1", 0, { tls = { cert = %q, key = %q } }))
    local _, port = l:address()
    local token, accepted = {}, nil
    loop.fork(function() accepted = net.accept(l) loop.wakeup(token) end)
    local c = assert(net.connect("127.0.0.1", port, { tls = { ca = %q } }))
    if not accepted then loop.wait(token) end
    return c, assert(accepted)
  ]]):format(cert, key, ca)
  local from <const> = [[local l <close> = assert(net.listen("127.0.0.1", 0))
          local _, port = l:address()
          return assert(net.connect("127.0.0.1", port)), assert(net.accept(l))
]]
  local source = f:read "a"
  local at, past = source:find(from, 1, true)
  t.ok(at, "the text of pair()")
  return source:sub(1, at - 1) .. pair .. source:sub(past + 1)
end

assert(load(transfer_suite(), "@net_transfer_test.lua"))()

test("each test that is left out exists", function()
  for name in pairs(LEFT_OUT) do t.ok(used[name], name) end
end)

finish()
