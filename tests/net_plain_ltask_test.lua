-- `lio.service`, `lio.net` and `net.remote` in another implementation of ltask, of either generation. The substitute in
-- tests/kit/plain_ltask.lua has only the documented names, and refuses every module of lio's scheduler.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local head <const> = [[
  local host = require "tests.kit.plain_ltask"
  local system = host.new(GENERATION)
  local done = false
  ]] .. kit.say .. [[
  local path = package.searchpath("lio.service", package.path)
  local load_service = assert(loadfile(path))
  -- Spawns the loop's service; `...` are its arguments.
  local function spawn_io(...)
    local args = table.pack(...)
    return system.spawn(function() return load_service(table.unpack(args, 1, args.n)) end, true)
  end
  -- Runs a script in the loop's service until the service has ended.
  local function run_script(text)
    local script = os.tmpname()
    local f <close> = assert(io.open(script, "w"))
    f:write(text)
    f:flush()
    local service = spawn_io(script)
    system.run(function() return not system.is_alive(service) end)
    os.remove(script)
    done = true
  end
  -- Each service gets its own copy of the modules.
  local function remote(io, ltask)
    for name in pairs(package.loaded) do
      if name:find "^lio%.net%.remote" then package.loaded[name] = nil end
    end
    package.loaded.ltask = ltask
    return require "lio.net.remote"(io)
  end
  local function main(f)
    return system.spawn(function(ltask)
      ltask.fork(function()
        local ok, e = xpcall(f, debug.traceback, ltask)
        if not ok then say("main failed", e) end
        done = true
      end)
    end)
  end
]]

-- The library is loaded from its files, because a search for built-in modules would also find `ltask`.
local function both(name, body, out)
  for generation = 1, 2 do
    t.test(("%s, generation %d"):format(name, generation), function()
      local program = ("local GENERATION <const> = %d\n"):format(generation) .. head .. body
        .. "\nsystem.run(function() return done end)\n"
      local dir = t.tmp()
      t.write(dir .. "/program.lua", program)
      local path = t.root .. "?.lua;" .. t.root .. "lualib/?.lua;" .. package.path
      local r = t.run(("timeout -k 1 60 %s %s/program.lua"):format(kit.host(path), t.quote(dir)))
      t.eq(r.err, "", r.out)
      t.eq(kit.lines(r.out), out)
      t.eq(r.code, 0)
    end)
  end
end

both("an echo server, its client and the loop may be in three services", [[
  local io = spawn_io()
  local listening
  system.spawn(function(ltask)
    local net = remote(io, ltask)
    ltask.fork(function()
      local l = assert(net.listen("127.0.0.1", 0))
      net.serve(l, function(c)
        for line in function() return c:recv "line" end do c:send(line, "!\n") end
      end)
      listening = select(2, l:address())
    end)
  end)
  main(function(ltask)
    local net = remote(io, ltask)
    while not listening do ltask.sleep(1) end
    local c = assert(net.connect("127.0.0.1", listening))
    c:send "one\ntwo\n"
    say(c:recv "line", c:recv "line")
    c:timeout(0.05)
    say(c:recv())
    local big = ("x"):rep(1 << 20)
    ltask.fork(function() c:send(big, "\n") end)
    c:timeout()
    say(#c:recv "line")
    say(pcall(ltask.call, io, "recv", "x"))
    say(net.connect("127.0.0.1", 1) == false, net.resolve "localhost" ~= nil)
    c:close()
    say(c:recv())
  end)
]], {
  "one!\ttwo!", "nil\ttimeout\tnil\ttimeout", "1048577",
  "false\tbad argument #1 to 'recv' (connection expected, got string)", "(from service 1)", "true\ttrue",
  "nil\tclosed\tnil\tclosed",
})

for kind, how in pairs {
  ["uses net.remote"] = "remote(io, ltask)",
  ["uses only numbers"] = "nil",
} do
  both("a service's death is detected, if it " .. kind, [[
    local io = spawn_io()
    local owner = system.spawn(function(ltask)
      local _ = ]] .. how .. [[

      return {
        start = function(port)
          local l = ltask.call(io, "listen", "127.0.0.1", 0)
          ltask.fork(function() ltask.call(io, "accept", l) end)
          local c = ltask.call(io, "connect", "127.0.0.1", port)
          ltask.fork(function() ltask.call(io, "recv", c) end)
          ltask.call(io, "send", c, "here")
          -- When this call returns, the accept and the recv above are waiting in `io`.
          ltask.call(io, "sock", c)
        end,
      }
    end)
    main(function(ltask)
      local l = ltask.call(io, "listen", "127.0.0.1", 0)
      local _, port = ltask.call(io, "sock", l)
      ltask.call(owner, "start", port)
      local c = ltask.call(io, "accept", l)
      say(ltask.call(io, "recv", c))
      ltask.kill(owner)
      say(ltask.call(io, "recv", c))
    end)
  ]], { "here", "nil" })
end

both("transfer passes a connection to a function in the loop's own service", [[
  local io = spawn_io()
  main(function(ltask)
    local net = remote(io, ltask)
    local direct = require "lio.net"
    direct.on_transfer(function(c, word)
      c:send(c:recv "line", word)
      c:close()
    end)
    local l <close> = assert(net.listen("127.0.0.1", 0))
    local _, port = l:address()
    local a = assert(net.connect("127.0.0.1", port))
    local b = assert(l:accept())
    a:send "first\nsecond\n"
    say(b:recv "line")
    say(b:transfer(io, "!"))
    say(a:recv "all")
  end)
]], { "first", "true", "second!" })

both("a script of the loop's service can use lio.loop, lio.net and lio.webserver, and can quit", [[
  run_script [=[
    local loop, net, web = require "lio.loop", require "lio.net", require "lio.webserver"
    local app = web.new()
    app:get("/", function() loop.sleep(0.01) return "served" end)
    local server = app:listen "127.0.0.1:0"
    print((net.instance == loop.net))
    loop.timeout(0, function()
      local c <close> = assert(net.connect("127.0.0.1", select(2, server.listener:address())))
      c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      c:recv("until", "\r\n\r\n")
      print(c:recv(6))
      server:stop(0)
    end)
    loop.run(server.wait, server)
    print "over"
  ]=]
]], { "true", "served", "over" })

-- Regression: the error was lost.
both("an error in a hook of loop.on_stop is logged with its traceback", [[
  run_script [=[
    local loop = require "lio.loop"
    io.stderr = { write = function(_, ...)
      local text = table.concat { ... }
      print(text:match "^lio: [^\n]*(broken hook)\n", text:match "stack traceback")
    end }
    loop.on_stop(function() error "broken hook" end)
    loop.stop(0)
    while loop.is_running() do loop.sleep(0.01) end
    print "over"
  ]=]
]], { "broken hook\tstack traceback", "over" })

t.finish()
