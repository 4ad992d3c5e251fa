-- skynet.socketchannel: requests in order and with sessions, authentication, connections that end, further addresses.
-- The programs may use: skynet, socket, channel, listen

local skynet_kit = require "tests.kit.skynet_system"

-- One line of source: `socket`, `channel`, and `listen(f)`, which runs `f(fd)` for each connection, closes the
-- connection when `f` has returned, and returns the port.
local use <const> = ([[
  local socket, channel = require 'skynet.socket', require 'skynet.socketchannel'
  local function listen(f, port)
    local id, _, number = socket.listen('127.0.0.1', port or 0)
    socket.start(id, function(fd)
      socket.start(fd)
      f(fd)
      socket.close(fd)
    end)
    return number, id
  end ]]):gsub("\n", " ")

local function test(name, spec)
  spec.seconds = spec.seconds or 30
  spec.main = use .. spec.main
  skynet_kit.test(name, spec)
end

test("responses come in the order of the requests", {
  main = [[
    local port = listen(function(fd)
      for line in function() return socket.readline(fd) or nil end do
        socket.write(fd, line:find "^bad" and "-" .. line .. "\n" or "+" .. line .. "\n")
      end
    end)
    local c = channel.channel { host = "127.0.0.1", port = port, nodelay = true }
    local function response(sock)
      local line = sock:readline()
      return line:sub(1, 1) == "+", line:sub(2)
    end
    local left = 20
    for i = 1, left do
      skynet.fork(function()
        assert(c:request(i .. "\n", response) == tostring(i))
        left = left - 1
        if left == 0 then skynet.wakeup "all" end
      end)
    end
    skynet.wait "all"
    say(pcall(c.request, c, "bad news\n", response))
    c:request("only sent\n")
    say(c:response(response))
    c:request("a\n", nil, nil)
    say(c:response(response))
    say(c:request("padded ", response, { "with ", "more\n" }))
  ]],
  out = { "false\tbad news", "only sent", "a", "padded with more" },
})

test("a response in parts is a list", {
  main = [[
    local port = listen(function(fd)
      socket.readline(fd)
      socket.write(fd, "1,2,3.\n")
      socket.readline(fd)
      socket.write(fd, "single.\n")
      socket.readline(fd)
    end)
    local c = channel.channel { host = "127.0.0.1", port = port }
    local function response(sock)
      local byte, text = nil, ""
      repeat
        text = text .. (byte or "")
        byte = sock:read(1)
      until byte == "," or byte == "."
      if byte == "." then sock:read(1) end
      return true, text, byte == ","
    end
    say(table.concat(c:request("x\n", response), "|"))
    say(c:request("y\n", response))
  ]],
  out = { "1|2|3", "single" },
})

test("a channel with sessions gets responses in any order", {
  main = [[
    local port = listen(function(fd)
      local lines = {}
      for i = 1, 3 do lines[i] = socket.readline(fd) end
      for i = 3, 1, -1 do
        local session, text = lines[i]:match "(%d+) (.*)"
        socket.write(fd, session .. (i == 2 and " - " or " + ") .. text .. "\n")
      end
      socket.readline(fd)
    end)
    local c = channel.channel {
      host = "127.0.0.1", port = port,
      response = function(sock)
        local session, sign, text = sock:readline():match "(%d+) (.) (.*)"
        return tonumber(session), sign == "+", text
      end,
    }
    local left = 3
    for i = 1, 3 do
      skynet.fork(function()
        say(i, pcall(c.request, c, i .. " text" .. i .. "\n", i))
        left = left - 1
        if left == 0 then skynet.wakeup "all" end
      end)
    end
    skynet.wait "all"
  ]],
  out = { "3\ttrue\ttext3", "2\tfalse\ttext2", "1\ttrue\ttext1" },
})

