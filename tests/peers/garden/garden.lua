--- The corpus of the garden for Lua: the cases of corpus.txt, and the app whose handler shows each request.
-- Used by tests/web_garden_test.lua and by tests/peers/garden/lio_server.lua.

local web = require "lio.webserver"

local garden = {}

--- The request that follows the bytes of each case.
garden.NEXT = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"

local ESCAPES <const> = { r = "\r", n = "\n", t = "\t", ["\\"] = "\\", ["{"] = "{" }

local function unescaped(text)
  return (text:gsub("\\(.)(%x?%x?)", function(kind, digits)
    if kind == "x" then return string.char(tonumber(digits, 16)) end
    return ESCAPES[kind] .. digits
  end))
end

--- Returns the bytes that a line of corpus.txt describes. README.md documents the escapes.
function garden.bytes(line)
  local pieces, at = {}, 1
  while at <= #line do
    local first = line:find("{", at, true)
    while first and line:sub(first - 1, first - 1) == "\\" do first = line:find("{", first + 1, true) end
    pieces[#pieces + 1] = unescaped(line:sub(at, (first or #line + 1) - 1))
    if not first then break end
    local count, behind = line:match("^(%d+)%*()", first + 1)
    local close = line:find("}", behind, true)
    pieces[#pieces + 1] = unescaped(line:sub(behind, close - 1)):rep(tonumber(count))
    at = close + 1
  end
  return table.concat(pieces)
end

--- Reads the corpus. Returns a list of tables: `class`, `name`, `bytes` (without `garden.NEXT`), and `want`, the
-- outcome in lio.
function garden.cases(path)
  local cases, class = {}, nil
  for line in io.lines(path) do
    local kind, text = line:match "^([#=><]) (.*)$"
    if kind == "#" then
      class = text
    elseif kind == "=" then
      cases[#cases + 1] = { class = class, name = text }
    elseif kind == ">" then
      cases[#cases].bytes = garden.bytes(text)
    elseif kind == "<" then
      cases[#cases].want = text
    end
  end
  return cases
end

--- Returns the readable form of a response: the status, and the body in brackets unless it is empty.
function garden.response_text(status, body)
  local shown = body:gsub("[\\%c\127-\255]", function(c) return ("\\x%02x"):format(c:byte()) end)
  return body == "" and tostring(status) or ("%d [%s]"):format(status, shown)
end

local function hex(bytes)
  if bytes == "" then return "-" end
  local shown = bytes:sub(1, 100):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  return #bytes > 100 and shown .. "+" .. #bytes or shown
end

--- Returns an app that responds to each request with the field X-Seen: the method, and in hexadecimal the target, the
-- host and the body, with `-` for an empty one. At most 100 bytes of each are shown; `+LENGTH` follows if it is longer.
-- `GET /ledger` returns these lines of all requests since the last call. A body that is not complete is `!`.
-- If `unread` is true, the handler responds without reading the body, which is shown as empty.
function garden.app(unread)
  local app, ledger = web.new(), {}
  local function show(req, res)
    local line = ("%s %s %s "):format(req.method, hex(req.target), hex(req.host or ""))
    ledger[#ledger + 1] = line .. "!"
    local at, body = #ledger, unread and "" or req:body()
    if not body then return end
    line = line .. hex(body)
    ledger[at] = line
    res:header("X-Seen", line)
    return "seen\n"
  end
  app:get("/ledger", function()
    local lines = table.concat(ledger, "\n")
    for i = #ledger, 1, -1 do ledger[i] = nil end
    return lines
  end)
  app:any("/", show)
  app:any("/*path", show)
  return app
end

return garden
