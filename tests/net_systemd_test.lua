-- `lio.systemd()`: the sockets that the process was started with, as in sd_listen_fds(3). Each test starts a child with
-- a launcher in Perl, which every system has. The launcher opens the descriptors 3, 4 and 5 and executes the child.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Descriptor 3 is a TCP listener, 4 a file, 5 a unix listener. Descriptors up to `$^F` are inherited.
local launcher <const> = [[
use Socket;
POSIX::close($_) for (3 .. 9);
BEGIN { require POSIX }
$^F = 9;
socket(my $tcp, PF_INET, SOCK_STREAM, 0) or die;
bind($tcp, sockaddr_in(0, INADDR_LOOPBACK)) or die;
listen($tcp, 16) or die;
open(my $file, "<", $0) or die;
socket(my $unix, PF_UNIX, SOCK_STREAM, 0) or die;
bind($unix, sockaddr_un("$ENV{DIR}/sock")) or die;
listen($unix, 16) or die;
POSIX::dup2(fileno($tcp), 13); POSIX::dup2(fileno($file), 14); POSIX::dup2(fileno($unix), 15);
POSIX::dup2(13, 3); POSIX::dup2(14, 4); POSIX::dup2(15, 5);
POSIX::close($_) for (6 .. 15);
$ENV{LISTEN_PID} = $ENV{WRONG} ? $$ + 1 : $$;
$ENV{LISTEN_FDS} = 3;
exec @ARGV or die;
]]

local function child(source, env)
  local dir = t.tmp()
  t.write(dir .. "/launch.pl", launcher)
  t.write(dir .. "/program.lua", [[
    local lio = require "lio"
    local net, socket, loop = require "lio.net", require "lio.socket", require "lio.loop"
    local function say(...) print(...) io.stdout:flush() end
    local function flags(fd)
      local f = io.open("/proc/self/fdinfo/" .. fd)
      return f and tonumber(f:read "a":match "flags:%s*(%d+)", 8)
    end
    local CLOEXEC = tonumber("2000000", 8)
  ]] .. source)
  local r = t.run(("cd %s && DIR=%s %s timeout -k 1 60 perl launch.pl %s program.lua"):format(
    t.quote(dir), t.quote(dir), env or "", kit.host()))
  t.eq(r.err, "")
  t.eq(r.code, 0, r.out)
  return kit.lines(r.out)
end

t.test("the list has the sockets and their names, but no other files; children do not inherit the sockets", function()
  t.eq(child([[
    say(flags(3) & CLOEXEC, flags(5) & CLOEXEC)
    local list = lio.systemd()
    say(#list, #list.names, table.concat(list.names, " "))
    say((tostring(list[1]):gsub("%d+", "N")), (tostring(list[2]):gsub("%d+", "N")))
    say(flags(3) & CLOEXEC ~= 0, flags(4) & CLOEXEC ~= 0, flags(5) & CLOEXEC ~= 0)
    local number = tonumber(tostring(list[1]):match "%d+")
    say(number > 5, flags(number) & CLOEXEC ~= 0)
  ]], "LISTEN_FDNAMES=web:config"), {
    "0\t0", "2\t2\tweb unknown", "socket (N, tcp, listening)\tsocket (N, unix, listening)",
    "true\ttrue\ttrue", "true\ttrue",
  })
end)

t.test("a second call returns the same sockets, even if those of the first call were closed", function()
  t.eq(child [[
    local first = lio.systemd()
    local _, port = first[1]:info "socket":value()
    first[1]:close()
    local second = lio.systemd()
    say(#second, select(2, second[1]:info "socket":value()) == port)
    loop.run(function()
      local l = assert(net.listen(second[1]))
      local c = assert(net.connect("127.0.0.1", port))
      assert(net.accept(l)):send "hello"
      say(c:recv())
    end)
  ]], { "2\ttrue", "hello" })
end)

t.test("sockets for another process are ignored", function()
  t.eq(child([[
    say(#lio.systemd(), #lio.systemd().names)
    say(flags(3) & CLOEXEC)
  ]], "WRONG=1"), { "0\t0", "0" })
end)

t.test("without the environment variables the list is empty", function()
  local lio = require "lio"
  t.eq(lio.systemd(), { names = {} })
end)

t.test("net.listen takes sockets of either family, and keeps the file of an inherited socket", function()
  t.eq(child [[
    local list = lio.systemd()
    loop.run(function()
      for index, s in ipairs(list) do
        local l = assert(net.listen(s))
        local address, port = l:address()
        local c = assert(index == 1 and net.connect(address, port) or net.connect("unix:" .. address))
        local d = assert(l:accept())
        d:send "hello"
        say(c:recv(), index == 1 and d:option "nodelay")
        l:close()
        if index == 2 then say(net.connect("unix:" .. address) ~= false) end
      end
    end)
    local _, problem = pcall(net.listen, list[1])
    say((problem:gsub("^[^:]*:%d+: ", "")))
  ]], {
    "hello\ttrue", "hello\tfalse", "true",
    "bad argument #1 to 'listen' (address or open socket expected)",
  })
end)

t.test("app:listen and app:run serve on the sockets", function()
  local lines = child [[
    local web = require "lio.webserver"
    local app = web.new()
    app:get("/", function() return "served" end)
    local list = lio.systemd()
    local address, port = list[1]:info "socket":value()
    local function get(c)
      local _ <close> = assert(c)
      c:send "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
      say((c:recv "all":match "served"))
    end
    loop.timeout(0, function()
      say((app:listen(list[2]).url:gsub("unix:.*/", "unix:")))
      get(net.connect(address, port))
      get(net.connect "unix:sock")
      loop.stop(0)
    end)
    app:run(list[1])
  ]]
  t.ok(lines[1]:find "^lio: serving http://127.0.0.1:%d+/$", lines[1])
  t.eq({ table.unpack(lines, 2) }, { "unix:sock", "served", "served" })
end)

t.finish()
