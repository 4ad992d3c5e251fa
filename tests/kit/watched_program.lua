--- A program in a temporary folder that runs under `lio --watch`, and its clients. Used by tests/watch_*test.lua and
-- tests/long/watch_load.lua.
-- Invariant: every wait that polls raises an error after 60 s.
-- The programs may use: word, other

local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local t = require "tests.kit"

local watchkit = {}

local SECONDS <const> = 60

--- The first line of each program, with which the program finds modules in its own folder.
watchkit.HEAD = 'package.path = arg[0]:match "^.*/" .. "?.lua;" .. package.path\n'

--- Returns the source of a web server that first runs the code `before`, and responds to `/` and, after 0.3 s, to
-- `/slow` with the value of the Lua expression `answer`. `where` is its address (default: a port that the system
-- chooses).
function watchkit.server(answer, before, where)
  return ([[%s%s
    local loop = require "lio.loop"
    local app = require("lio.webserver").new { grace = 10 }
    app:get("/", function() return %s end)
    app:get("/slow", function() loop.sleep(0.3) return %s end)
    app:run(%q)]]):format(watchkit.HEAD, before or "", answer, answer, where or "127.0.0.1:0")
end

local Program = {}
Program.__index = Program

--- Starts `lio --watch [options] server.lua [arguments]` in a new folder with `files` (contents by name). Returns the
-- program, whose fields are `child` (see `t.spawn`) and `dir`, the folder. Declare the variable `<close>`.
function watchkit.start(files, options, arguments)
  local dir = t.tmp()
  local self = setmetatable({ dir = dir }, Program)
  for name, text in pairs(files) do self:write(name, text) end
  -- LeakSanitizer delays the end of a process. A process that ends late after an error counts as started.
  self.child = t.spawn(("%s%s --watch %s %s %s"):format(
    t.without_leak_check(), t.bin(), options or "", t.quote(dir .. "/server.lua"), arguments or ""))
  return self
end

function Program:__close() self.child:stop "KILL" end

--- Overwrites a file of the program.
function Program:write(name, text) return t.write(self.dir .. "/" .. name, text) end

-- Returns the next line. Sets the field `watching` to the number of watched files, which the supervisor may print
-- before or after the lines of the program.
local function line_of(self)
  local line = self.child:line()
  if line and line:find "restarting$" then self.watching = nil end
  self.watching = line and tonumber(line:match "^lio: watching (%d+) files?$") or self.watching
  return line
end