test("an unknown session is logged, and a response in parts is a list", {
  main = [[
    local port = listen(function(fd)
      socket.readline(fd)
      socket.write(fd, "9 . lost\n7 , one\n7 . two\n")
      socket.readline(fd)
    end)
    local c = channel.channel {
      host = "127.0.0.1", port = port,
      response = function(sock)
        local session, mark, text = sock:readline():match "(%d+) (.) (.*)"
        return tonumber(session), true, text, mark == ","
      end,
    }
    say(table.concat(c:request("x\n", 7), "|"))
  ]],
  err = "a response with the unknown session 9",
  out = { "one|two" },
})

test("auth runs after each connect, before other requests", {
  main = [[
    local connections = 0
    local port = listen(function(fd)
      connections = connections + 1
      say("server", socket.readline(fd))
      socket.write(fd, "welcome " .. connections .. "\n")
      for line in function() return socket.readline(fd) or nil end do
        if line == "end" then return end
        socket.write(fd, line .. "\n")
      end
    end)
    local function response(sock) return true, sock:readline() end
    local c = channel.channel {
      host = "127.0.0.1", port = port,
      auth = function(self) say("auth", self:request("login\n", response)) end,
    }
    skynet.fork(function() say(c:request("first\n", response)) end)
    say(c:request("second\n", response))
    say(pcall(c.request, c, "end\n", response))
    say(c:request("third\n", response))
  ]],
  out = {
    "server\tlogin", "auth\twelcome 1", "second", "first", "false\t[Error: socket]", "server\tlogin", "auth\twelcome 2",
    "third",
  },
})

test("if auth fails, the request fails", {
  main = [[
    local port = listen(function(fd) socket.readline(fd) end)
    local c = channel.channel { host = "127.0.0.1", port = port, auth = function() error("refused", 0) end }
    local ok, problem = pcall(c.request, c, "x\n", function(sock) return true, sock:readline() end)
    say(ok, problem == channel.error, tostring(problem))
  ]],
  out = function(out)
    require "tests.kit".ok(out:find("false\ttrue\t[Error: socket]", 1, true), out)
    require "tests.kit".ok(out:find("socket: auth failed: refused", 1, true), out)
  end,
})

test("all requests fail when the connection ends, and the next request connects again", {
  main = [[
    local count = 0
    local port = listen(function(fd)
      count = count + 1
      for _ = 1, count == 1 and 3 or 1 do socket.readline(fd) end
      if count > 1 then socket.write(fd, "again\n") socket.readline(fd) end
    end)
    local c = channel.channel { host = "127.0.0.1", port = port }
    local function response(sock) return true, sock:readline() end
    local left = 3
    for i = 1, 3 do
      skynet.fork(function()
        local ok, problem = pcall(c.request, c, i .. "\n", response)
        say(ok, problem == channel.error)
        left = left - 1
        if left == 0 then skynet.wakeup "all" end
      end)
    end
    skynet.wait "all"
    say(c:request("x\n", response))
  ]],
  out = { "false\ttrue", "false\ttrue", "false\ttrue", "again" },
})

test("an end while no request waits is noticed before the next request", {
  main = [[
    local count = 0
    local port = listen(function(fd)
      count = count + 1
      socket.readline(fd)
      socket.write(fd, count .. "\n")
    end)
    local c = channel.channel { host = "127.0.0.1", port = port }
    local function response(sock) return true, sock:readline() end
    say(c:request("x\n", response))
    while c.sock and not c.sock.is_over do skynet.sleep(1) end
    say(c:request("x\n", response))
  ]],
  out = { "1", "2" },
})

test("an error in the function of a response closes the connection", {
  main = [[
    local port = listen(function(fd)
      socket.readline(fd)
      socket.write(fd, "x\n")
      say("server", socket.readline(fd))
      skynet.wakeup "closed"
    end)
    local c = channel.channel { host = "127.0.0.1", port = port }
    say(pcall(c.request, c, "x\n", function() error("broken", 0) end))
    skynet.wait "closed"
  ]],
  err = "socketchannel: broken",
  out = { "false\tbroken", "server\tfalse\t" },
})

