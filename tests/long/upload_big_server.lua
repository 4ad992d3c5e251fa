-- The server of upload_big.lua: counts and hashes the bytes that it receives, and reports its memory and CPU time.

local web = require "lio.webserver"

local app = web.new { body = 2 ^ 40 }

-- Returns the value `name` of `/proc/self/status`, in KiB.
local function status(name)
  local f <close> = assert(io.open "/proc/self/status")
  return tonumber(f:read "a":match(name .. ":%s*(%d+) kB"))
end

-- Returns a function that passes its argument to `sha256sum`. Called without an argument, the function returns the sum.
local function hasher()
  local name = os.tmpname()
  local pipe = assert(io.popen("sha256sum >" .. name, "w"))
  return function(piece)
    if piece then return pipe:write(piece) end
    pipe:close()
    local f <close> = assert(io.open(name))
    os.remove(name)
    return f:read "a":match "^%x+"
  end
end

-- Reads all pieces, and hashes them if the query has the key `hash`.
local function consume(req, pieces)
  local hash = req.query.hash and hasher()
  local size = 0
  for piece in pieces do
    size = size + #piece
    if hash then hash(piece) end
  end
  return { size = size, hash = hash and hash() or "" }
end

app:post("/stream", function(req) return consume(req, req:stream()) end)

app:post("/on_file", function(req)
  local answer
  assert(req:form { on_file = function(part) answer = consume(req, part:stream()) end })
  return answer
end)

app:post("/file", function(req)
  local _, files = assert(req:form())
  local part = files.upload
  local hash = ""
  if req.query.hash then
    local pipe <close> = assert(io.popen("sha256sum " .. part.path))
    hash = pipe:read "a":match "^%x+"
  end
  return { size = part.size, hash = hash }
end)

app:get("/figures", function()
  return { rss = status "VmRSS", peak = status "VmHWM", cpu = os.clock() }
end)

app:run(0)
