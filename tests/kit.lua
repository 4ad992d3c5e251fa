--- The test kit of every Lua suite: named tests, assertions that show both values, temporary
-- folders, child processes, and a check that no test leaves a descriptor open. Tests, assertions and the check are
-- those of lio.testing.
-- A suite is a plain Lua program: it calls `t.test` for each behaviour and ends with
-- `t.finish()`. tests/README.md has an example; tests/run.sh runs all suites in both hosts.
-- Invariant: the last line that a suite prints is "N passed, M failed", unless the suite crashes.

local kit = {}

local state_path = os.getenv "LIO_TEST_STATE"
local suite = (arg and arg[0] or "?"):match "[^/]*$"

local function absolute(path)
  if path:find "^/" then return path end
  local p <close> = assert(io.popen "pwd")
  return p:read "l" .. "/" .. path
end

local root = absolute(debug.getinfo(1, "S").source:match "^@(.*)tests/kit%.lua$":gsub("^%./", ""))

--- The folder of the repository: an absolute path that ends with a slash.
kit.root = root

-- run.sh sets LIO_HOST and the search paths. If a suite is run by hand, the search paths are set here.
if not os.getenv "LIO_HOST" then
  package.path = root .. "?.lua;" .. package.path
  package.cpath = root .. (_VERSION == "Lua 5.5" and "build/lua5.5/?.so;" or "build/?.so;") .. package.cpath
end

-- ---------------------------------------------------------------------------------------------
-- Assertions, formatting, and open descriptors, which are those of lio.testing. The tests do not run as tasks of a
-- loop, because many suites run the loop themselves, or test the library without one.

local assertions = require "lio.testing.assertions"
local descriptors = require "lio.testing.descriptors"
local runner = require "lio.testing.runner"

kit.show, kit.eq, kit.ok, kit.is_nil, kit.near = assertions.show, assertions.eq, assertions.ok, assertions.is_nil,
  assertions.near

--- Asserts that `f(...)` raises a string that matches the Lua pattern. Returns that string.
kit.raises = assertions.fails

--- Returns the open descriptors as a table { [number] = true }, and their number; or nil if there is no /proc.
kit.descriptors = descriptors.open

runner.reporter = runner.reporter or require("lio.testing.text_reporter").new(suite, os.getenv "VERBOSE")

-- ---------------------------------------------------------------------------------------------
-- Tests

local function note_running(name)
  if not state_path then return end
  local f = io.open(state_path, "w")
  if not f then return end
  f:write(name)
  f:close()
end

-- The names of the sanitizers, by value of LIO_TEST_SANITIZER.
local SANITIZERS <const> = { address = "AddressSanitizer", thread = "ThreadSanitizer" }

-- Runs a test. Returns nil, or the problem.
local function run(test, body, checks_descriptors)
  collectgarbage()
  collectgarbage()
  local before = checks_descriptors and descriptors.open() or nil
  local problem = body(test)
  if problem then return problem end
  local left = before and descriptors.left_since(before)
  return left and "left descriptors open: " .. descriptors.describe(left)
end

--- Runs a test immediately. `name` states the behaviour. `opts.leaks = true`: the test may leave descriptors open (the
-- library opens some once per process). `opts.resident = true`: the test compares resident memory with a bound, which
-- is meaningless under a sanitizer; the test is skipped there and its name is printed. `opts.signals = true`: the test
-- interrupts a loop, or counts threads; it is skipped under ThreadSanitizer, which has a thread, and delivers signals
-- only in system calls. `opts.descriptor_limit = true`: the test lowers the limit of descriptors; it is skipped under
-- memcheck, which closes an accepted connection whose descriptor is above the limit instead of leaving it in the
-- backlog.
function kit.test(name, f, opts)
  local sanitizer = os.getenv "LIO_TEST_SANITIZER"
  local checker = opts and (opts.resident and sanitizer and SANITIZERS[sanitizer]
    or opts.signals and sanitizer == "thread" and SANITIZERS.thread
    or opts.descriptor_limit and os.getenv "LIO_MEMCHECK" and "memcheck")
  if checker then
    print(("left out under %s: %s"):format(checker, name))
    return
  end
  if not runner.is_selected(name) then return end
  note_running(name)
  local body = runner.body_of(f)
  runner.record(name, function(test) return run(test, body, not (opts and opts.leaks)) end)
end

-- ---------------------------------------------------------------------------------------------
-- Temporary folders

local folders = {}

local function remove_folders()
  for _, path in ipairs(folders) do
    os.execute("rm -rf " .. kit.quote(path))
  end
  folders = {}
end

-- If a suite ends with an error, it does not call finish(). This finalizer then removes the folders.
kit.on_exit = setmetatable({}, { __gc = remove_folders })

--- Returns `s` quoted as one word of a shell command.
function kit.quote(s)
  return "'" .. s:gsub("'", "'\\''") .. "'"
end

