-- lio's client for responses.py: `lio client_lio.lua URL COUNT` requests /case/N and then /next/N for each case, and
-- prints the outcomes.

local client = require "lio.http.client"
local garden = require "tests.peers.garden.garden"
local loop = require "lio.loop"

local url, count = ...

loop.run(function()
  for at = 0, count - 1 do
    local http <close> = client.new { read_timeout = 1 }
    local first = http:get(url .. "/case/" .. at)
    local second = http:get(url .. "/next/" .. at)
    print(("%d\t%s\t%s"):format(at, first and garden.response_text(first.status, first.body) or "error",
      second and second.body or "error"))
  end
end)
