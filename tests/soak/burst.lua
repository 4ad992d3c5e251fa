-- A burst: many connections that each upload a body at the same time. The server has to hold all of them in memory,
-- because each body lacks its last byte until `release` is called. Used by client.lua.

local content = require "content"
local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"

local M = {}

local SECONDS <const> = 60
local held = {} -- { connection, id, body }

-- Calls f(i) for 1 to `count` in a task each; returns the number of calls that raised, and one message, when all ended.
local function each(count, f)
  local left, failed, message = count, 0, nil
  for i = 1, count do
    loop.fork(function()
      local ok, problem = pcall(f, i)
      if not ok then failed, message = failed + 1, problem end
      left = left - 1
    end)
  end
  while left > 0 do loop.sleep(0.05) end
  return failed, message
end

--- Opens `order.connections` connections, and sends all except the last byte of a body of `order.size` bytes on each.
-- All bodies are the same, so no connection waits for its request until the server closes it.
function M.hold(host, port, name, order)
  local body = content.of(name, order.size)
  local digest = content.digest(body)
  local failed, message = each(order.connections, function(i)
    local id = ("%s-burst-%d"):format(name, i)
    local c = assert(net.connect(host, port, { timeout = SECONDS }))
    c:timeout(SECONDS, SECONDS)
    held[#held + 1] = { c = c, id = id, last = body:sub(-1), digest = digest }
    local head = "POST /digest/%s HTTP/1.1\r\nHost: soak\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    assert(c:send(head:format(id, #body), body:sub(1, -2)))
  end)
  return { held = #held - failed, message = message }
end

--- Sends the last bytes, checks the answers, and closes the connections. Calls `fail(kind, id, detail)` for each
-- failure. Returns the number of right answers.
function M.release(fail)
  local right = 0
  each(#held, function(i)
    local one = held[i]
    local ok, problem = pcall(function()
      local c <close> = one.c
      assert(c:send(one.last))
      local text = assert(c:recv("until", "\r\n\r\n", 4096))
      local length = math.tointeger(text:match "[Cc]ontent%-[Ll]ength: (%d+)")
      local answer = json.decode(assert(c:recv(length)))
      assert(answer.id == one.id and answer.digest == one.digest, "another answer")
      assert(not c:recv(), "bytes after the answer")
    end)
    if ok then right = right + 1 else fail("burst", one.id, problem) end
  end)
  held = {}
  return right
end

return M