--- Reads lines until one matches `pattern`, and returns its captures. Raises an error if the program ends first.
function Program:expect(pattern)
  local read = {}
  for line in line_of, self do
    read[#read + 1] = line
    if line:find(pattern) then return line:match(pattern) end
    if line:find "waiting for a change" then break end
  end
  error(("no line matched %q:\n%s"):format(pattern, table.concat(read, "\n")), 2)
end

--- Waits until the program serves, and returns the port.
function Program:serving()
  return math.tointeger(tonumber(self:expect "^lio: serving http://[%d.]+:(%d+)/$"))
end

--- Waits until the supervisor watches files (exactly `count` files, if given). Raises an error if the program ends
-- first.
function Program:settled(count)
  while not self.watching or count and self.watching ~= count do
    local line = line_of(self)
    if not line or line:find "waiting for a change" then
      local watched, expected = self.watching or "an unknown number of", count or "any number"
      error(("the program ended while the supervisor watched %s files (expected: %s); last line: %s"):format(watched,
        expected, line), 2)
    end
  end
end

--- Sends the supervisor SIGINT until it ends, because signals that arrive at the same time count as one. Returns its
-- exit code.
function Program:interrupt()
  watchkit.wait_for(function()
    self.child:kill "INT"
    return not watchkit.descriptors(self.child.pid)
  end, "the supervisor ends")
  self.child:all()
  return self.child:close()
end

--- Sends the supervisor a signal and waits until it ends. Returns its exit code and the unread output.
function Program:stop(signal)
  self.child:kill(signal)
  local text = self.child:all()
  return self.child:close(), text
end

--- Sends a request on a new connection and returns the body of the response.
function watchkit.get(port, path)
  return loop.run(function()
    local c <close> = http.open(port)
    return c:ask(("GET %s HTTP/1.1\r\nHost: x\r\n\r\n"):format(path or "/")).body
  end)
end

--- Waits until the server has read the bytes that were sent before on other connections: a response on a new connection
-- proves this. Must be called in a task.
function watchkit.taken(port)
  local c <close> = http.open(port)
  c:ask "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
end

--- Sends requests until the body of a response is `want`.
function watchkit.until_answer(port, want)
  local deadline = loop.now() + SECONDS
  repeat
    local got = watchkit.get(port)
    if got == want then return end
    loop.run(function() loop.sleep(0.01) end)
  until loop.now() > deadline
  error(("no response had the body %q"):format(want), 2)
end

--- Calls `f` until it returns a true value, and returns that value.
function watchkit.wait_for(f, what)
  local deadline = loop.now() + SECONDS
  repeat
    local value = f()
    if value then return value end
    loop.run(function() loop.sleep(0.01) end)
  until loop.now() > deadline
  error("this did not happen: " .. what, 2)
end

--- Returns the ids of the processes that the supervisor has started and that have not ended.
function Program:children()
  local pids = {}
  local list = io.popen "cat /proc/[0-9]*/stat 2>/dev/null"
  for line in list:lines() do
    local pid, parent = line:match "^(%d+) %(.*%) %a (%d+)"
    if tonumber(parent) == self.child.pid then pids[#pids + 1] = tonumber(pid) end
  end
  list:close()
  return pids
end

--- Waits until the processes `pids` have ended.
function watchkit.until_gone(pids)
  assert(#pids > 0, "no process to wait for")
  for _, pid in ipairs(pids) do
    watchkit.wait_for(function() return not watchkit.descriptors(pid) end, "the old process ends")
  end
end

--- Returns the number of open descriptors of a process, or nil if there is no such process.
function watchkit.descriptors(pid)
  local list = io.popen(("ls /proc/%d/fd 2>/dev/null | wc -l"):format(pid))
  local count = tonumber(list:read "a")
  list:close()
  return count > 0 and count or nil
end

-- Sends one request on `c`. Raises an error unless the response is complete. Returns true if the connection stays open.
local function ask(c, count)
  c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
  local r = c:response()
  assert(r.status == 200 and r.body:find "^version %d+$", r.body)
  count.answered = count.answered + 1
  count[r.body] = (count[r.body] or 0) + 1
  return r.headers.connection ~= "close"
end

local function keep_alive(port, count)
  while not count.over do
    local c <close> = http.open(port)
    while ask(c, count) and not count.over do loop.sleep(0.002) end
  end
end

local function fresh(port, count)
  while not count.over do
    local c <close> = http.open(port)
    ask(c, count)
    loop.sleep(0.002)
  end
end

--- Runs `clients` clients while `during(count)` runs in a task. Half of the clients open a new connection for each
-- request. A refused connection or a request without a response raises an error. Returns `count`, a table: `answered`
-- is the number of all responses, and `count[body]` the number of responses with this body.
function watchkit.hammer(port, clients, during)
  local count = { answered = 0 }
  loop.run(function()
    local left, waiter, problem = clients, {}, nil
    for i = 1, clients do
      loop.fork(function()
        local ok, message = pcall(i % 2 == 0 and keep_alive or fresh, port, count)
        if not ok then
          problem = problem or message
          count.over = true
        end
        left = left - 1
        if left == 0 then loop.wakeup(waiter) end
      end)
    end
    local ok, message = pcall(during, count)
    count.over = true
    if left > 0 then loop.wait(waiter) end
    if problem then error(problem, 0) end
    if not ok then error(message, 0) end
  end)
  return count
end

--- Waits until `count`, the table of `hammer`, has `times` responses with the body `answer`. Must be called in a task.
function watchkit.until_counted(count, answer, times)
  local deadline = loop.now() + SECONDS
  while (count[answer] or 0) < times do
    if count.over or loop.now() > deadline then error("no client got the answer " .. answer, 2) end
    loop.sleep(0.005)
  end
end

return watchkit