test("close ends the requests, and connect opens the channel again", {
  main = [[
    local port = listen(function(fd)
      for line in function() return socket.readline(fd) or nil end do
        if line ~= "silent" then socket.write(fd, line .. "\n") end
      end
    end)
    local c = channel.channel { host = "127.0.0.1", port = port }
    local function response(sock) return true, sock:readline() end
    skynet.fork(function() say(pcall(c.request, c, "silent\n", response)) skynet.wakeup "ended" end)
    skynet.sleep(5)
    c:close()
    skynet.wait "ended"
    say((pcall(c.request, c, "x\n", response)))
    say(c:connect(true), c:request("y\n", response))
  ]],
  out = { "false\t[Error: socket]", "false", "true\ty" },
})

test("further addresses are tried, and changehost leads to another server", {
  main = [[
    local function echo(name)
      return function(fd)
        for line in function() return socket.readline(fd) or nil end do socket.write(fd, name .. line .. "\n") end
      end
    end
    local free, unused = listen(function() end)
    socket.close(unused)
    local one, two = listen(echo "one "), listen(echo "two ")
    local c = channel.channel {
      host = "127.0.0.1", port = free, backup = { { host = "127.0.0.1", port = one } },
    }
    local function response(sock) return true, sock:readline() end
    say(c:request("x\n", response))
    c:changehost("127.0.0.1", two)
    say(c:request("x\n", response))
    c:changehost("127.0.0.1", free)
    c:changebackup {}
    say(pcall(c.connect, c, true))
  ]],
  out = function(out)
    local lines = require "tests.kit.ltask_system".said(out)
    require "tests.kit".eq(lines, { "one x", "two x", "false\t[Error: socket]" })
  end,
})

test("connect tries again until a server listens", {
  main = [[
    local port, id = listen(function() end)
    socket.close(id)
    local c = channel.channel { host = "127.0.0.1", port = port }
    skynet.timeout(20, function()
      listen(function(fd) socket.write(fd, socket.readline(fd) .. "\n") end, port)
    end)
    say(c:connect())
    say(c:request("x\n", function(sock) return true, sock:readline() end))
  ]],
  out = function(out)
    require "tests.kit".eq(require "tests.kit.ltask_system".said(out), { "true", "x" })
  end,
})

test("overload reports that much is waiting to be sent, and that it is sent", {
  main = [[
    local may_read
    local port = listen(function(fd)
      if not may_read then skynet.wait "read" end
      while socket.read(fd) do end
    end)
    local c
    c = channel.channel {
      host = "127.0.0.1", port = port,
      overload = function(is_overloaded)
        say(is_overloaded)
        may_read = true
        skynet.wakeup(is_overloaded and "read" or "sent")
      end,
    }
    for _ = 1, 64 do c:request(("x"):rep(512 * 1024)) end
    skynet.wait "sent"
    c:close()
  ]],
  out = { "true", "false" },
})

-- Regression: the log contained "connect to … failed: nil".
test("close ends the tries to connect, without a further line in the log", {
  main = ([[
    local c = channel.channel { host = "127.0.0.1", port = PORT }
    skynet.fork(function()
      say(pcall(c.connect, c))
      skynet.wakeup "ended"
    end)
    skynet.yield()
    c:close()
    skynet.wait "ended"
  ]]):gsub("PORT", (skynet_kit.free_ports(1))),
  out = { "false\t[Error: socket]" },
})

test("invalid options raise", {
  main = [[
    say(select(2, pcall(channel.channel, {})):match "bad.*")
    say(select(2, pcall(channel.channel, { host = "x", auth = 1 })):match "bad.*")
  ]],
  out = {
    "bad argument #1 to 'channel' (option 'host' is missing)",
    "bad argument #1 to 'channel' (option 'auth' must be a function, not 1)",
  },
})

require "tests.kit".finish()
