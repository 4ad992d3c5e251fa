-- Uploads 1 GiB to a streaming handler, and as a file of a multipart form that is stored or streamed. The server must
-- receive exactly the sent bytes, and its memory must not grow. Prints the CPU time per MiB for 8 MiB, 256 MiB and
-- 1 GiB. Needs 1 GiB of space for temporary files, `sha256sum` and /proc. Called by tests/run.sh --long, or by hand:
--   lio tests/long/upload_big.lua [MiB (1024)]

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"

local WHOLE <const> = (tonumber(arg[1]) or 1024) * 1024 * 1024
local GROWTH <const> = 8 * 1024 -- the memory peak may grow by this number of KiB in an upload
local MIB <const> = 1024 * 1024
local BLOCK <const> = 64 * 1024

math.randomseed(5)
local noise = {}
for i = 1, BLOCK // 8 - 1 do noise[i] = string.pack("<i8", math.random(0)) end
noise = table.concat(noise)

-- Returns block number `i` of the upload: its number and random bytes.
local function block(i) return string.pack("<i8", i) .. noise end

local HEAD <const> = '--B\r\nContent-Disposition: form-data; name="upload"; filename="big.bin"\r\n\r\n'
local TAIL <const> = "\r\n--B--\r\n"

local function figures(c) return json.decode(c:request("GET", "/figures").body) end

-- Sends `size` bytes. Returns the server's response.
local function upload(c, target, size)
  local is_form = not target:find "stream"
  local head, tail = is_form and HEAD or "", is_form and TAIL or ""
  c:send("POST ", target, " HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: ",
    tostring(#head + size + #tail), "\r\n\r\n", head)
  for i = 1, size // BLOCK do c:send(block(i)) end
  c:send(tail)
  net.timeout(c.c, 300, 300)
  local r = c:response()
  t.eq(r.status, 200, r.body)
  return json.decode(r.body)
end

local function hash_of(size)
  local name = t.tmp() .. "/sum"
  local pipe = assert(io.popen("sha256sum >" .. name, "w"))
  for i = 1, size // BLOCK do pipe:write(block(i)) end
  pipe:close()
  local f <close> = assert(io.open(name))
  return f:read "a":match "^%x+"
end

local server <close> = t.spawn(t.lio() .. " " .. t.root .. "tests/long/upload_big_server.lua")
local port = math.tointeger(tonumber(server:expect ":(%d+)/"))

local function measured(c, target, size)
  local before = figures(c)
  local answer = upload(c, target, size)
  local after = figures(c)
  local cpu = (after.cpu - before.cpu) * 1000 / (size // MIB)
  print(("%-18s %5d MiB: %.2f ms CPU per MiB, resident %.1f MiB, peak %.1f MiB (before %.1f)"):format(
    target, size // MIB, cpu, after.rss / 1024, after.peak / 1024, before.peak / 1024))
  io.stdout:flush()
  t.eq(answer.size, size)
  t.ok(after.peak - before.peak < GROWTH, "the peak grew by " .. after.peak - before.peak .. " KiB")
  return answer
end

for _, target in ipairs { "/stream", "/on_file", "/file" } do
  t.test("uploads to " .. target .. " of any size take the same memory", function()
    loop.run(function()
      local c <close> = http.open(port)
      upload(c, target, MIB) -- the server allocates memory that it keeps
      for _, size in ipairs { 8 * MIB, 256 * MIB, WHOLE } do measured(c, target, size) end
    end)
  end)

  t.test("an upload to " .. target .. " arrives unchanged", function()
    loop.run(function()
      local c <close> = http.open(port)
      t.eq(measured(c, target .. "?hash=1", WHOLE).hash, hash_of(WHOLE))
    end)
  end)
end

server:stop()
t.finish()