--- Creates an empty folder, which is removed with its content when the suite ends. Returns its path.
function kit.tmp()
  local p = assert(io.popen "mktemp -d")
  local path = p:read "l"
  p:close()
  folders[#folders + 1] = assert(path, "mktemp -d created no folder")
  return path
end

--- Writes a file. Returns its path.
function kit.write(path, content)
  local f = assert(io.open(path, "wb"))
  f:write(content)
  f:close()
  return path
end

-- ---------------------------------------------------------------------------------------------
-- Other processes

local function read_file(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local s = f:read "a"
  f:close()
  return s
end

-- Returns a command that works in any folder. If `name` has a slash, it is a path, and the result is absolute.
local function command(name) return name:find "/" and absolute(name) or name end

--- Returns the shell command of the interpreter that runs this suite. To run a script, append " script.lua arguments".
-- The command works in any folder, and is one simple command, so `exec` can precede it. The script's package.path is
-- `lua_path` (default: this suite's package.path).
function kit.lio(lua_path)
  local host = os.getenv "LIO_HOST"
  if host then
    host = kit.quote(command(host))
    return lua_path and "env " .. kit.quote("LUA_PATH=" .. lua_path) .. " " .. host or host
  end
  local i = 0
  while arg[i - 1] do i = i - 1 end
  return table.concat({
    "env", kit.quote("LUA_PATH=" .. (lua_path or package.path)), kit.quote("LUA_CPATH=" .. package.cpath),
    kit.quote(command(arg[i])),
  }, " ")
end

--- Returns a prefix for shell commands, with which LeakSanitizer does not check the child; it is usually empty.
function kit.without_leak_check()
  local options = os.getenv "LIO_TEST_SANITIZER" and os.getenv "ASAN_OPTIONS"
  return options and "env " .. kit.quote("ASAN_OPTIONS=" .. options .. ":detect_leaks=0") .. " " or ""
end

--- Returns the command of `lio` for a child that strace traces. LeakSanitizer does not work there.
function kit.traced_lio() return kit.without_leak_check() .. kit.lio() end

--- Returns the path of the `lio` executable, in either host.
function kit.bin() return absolute(os.getenv "LIO_BIN" or root .. "target/release/lio") end

--- Runs a shell command until it ends. `stdin` is its standard input, a string (default: empty). Returns a table:
-- `out`, `err` (strings), `code` (exit code), `signal` (number, or nil).
function kit.run(cmd, stdin)
  local dir = kit.tmp()
  kit.write(dir .. "/in", stdin or "")
  -- Because of the newline before the brace, `cmd` may end with a comment or contain several commands.
  local _, how, code = os.execute(string.format(
    "{ %s\n} <%s/in >%s/out 2>%s/err", cmd, dir, dir, dir))
  local result = {
    out = read_file(dir .. "/out"),
    err = read_file(dir .. "/err"),
    code = how == "exit" and code or nil,
    signal = how == "signal" and code or nil,
  }
  -- The inner shell reports a child that was killed by a signal as 128 + the number of the signal.
  if result.code and result.code > 128 then result.signal = result.code - 128 end
  os.execute("rm -rf " .. dir)
  folders[#folders] = nil
  return result
end

local Child = {}
Child.__index = Child

--- Returns the next line that the child prints, without its newline, or nil at the end of the output.
function Child:line() return self.pipe:read "l" end

--- Returns the remaining output of the child.
function Child:all() return self.pipe:read "a" end

--- Reads lines until one matches the pattern. Returns its captures, or the match if the pattern has none. If the child
-- ends first, raises an error that contains the lines.
function Child:expect(pattern)
  local read = {}
  for line in function() return self:line() end do
    read[#read + 1] = line
    if line:find(pattern) then return line:match(pattern) end
  end
  error("the child ended before a line matched " .. kit.show(pattern)
    .. "; it printed:\n" .. table.concat(read, "\n"), 2)
end

--- Sends the child the signal with this name (default "TERM").
function Child:kill(signal)
  os.execute(string.format("kill -%s %d 2>/dev/null", signal or "TERM", self.pid))
end

--- Waits until the child ends. Returns its exit code, or nil and the signal that ended it.
function Child:close()
  if not self.pipe then return self.code, self.signal end
  local _, how, code = self.pipe:close()
  self.pipe = nil
  if how == "exit" then self.code = code else self.signal = code end
  return self.code, self.signal
end

--- Sends the child a signal (default "TERM") and waits until it ends. Returns the same values as close().
function Child:stop(signal)
  if self.pipe then self:kill(signal) end
  return self:close()
end

-- The child does not outlive the variable that holds it. If the child leads a process group, the whole group is
-- killed, because timeout(1) cannot forward SIGKILL.
Child.__close = function(self)
  if self.pipe then os.execute(("kill -s KILL -- -%d 2>/dev/null"):format(self.pid)) end
  self:stop "KILL"
end
Child.__gc = Child.__close

--- Starts one simple command (no `;`, no `|`, no leading `X=1`: use `env`) with empty standard input. Returns the
-- child, whose methods read its standard output and standard error line by line; `child.pid` is its process id. Declare
-- the variable `<close>`, so that the child is stopped if the test fails.
function kit.spawn(cmd)
  local pipe = assert(io.popen("echo $$; exec " .. cmd .. " </dev/null 2>&1", "r"))
  local pid = tonumber(pipe:read "l")
  return setmetatable({ pipe = pipe, pid = pid }, Child)
end

-- ---------------------------------------------------------------------------------------------

--- Ends the suite: prints the closing line and exits with 0, or with 1 if a test failed.
function kit.finish()
  note_running ""
  remove_folders()
  os.exit(runner.finish())
end

return kit
