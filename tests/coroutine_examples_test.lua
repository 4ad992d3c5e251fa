-- The programs of examples/coroutine do what their first lines say, and the code of docs/coroutines.md does what its
-- comments say. Each program runs as a child process in the host of this suite.

local t = require "tests.kit"
local childkit = require "tests.kit.server_process"
local kit = require "tests.kit.ltask_system"
local loop = require "lio.loop"

local connect, start, stop = childkit.connect, childkit.start, childkit.stop

local function command(name, words)
  -- With --foreground, timeout(1) signals only the process. Otherwise it also signals the process group, so each signal
  -- arrives twice.
  local path = t.quote(t.root .. "examples/coroutine/" .. name .. ".lua")
  return ("timeout --foreground -k 1 60 %s %s %s"):format(t.lio(), path, words)
end

t.test("paragraphs answers each paragraph when the paragraph ends, while clients take turns to send pieces", function()
  local child <close>, port = start(command("paragraphs", "0"))
  loop.run(function()
    local one <close> = connect(port)
    local other <close> = connect(port)
    one:send "a b c\nd e"
    other:send "\n\n  \nx\n"
    one:send " f\n\n"
    t.eq(one:recv "line", "2 lines, 6 words")
    other:send "\ny z\n"
    t.eq(other:recv "line", "1 lines, 1 words")
    one:send "g\n\nh\n\n"
    t.eq({ one:recv "line", one:recv "line" }, { "1 lines, 1 words", "1 lines, 1 words" })
    other:shutdown "w"
    t.eq(other:recv "line", "1 lines, 2 words", "the last paragraph ends with the connection")
    t.is_nil((other:recv "line"))
  end)
  t.eq(stop(child), 0)
end)

-- Answers `/now` with a page and `/wrong` with text that is not HTTP, and closes the connection on `/gone`. For other
-- paths it sends nothing, and waits until the client closes.
local SERVER <const> = [[
  local net = require "lio.net"
  require("lio.loop").run(function()
    local listener = assert(net.listen("127.0.0.1", 0))
    print(("127.0.0.1:%d"):format((select(2, listener:address()))))
    io.stdout:flush()
    net.serve(listener, function(c)
      local path = assert(c:recv("until", "\r\n\r\n")):match "^GET (%S+)"
      if path == "/now" then
        c:send "HTTP/1.0 200 OK\r\n\r\nhere"
      elseif path == "/wrong" then
        c:send "hello"
      elseif path ~= "/gone" then
        c:recv()
      end
    end)
  end)
]]

t.test("fetch prints the responses that arrive in time, and cancels the other requests", function()
  local script = t.write(t.tmp() .. "/server.lua", SERVER)
  local server <close>, port = start(t.lio() .. " " .. t.quote(script))
  local url = "http://127.0.0.1:" .. port

  -- If all responses have arrived, fetch does not wait for its time limit.
  local r = t.run(command("fetch", ("1000 %s/now"):format(url)))
  t.eq(r, { out = url .. "/now: 200, 23 bytes\n", err = "", code = 0 })

  r = t.run(command("fetch", ("3 %s/late %s/now %s/later"):format(url, url, url)))
  t.eq({ r.err, r.code }, { "", 1 })
  t.eq(kit.lines(r.out), {
    url .. "/now: 200, 23 bytes", url .. "/late: no response in time", url .. "/later: no response in time",
  })

  r = t.run(command("fetch", ("1000 %s/wrong"):format(url)))
  t.eq({ r.code, r.err }, { 1, "" })
  t.ok(r.out:find("/wrong: .*not HTTP\n$"), r.out)
  t.eq(t.run(command("fetch", ("1000 %s/gone"):format(url))).code, 1)
  server:stop "KILL"
  r = t.run(command("fetch", ("1000 %s/now"):format(url)))
  t.eq(r.code, 1)
  t.ok(r.out:find "refused", r.out)
end)

t.test("fetch shows its usage if its arguments are invalid", function()
  local wrong = { "", "1", "x http://a/", "1 a", "1 http://a:b/", "1 http://a:99999/", "1 http://a http://" }
  for _, words in ipairs(wrong) do
    local r = t.run(command("fetch", words))
    t.eq({ r.code, r.out }, { 2, "" }, words)
    t.ok(r.err:find "^usage: lio examples/coroutine/fetch.lua SECONDS http://host", r.err)
  end
end)

-- Returns the Lua code blocks of the guide. Each is a program; a program that requires `ltask` runs in a service.
local function blocks()
  local file <close> = assert(io.open(t.root .. "docs/coroutines.md"))
  local list = {}
  for text in file:read("a"):gmatch "\n```lua\n(.-\n)```" do list[#list + 1] = text end
  return list
end

-- Returns the lines of output that the comments `--> …` in `text` show.
local function promised(text)
  local lines = {}
  for line in text:gmatch "%-%-> ([^\n]*)" do lines[#lines + 1] = line end
  return lines
end

t.test("the guide's code does what its comments say", function()
  local list = blocks()
  t.ok(#list > 5)
  for _, text in ipairs(list) do
    if text:find('require "ltask"', 1, true) then
      local out, err, code = kit.system { services = {}, main = text }
      t.eq({ err, code }, { "", 0 }, text)
      t.eq(kit.lines((out:gsub("%[[^\n]-%]%[INFO%]%b() ", ""))), promised(text), text)
    else
      local script = t.write(t.tmp() .. "/guide.lua", text)
      local r = t.run(("timeout -k 1 60 %s %s"):format(t.lio(), t.quote(script)))
      t.eq({ r.err, r.code }, { "", 0 }, text)
      t.eq(kit.lines(r.out), promised(text), text)
    end
  end
end)

t.finish()
