-- A server under a mixed load for ten minutes: 48 connections send all kinds of requests, including malformed, aborted
-- and truncated requests, while 500 idle connections open and close. Every response must be correct, and in the second
-- half of the run the server must not use more memory or descriptors than in the first. Called by tests/run.sh --long,
-- or by hand:
--   lio tests/long/mixed_load.lua [seconds (600) [workers (1) [seed]]]

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local lio = require "lio"
local loop = require "lio.loop"

local SECONDS <const> = tonumber(arg[1]) or 600
local WORKERS <const> = math.tointeger(tonumber(arg[2] or 1))
local SEED <const> = math.tointeger(tonumber(arg[3])) or os.time()
local CONNECTIONS <const>, IDLE <const> = 48, 500
local GROWTH <const> = 1024 -- a worker may grow by this number of KiB from the first half to the second
local LARGE <const> = ("0123456789abcdef"):rep(6400)

math.randomseed(SEED)
local random <const> = math.random

local port
local counts = {}

local function get(c, path, more)
  return c:ask(("GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n"):format(path, more or ""))
end

local function post(c, path, body, more)
  return c:ask(("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s"):format(path, #body, more or "", body))
end

-- The actions of a connection: a name, a weight and a function(client). If the function returns true, the connection
-- cannot be used again.
local actions = {}

local function action(name, share, f) actions[#actions + 1] = { name = name, share = share, f = f } end

-- Checks that a response has `body` and the status 200.
local function gives(answer, body)
  t.eq(answer.status, 200)
  t.ok(answer.body == body, "the body differs")
end

action("hello", 30, function(c) gives(get(c, "/"), "Hello, World!\n") end)
action("pipelined", 5, function(c)
  c:send(("GET / HTTP/1.1\r\nHost: x\r\n\r\n"):rep(8))
  for _ = 1, 8 do gives(c:response "GET", "Hello, World!\n") end
end)
action("JSON", 10, function(c)
  local user, number = random(1000000), random(1000)
  local answer = get(c, ("/users/%d/posts/%d?more=%d"):format(user, number, user))
  t.eq(json.decode(answer.body), { user = tostring(user), post = tostring(number) })
end)
action("large", 4, function(c) gives(get(c, "/large"), LARGE) end)
action("compressed", 1, function(c)
  local answer = get(c, "/squeezed/text", "Accept-Encoding: gzip\r\n")
  t.eq(answer.headers["content-encoding"], "gzip")
  t.ok(#answer.body < 2000)
end)
action("echo", 8, function(c)
  local body = LARGE:sub(1, random(random() < 0.1 and #LARGE or 4000))
  gives(post(c, "/echo", body, "Content-Type: text/plain\r\n"), body)
end)
action("mirror", 3, function(c)
  local body = LARGE:sub(1, random(60000))
  gives(post(c, "/mirror", body), body)
end)
action("form", 2, function(c)
  local file = LARGE:sub(1, random(40000))
  local body = '--B\r\nContent-Disposition: form-data; name="value"\r\n\r\nv\r\n--B\r\n'
    .. 'Content-Disposition: form-data; name="upload"; filename="f"\r\n\r\n' .. file .. "\r\n--B--\r\n"
  local answer = post(c, "/form", body, "Content-Type: multipart/form-data; boundary=B\r\n")
  t.eq(json.decode(answer.body), { value = "v", size = #file })
end)
action("pieces", 4, function(c) gives(get(c, "/pieces"), LARGE:sub(1, 1000):rep(10)) end)
action("static file", 5, function(c) gives(get(c, "/files/small.txt"), LARGE:sub(1, 1024)) end)
action("static 1 MiB", 1, function(c) t.eq(#get(c, "/files/large.bin").body, 1024 * 1024) end)
action("range", 2, function(c)
  local answer = get(c, "/files/large.bin", "Range: bytes=1000-1999\r\n")
  t.eq({ answer.status, #answer.body }, { 206, 1000 })
end)
action("listing, absent, forbidden", 2, function(c)
  t.eq(get(c, "/files/absent").status, 404)
  t.eq(get(c, "/nothing").status, 404)
  t.eq(c:ask("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n").status, 405)
end)
action("handler that fails", 1, function(c) t.eq(get(c, "/fail").status, 500) end)
action("handler that waits", 4, function(c) gives(get(c, "/wait"), "late\n") end)
action("threads", 2, function(c) gives(get(c, "/threads"), "3") end)
action("generator", 2, function(c) gives(get(c, "/generator"), "210") end)
action("events", 1, function(c)
  local answer = get(c, "/events", "Accept: text/event-stream\r\n")
  t.eq(select(2, answer.body:gsub("data: event %d", "")), 5)
  return true
end)
action("connection: close", 8, function(c)
  gives(get(c, "/", "Connection: close\r\n"), "Hello, World!\n")
  return true
end)
action("new connection", 5, function() return true end)
action("malformed", 1, function(c)
  t.eq(c:ask("GET /bad path HTTP/1.1\r\nHost: x\r\n\r\n").status, 400)
  return true
end)
action("head cut off", 2, function(c)
  c:send "GET / HTTP/1.1\r\nHo"
  return true
end)
action("body cut off", 2, function(c)
  c:send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", LARGE:sub(1, random(4000)))
  return true
end)
action("answer given up", 2, function(c)
  c:send "GET /files/large.bin HTTP/1.1\r\nHost: x\r\n\r\n"
  c.c:recv(random(20000))
  return true
end)
action("wait given up", 2, function(c)
  c:send("GET ", random() < 0.5 and "/threads" or "/wait", " HTTP/1.1\r\nHost: x\r\n\r\n")
  return true
end)

local total = 0
for _, one in ipairs(actions) do total = total + one.share end

local function choose()
  local n = random(total)
  for _, one in ipairs(actions) do
    n = n - one.share
    if n <= 0 then return one end
  end
end

local state = { stopped = false, running = 0 }

-- Executes random actions until the load stops; opens a new connection when necessary.
local function work()
  local c
  while not state.stopped do
    local one = choose()
    c = c or http.open(port)
    local ok, used = xpcall(one.f, debug.traceback, c)
    if not ok then error(one.name .. ": " .. used, 0) end
    counts[one.name] = (counts[one.name] or 0) + 1
    if used then
      c:close()
      c = nil
    end
  end
  if c then c:close() end
end

-- Opens connections, one after another: sends one request on each, and keeps it open for up to 20 s.
local function idle()
  while not state.stopped do
    local c = http.open(port)
    gives(get(c, "/"), "Hello, World!\n")
    local ends = lio.now() + random() * 20
    while lio.now() < ends and not state.stopped do loop.sleep(0.5) end
    c:close()
  end
end

local function start(f)
  state.running = state.running + 1
  loop.fork(function()
    local ok, problem = pcall(f)
    state.running = state.running - 1
    if not ok then state.problem, state.stopped = state.problem or problem, true end
  end)
end

local function memory()
  local c <close> = http.open(port)
  return json.decode(get(c, "/memory", "Connection: close\r\n").body)
end

-- Returns the number of open descriptors of the server.
local function descriptors(pid)
  local f <close> = assert(io.popen(("ls /proc/%d/fd | wc -l"):format(pid)))
  return tonumber(f:read "a")
end

-- Waits until the number of open descriptors of the server is stable. By then, its workers have started and have
-- removed the closed connections.
local function settled(pid)
  local before, same = -1, 0
  repeat
    loop.sleep(0.1)
    local now = descriptors(pid)
    before, same = now, now == before and same + 1 or 0
  until same == 10
  return before
end

-- Returns the maximum of the field `key` in a part of `samples`; `from` and `to` are fractions of the duration of the
-- run.
local function most(samples, key, from, to)
  local found = 0
  for i = math.ceil(#samples * from) + 1, math.floor(#samples * to) do found = math.max(found, samples[i][key]) end
  return found
end

local function watch()
  local began, samples = lio.now(), {}
  local every = SECONDS / 40
  while lio.now() - began < SECONDS and not state.stopped do
    loop.sleep(every)
    local one = memory()
    samples[#samples + 1] = one
    local done = 0
    for _, n in pairs(counts) do done = done + n end
    one.text = ("%4.0f s: %9d done, %6d KiB resident, %6.0f KiB of Lua"):format(
      lio.now() - began, done, one.resident, one.lua)
    print(one.text)
    io.stdout:flush()
  end
  return samples
end

t.test(("%d s with %d workers, seed %d"):format(SECONDS, WORKERS, SEED), function()
  local dir = t.tmp()
  t.write(dir .. "/small.txt", LARGE:sub(1, 1024))
  t.write(dir .. "/large.bin", LARGE:rep(11):sub(1, 1024 * 1024))
  local log = dir .. "/log"
  local child <close> = t.spawn("sh -c " .. t.quote(("exec %s %s %s %d 2>%s"):format(
    t.lio(), t.quote(t.root .. "tests/long/mixed_load_server.lua"), dir, WORKERS, log)))
  port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  local pid, samples, before, after = child.pid, nil, nil, nil
  loop.run(function()
    for _ = 1, 8 * WORKERS do memory() end
    before = settled(pid)
    for _ = 1, CONNECTIONS do start(work) end
    for _ = 1, IDLE do start(idle) end
    samples = watch()
    state.stopped = true
    while state.running > 0 do loop.sleep(0.05) end
    after = settled(pid)
  end)
  if state.problem then error(state.problem, 0) end
  for _, one in ipairs(actions) do t.ok(counts[one.name], one.name .. " was never executed") end
  t.eq(after, before, "descriptors")
  for _, key in ipairs { "resident", "lua" } do
    local early, late = most(samples, key, 0.25, 0.6), most(samples, key, 0.65, 1)
    print(("%s: %.0f KiB at most before, %.0f KiB after"):format(key, early, late))
    t.ok(late - early < GROWTH * WORKERS, ("%s grew by %.0f KiB"):format(key, late - early))
  end
  child:kill()
  child:all()
  t.eq(child:close(), 0, "exit code")
  for line in io.lines(log) do
    t.ok(not line:find "^lio:" or line:find "as it should$", line)
  end
end, { leaks = true })

t.finish()
