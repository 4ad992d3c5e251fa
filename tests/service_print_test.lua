-- `print` of a program in a service with a loop: a reader of standard output gets the lines while the program runs, and
-- many lines in a row share system calls. Both hosts run these tests on the same executable (LIO_BIN).

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"

-- Starts the executable with `words` and then a script with this code. The child ends after a minute.
local function start(words, code)
  local script = t.write(t.tmp() .. "/script.lua", code)
  return t.spawn(("timeout -s KILL 60 %s %s %s"):format(t.quote(t.bin()), words, t.quote(script)))
end

t.test("lines that follow each other closely appear while the program waits", function()
  local child <close> = start("--service", [[
    print("first", 1)
    print "second"
    print "third"
    require("lio.loop").sleep(1e9)
  ]])
  t.eq({ child:line(), child:line(), child:line() }, { "first\t1", "second", "third" })
end)

t.test("a line is not lost if the program is killed before it waits", function()
  local child <close> = start("--service", [[
    print "begin"
    os.execute "kill -KILL $PPID"
  ]])
  t.eq(child:line(), "begin")
end)

t.test("lines of a handler in a worker appear while the worker serves", function()
  local child <close> = start("", [[
    local app = require("lio.webserver").new()
    app:get("/", function()
      for i = 1, 3 do print("hit", i) end
      return "x"
    end)
    app:run("127.0.0.1:0", { workers = 2 })
  ]])
  local port = math.tointeger(tonumber((child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$")))
  for _ = 1, 2 do
    loop.run(function()
      local c <close> = http.open(port)
      t.eq(c:ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").body, "x")
    end)
    t.eq({ child:line(), child:line(), child:line() }, { "hit\t1", "hit\t2", "hit\t3" })
  end
end)

-- Regression: the second line appeared when the process ended.
t.test("lines that are printed while a service ends appear while the system continues", function()
  local dir = t.tmp()
  t.write(dir .. "/killed.lua", [[
    local _ <close> = setmetatable({}, { __close = function() print "closed 1" print "closed 2" end })
    print "begins"
    require("lio.loop").sleep(1e9)
  ]])
  local child <close> = start("--service", ([[
    local ltask, loop = require "ltask", require "lio.loop"
    local id = ltask.spawn("lio", %q)
    loop.sleep(0)
    ltask.kill(id)
    loop.sleep(1e9)
  ]]):format(dir .. "/killed.lua"))
  t.eq({ child:line(), child:line(), child:line() }, { "begins", "closed 1", "closed 2" })
end)

t.test("lines of a script that has ended appear while the system continues", function()
  local dir = t.tmp()
  t.write(dir .. "/ends.lua", [[ print "a" print "b" ]])
  local child <close> = start("--service", ([[
    local ltask = require "ltask"
    ltask.spawn("lio", %q)
    require("lio.loop").sleep(1e9)
  ]]):format(dir .. "/ends.lua"))
  t.eq({ child:line(), child:line() }, { "a", "b" })
end)

t.test("many lines in a row share system calls", function()
  if os.execute "strace -o /dev/null true 2>/dev/null" ~= true then error "install strace: it counts the calls" end
  local dir = t.tmp()
  local script = t.write(dir .. "/many.lua", "for i = 1, 20000 do print(i) end")
  local command = t.without_leak_check() .. t.quote(t.bin())
  local r = t.run(("strace -f -o %s/calls -e trace=write,writev %s --service %s"):format(dir, command, script))
  t.eq(select(2, r.out:gsub("\n", "")), 20000, r.err)
  local writes = 0
  for line in io.lines(dir .. "/calls") do
    if line:find "write[v]?%(1," then writes = writes + 1 end
  end
  t.ok(writes > 0 and writes < 2000, writes .. " calls")
end)

t.finish()
