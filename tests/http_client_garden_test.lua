-- The responses of tests/peers/garden/responses.txt, most of them ambiguous or malformed, each with the exact outcome
-- in lio.http.client: the response or an error, and whether the connection is used again. The next request must get its
-- own response. tests/long/garden.sh compares the outcomes with those of other clients.

local t = require "tests.kit"
local client = require "lio.http.client"
local garden = require "tests.peers.garden.garden"
local netkit = require "tests.kit.net"
local scripted = require "tests.kit.scripted_server"

local cases = garden.cases(t.root .. "tests/peers/garden/responses.txt")

-- Responds to /case/N with the bytes of the case, and to /next with "next NUMBER", the number of the connection.
local function handle(c, number)
  while true do
    local head = scripted.read_request(c)
    if not head then return end
    local at = tonumber(head:match "^GET /case/(%d+) ")
    c:send(at and cases[at].bytes or scripted.ok("next " .. number))
    if at then cases[at].number = number end
    if at and cases[at].name:find "^end: " then return end
  end
end

local function outcome(http, url, at)
  local response = http:get(url .. "/case/" .. at)
  local text = response and garden.response_text(response.status, response.body) or "error"
  local after = assert(http:get(url .. "/next"))
  local number = after.body:match "^next (%d+)$"
  if not number then return text .. ", then " .. after.body end
  return text .. (tonumber(number) == cases[at].number and ", reused" or ", new")
end

netkit.test("each response has the outcome of the corpus", function()
  scripted.serving(handle, function(url)
    for at, case in ipairs(cases) do
      local http <close> = client.new { read_timeout = 5 }
      case.got = outcome(http, url, at)
    end
  end)
end)

t.ok(#cases > 100, #cases)
local done = {}
for _, case in ipairs(cases) do
  if not done[case.class] then
    done[case.class] = true
    t.test("outcomes of the class " .. case.class, function()
      for _, other in ipairs(cases) do
        if other.class == case.class then t.eq(other.got, other.want, other.name) end
      end
    end)
  end
end

t.finish()
