-- The suites of `lio.net` for connected pairs run again, with TLS on both ends of each pair: every call works on TLS as
-- on a plain socket. The list below has the tests that are about the socket itself.

local netkit = require "tests.kit.net"
local t = require "tests.kit"
local tlskit = require "tests.kit.tls"

local SUITES <const> = { "net_recv", "net_send", "net_sendfile", "net_broadcast", "net_close" }

local LEFT_OUT <const> = {
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

test("each test that is left out exists", function()
  for name in pairs(LEFT_OUT) do t.ok(used[name], name) end
end)

finish()
