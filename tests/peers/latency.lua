-- Sends requests for `/` to a server every few milliseconds while another load runs, and reports their latencies:
-- lio tests/peers/latency.lua PORT SECONDS [tls]. Every fourth request has its own connection; the others share one.
-- With `tls`, the connections are encrypted, and the certificate is not verified. Called by tests/long/slow_clients.sh
-- and slow_handshakes.sh. Prints one line: requests, failures, and p50, p99 and longest in milliseconds.

local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local tls = require "lio.tls"

local port, seconds = math.tointeger(tonumber(arg[1])), tonumber(arg[2])
local PAUSE <const> = 0.004
local REQUEST <const> = "GET / HTTP/1.1\r\nHost: latency\r\n\r\n"
local client <const> = arg[3] == "tls" and assert(tls.client { dangerously_skip_verification = true }) or nil

local function ask(c)
  if not c:send(REQUEST) then return false end
  local head = c:recv("until", "\r\n\r\n", 4096)
  return head and head:find "^HTTP/1.1 200" and c:recv(14) == "Hello, World!\n"
end

local function open()
  local c = net.connect("127.0.0.1", port, { timeout = 10, tls = client })
  if c then c:timeout(10, 10) end
  return c
end

-- Measures one request on `kept`, or on a new connection. The time to open this connection is included.
local function measure(kept)
  local began = lio.now()
  local c = kept or open()
  local ok = c and ask(c)
  local took = lio.now() - began
  if c and not kept then c:close() end
  return ok, took
end

loop.run(function()
  local times, failures = {}, 0
  local kept = open()
  local deadline = lio.now() + seconds
  for count = 1, math.huge do
    if lio.now() >= deadline then break end
    local ok, took = measure(count % 4 ~= 0 and kept or nil)
    if not ok then failures = failures + 1 end
    times[#times + 1] = took * 1000
    loop.sleep(PAUSE)
  end
  kept:close()
  table.sort(times)
  local function rank(part) return times[math.max(1, math.ceil(#times * part))] end
  print(("%d requests, %d failed, p50 %.2f ms, p99 %.2f ms, longest %.2f ms"):format(
    #times, failures, rank(0.5), rank(0.99), times[#times]))
end)
