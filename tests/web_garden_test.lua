-- The corpus of the garden of servers: hundreds of requests, most of them ambiguous or malformed, each with the exact
-- outcome in lio. tests/long/garden.sh compares these outcomes with those of other servers.

local t = require "tests.kit"
local garden = require "tests.peers.garden.garden"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"

-- The number of connections at a time.
local AT_A_TIME <const> = 32
-- The timeout of a client, which no case reaches.
local SECONDS <const> = 60

local function bytes_of(hexed)
  return (hexed:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local NAMES <const> = { ["\r"] = "\\r", ["\n"] = "\\n", ["\t"] = "\\t", ["\\"] = "\\\\" }

local function escaped(bytes)
  return (bytes:gsub("[\\%c\127-\255]", function(c) return NAMES[c] or ("\\x%02x"):format(c:byte()) end))
end

-- The readable form of a part of X-Seen.
local function text_of(part)
  if part == "-" then return "" end
  local shown, length = part:match "^(%x+)%+?(%d*)$"
  local bytes = bytes_of(shown)
  if length == "" and #bytes <= 40 then return escaped(bytes) end
  return escaped(bytes:sub(1, 16)) .. ".." .. (length ~= "" and length or #bytes)
end

local function request_text(seen)
  local method, target, host, body = seen:match "^(%S+) (%S+) (%S+) (%S+)$"
  host = text_of(host)
  return method .. " " .. text_of(target) .. (host == "x" and "" or " @" .. host)
    .. (body == "-" and "" or " [" .. text_of(body) .. "]")
end

-- Describes the responses in the notation of tests/peers/garden/README.md.
local function outcome(received)
  local items, at, state = {}, 1, "waits"
  while at <= #received do
    local head, after = received:match("^(HTTP/1%.1 .-\r\n)\r\n()", at)
    if not head then return "malformed response: " .. received:sub(at, at + 100) end
    local status = head:match "^HTTP/1%.1 (%d%d%d) "
    at = after
    if status ~= "100" then
      local seen = head:match "\r\n[Xx]%-[Ss]een: ([^\r]*)"
      local length = tonumber(head:match "\r\n[Cc]ontent%-[Ll]ength: (%d+)\r\n") or 0
      -- The response to HEAD has no body; the response to a refused HEAD is the last one.
      if not (seen and seen:find "^HEAD ") then at = at + length end
      items[#items + 1] = seen and request_text(seen) or status
      state = head:lower():find("\r\nconnection: close\r\n", 1, true) and "close"
        or seen and seen:find "^GET 2f6e657874 " and "open" or "waits"
    end
  end
  items[#items + 1] = state
  return table.concat(items, ", ")
end

-- The client sends everything and ends its side. So a server that waits for more bytes closes the connection without a
-- further response, except for a body that is not complete.
local function exchange(port, bytes)
  local c <close> = assert(net.connect("127.0.0.1", port))
  net.timeout(c, SECONDS, SECONDS)
  c:send(bytes)
  c:shutdown "w"
  local received, message = c:recv "all"
  return received or "no end: " .. tostring(message)
end

-- Sends the bytes one by one; the server reads each of them before the next is sent. The server may refuse the request
-- before all bytes have been sent.
local function exchange_bytewise(port, bytes)
  local c <close> = assert(net.connect("127.0.0.1", port))
  net.timeout(c, SECONDS, SECONDS)
  local received, ended = {}, {}
  loop.fork(function()
    for data in function() return c:recv() end do received[#received + 1] = data end
    ended.done = true
    loop.wakeup(ended)
  end)
  for i = 1, #bytes do
    if not c:send(bytes:sub(i, i)) then break end
    loop.sleep(0)
  end
  c:shutdown "w"
  if not ended.done then loop.wait(ended) end
  return table.concat(received)
end

local AFTER_THE_END <const> = { ["length: longer than the body"] = "400, close" }

local cases = garden.cases(t.root .. "tests/peers/garden/corpus.txt")

-- Calls `send` for the cases that `selects` selects, and sets their field `got`. `unread`: whether the handler leaves
-- bodies unread.
local function run(send, selects, unread)
  http.with(garden.app(unread), function(_, server)
    local port = math.tointeger(tonumber(server.url:match ":(%d+)/$"))
    local at, running, done = 0, AT_A_TIME, {}
    local function work()
      while at < #cases do
        at = at + 1
        local case = cases[at]
        case.got = nil
        if selects(case) then
          local ok, result = pcall(send, port, case.bytes .. garden.NEXT)
          case.got = ok and outcome(result) or "failed: " .. tostring(result)
        end
      end
      running = running - 1
      if running == 0 then loop.wakeup(done) end
    end
    for _ = 1, AT_A_TIME do loop.fork(work) end
    loop.wait(done)
  end)
end

local function wanted(case)
  return AFTER_THE_END[case.name] or case.want
end

t.test("the corpus has at least 800 cases, with different names", function()
  t.ok(#cases >= 800, #cases)
  local names = {}
  for _, case in ipairs(cases) do
    t.is_nil(names[case.name], case.name)
    names[case.name] = true
  end
  run(exchange, function() return true end)
end)

local classes, order = {}, {}
for _, case in ipairs(cases) do
  if not classes[case.class] then
    classes[case.class] = {}
    order[#order + 1] = case.class
  end
  table.insert(classes[case.class], case)
end
for _, class in ipairs(order) do
  t.test("outcomes of the class " .. class, function()
    for _, case in ipairs(classes[class]) do t.eq(case.got, wanted(case), case.name) end
  end)
end

t.test("the outcomes are the same if the bytes arrive one by one", function()
  -- Memcheck is too slow for this.
  local longest = os.getenv "LIO_MEMCHECK" and 0 or 500
  run(exchange_bytewise, function(case) return #case.bytes <= longest end)
  for _, case in ipairs(cases) do
    if case.got then t.eq(case.got, wanted(case), case.name) end
  end
end)

-- The requests of an outcome, without their bodies; its last word; and whether it has a refusal.
local function requests_of(text)
  local list, refused = {}, false
  text = text:gsub(" %b[]", "")
  for item in text:gmatch "[^,]+" do
    if item:find "^ *%d%d%d$" then refused = true else list[#list + 1] = item:match "^ *(.*)$" end
  end
  return list, table.remove(list), refused
end

t.test("the same requests are read if the handler does not read bodies", function()
  run(exchange, function() return true end, true)
  for _, case in ipairs(cases) do
    local want, want_state, refused = requests_of(wanted(case))
    local got, got_state = requests_of(case.got)
    -- The response precedes the fault in a body, which then ends the connection.
    if refused and #got == #want + 1 then
      t.ok(got_state ~= "open", case.name)
      got[#got] = nil
    elseif not refused then
      t.eq(got_state, want_state, case.name)
    end
    t.eq(got, want, case.name)
  end
end)

t.finish()
