-- A server under the load of 64 connections gets SIGTERM, in 20 rounds with different delays. Every request whose bytes
-- have arrived must get its complete response, and the process must end within its grace period with exit code 0. Some
-- requests have bodies, some responses are sent in pieces, and some handlers wait. One to three requests are pipelined.
-- Takes at most 120 s.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local lio = require "lio"
local loop = require "lio.loop"

local CONNECTIONS <const>, ROUNDS <const>, GRACE <const> = 64, 20, 5
local BODY <const> = ("0123456789"):rep(5000)

-- The requests, and the bodies of their responses.
local KINDS <const> = {
  { "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "Hello, World!\n" },
  { "GET /slow?seconds=0.05 HTTP/1.1\r\nHost: x\r\n\r\n", "late\n" },
  { "GET /pieces?count=5&size=1000&wait=0.005 HTTP/1.1\r\nHost: x\r\n\r\n", ("x"):rep(5000) },
  { "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: " .. #BODY .. "\r\n\r\n" .. BODY, BODY },
  { "GET /large?kib=64 HTTP/1.1\r\nHost: x\r\n\r\n", ("0123456789abcdef"):rep(4096) },
}

-- Sends requests until the server closes the connection. Counts requests in `member.sent` and responses in
-- `member.answered`.
local function ask_on(member, state)
  local client <close> = http.open(state.port)
  while not state.stopped do
    local kinds, bytes = {}, {}
    for i = 1, math.random(3) do
      kinds[i] = KINDS[math.random(#KINDS)]
      bytes[i] = kinds[i][1]
    end
    if not client.c:send(table.concat(bytes)) then return end
    member.sent = member.sent + #kinds
    for _, kind in ipairs(kinds) do
      local ok, answer = pcall(client.response, client)
      if not ok then
        member.why = answer
        return
      end
      t.eq(answer.body, kind[2])
      member.answered = member.answered + 1
    end
  end
end

local function one_round(seconds)
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(t.root .. "tests/peers/server.lua"))
  local state = { port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$")) }
  local members, running, told = {}, CONNECTIONS, nil
  loop.run(function()
    for i = 1, CONNECTIONS do
      local member = { sent = 0, answered = 0 }
      members[i] = member
      loop.fork(function()
        local ok, problem = pcall(ask_on, member, state)
        if not ok then member.broken = problem end
        running = running - 1
      end)
    end
    loop.sleep(seconds)
    -- No task waits between a send and its count, so the bytes of all counted requests are in the socket buffers.
    for _, member in ipairs(members) do member.due = member.sent end
    told = lio.now()
    child:kill()
    state.stopped = true
    while running > 0 do loop.sleep(0.005) end
  end)
  child:all()
  local code = child:close()
  local total = 0
  for i, member in ipairs(members) do
    t.is_nil(member.broken, "connection " .. i)
    t.ok(member.answered >= member.due,
      ("connection %d: %d of %d requests answered (%s)"):format(i, member.answered, member.due, tostring(member.why)))
    total = total + member.answered
  end
  t.eq(code, 0, "exit code")
  local took = lio.now() - told
  t.ok(took < GRACE + 1, "the server took " .. took .. " s to end")
  return total, took
end

math.randomseed(math.tointeger(tonumber(arg[1] or 5)))
for round = 1, ROUNDS do
  t.test("round " .. round .. ": a stop under load loses no response", function()
    local total, took = one_round(0.1 + round * 0.013)
    print(("round %d: %d answers, ended %.0f ms after the signal"):format(round, total, took * 1000))
  end)
end

t.finish()
