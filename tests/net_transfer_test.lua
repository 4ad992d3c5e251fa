-- `net.transfer`: connections that move from one loop to another, with their buffered and queued bytes. Each test boots
-- a system with two services that own a loop, `left` and `right`, which run scripts.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local netkit = require "tests.kit.net"

-- Boots a system whose services `left` and `right` run the scripts `spec.left` and `spec.right`; both may write output.
local function two_loops(name, spec)
  kit.test(name, {
    services = spec.services,
    main = [[
      local dir = ...
      local function write(name, source)
        local f = require "io".open(dir .. "/" .. name, "w")
        f:write(source)
        f:close()
        return dir .. "/" .. name
      end
      local head = [==[
        local ltask, net, loop = require "ltask", require "lio.net", require "lio.loop"
        ]] .. kit.say .. [[
        local function pair()
          local l <close> = assert(net.listen("127.0.0.1", 0))
          local _, port = l:address()
          return assert(net.connect("127.0.0.1", port)), assert(net.accept(l))
        end
        local function descriptors()
          local count = 0
          for fd = 0, 255 do
            local f = io.open("/proc/self/fdinfo/" .. fd)
            if f then count = count + 1 f:close() end
          end
          return count
        end
        local function eventually(f)
          local deadline = loop.now() + 10
          while not f() do
            if loop.now() > deadline then return "never" end
            loop.sleep(0.01)
          end
          return true
        end
      ]==]
      local right = ltask.spawn("lio", write("right.lua", head .. ]] .. ("%q"):format(spec.right or "")
        .. [[ .. " loop.run(function() loop.wait \"its end\" end)"))
      -- `right` answers when its loop runs and has opened its descriptors.
      ltask.call(right, "resolve", "127.0.0.1")
      local left = ltask.spawn("lio", write("left.lua", head .. " local right = ... loop.run(function() "
        .. ]] .. ("%q"):format(spec.left) .. [[ .. " end)"), right)
      while pcall(ltask.call, left, "resolve", "127.0.0.1") do ltask.sleep(1) end
    ]],
    out = spec.out,
    err = spec.err,
  })
end

local echo <const> = [[
  net.on_transfer(function(c, greeting, t)
    say("right has it", greeting, t and t.deep)
    for line in function() return c:recv "line" end do c:send(line, "!\n") end
    say "its end"
    c:close()
  end)
]]

two_loops("the function of the receiver gets the connection and the values that were passed with it", {
  right = echo,
  left = [[
    local a, b = pair()
    a:send "before\nbehind\npart"
    say(b:recv "line")
    say(b:transfer(right, "hello", { deep = 1 }))
    say(b:is_closed(), b:recv())
    say(a:recv "line")
    a:send "ial\n"
    say(a:recv "line")
    a:shutdown "w"
    say(a:recv())
  ]],
  out = function(out)
    local lines = kit.lines(out)
    table.sort(lines)
    t.eq(lines, { "before", "behind!", "its end", "nil", "partial!", "right has it\thello\t1", "true",
      "true\tnil\tclosed\tnil\tclosed" })
  end,
})

two_loops("a mebibyte in both directions arrives in order while the connection moves back and forth", {
  right = [[
    net.on_transfer(function(c, home, n)
      -- Answers seven lines, leaves further bytes in the buffer, and transfers the connection back.
      for _ = 1, 7 do assert(c:send(assert(c:recv "line"), "\n")) end
      assert(net.transfer(c, home, n + 1))
    end)
  ]],
  left = [[
    local a, b = pair()
    local LINES = 16384
    local moves = 0
    local function line(i) return ("%06d "):format(i) .. ("x"):rep(57) end
    local function serve(c, n)
      moves = n
      if n < 40 then
        for _ = 1, 5 do assert(c:send(assert(c:recv "line"), "\n")) end
        return assert(net.transfer(c, right, ltask.self(), n + 1))
      end
      for data in function() return c:recv() end do assert(c:send(data)) end
      c:close()
    end
    net.on_transfer(serve)
    loop.fork(function()
      for i = 1, LINES do assert(a:send(line(i), "\n")) end
      a:shutdown "w"
    end)
    loop.fork(serve, b, 0)
    for i = 1, LINES do
      local got = assert(a:recv "line")
      assert(got == line(i), "line " .. i)
    end
    say(moves, a:recv())
  ]],
  out = { "40\tnil" },
})

two_loops("queued sends move with the connection, and are sent before the sends of the receiver", {
  right = [[ net.on_transfer(function(c) c:send "sent\n" c:close() end) ]],
  left = [[
    local http = require "lio.stream"
    local a, b = pair()
    -- The transfer stops this sender in the middle of its message: the unsent part is lost, and send reports it.
    local big = ("y"):rep(16 << 20)
    local told
    loop.fork(function() told = table.pack(b:send(big)) end)
    loop.sleep(0)
    say(b:transfer(right))
    loop.sleep(0)
    say(told[1], told[2], told[3] > 0 and told[3] < #big, told[4])
    local data = a:recv "all"
    say(#data == told[3] + 5, data:sub(-5) == "sent\n")
    return http
  ]],
  out = { "true", "nil\tclosed\ttrue\tclosed", "true\ttrue" },
})

two_loops("waits of other tasks end with closed, and the timeouts move with the connection", {
  right = [[ net.on_transfer(function(c) say(c:recv()) c:close() end) ]],
  left = [[
    local a, b = pair()
    b:timeout(0.05, 7)
    local results = {}
    for i, call in ipairs { function() return b:wait_closed() end, function() return b:recv() end } do
      if i == 2 then b:timeout(nil, 7) end
      loop.fork(function() results[i] = table.pack(call()) end)
    end
    loop.sleep(0)
    b:timeout(0.05, 7)
    assert(b:transfer(right))
    loop.sleep(0)
    say(results[1][1], results[1][2], results[2][1], results[2][2])
    a:recv()
  ]],
  out = { "nil\tclosed\tnil\tclosed", "nil\ttimeout\tnil\ttimeout" },
})

two_loops("without a receiving function the transfer returns a handle that the sender owns", {
  left = [[
    local a, b = pair()
    a:send "one\ntwo\n"
    b:recv "line"
    local handle = assert(net.transfer(b, right))
    say(math.type(handle), ltask.call(right, "recv", handle, "line"))
    local c = net.remote(right).connection(handle)
    c:send "three"
    say(a:recv())
    -- Transfers it back, to a handle of this loop's own service.
    local again = assert(c:transfer(ltask.self()))
    a:send "four"
    say(again:recv())
    again:close()
    say(a:recv())
  ]],
  out = { "integer\ttwo", "three", "four", "nil" },
})

two_loops("if a transfer fails, the caller keeps the connection, and no descriptor is left open", {
  services = { plain = "return {}" },
  left = [[
    local a, b = pair()
    local before = descriptors()
    b:timeout(1)
    a:send "one\ntwo\n"
    say(b:recv "line")
    local plain = ltask.spawn "plain"
    say(select(3, b:transfer(plain)), b:is_closed())
    say(select(3, b:transfer(999999)), b:is_closed())
    say(select(3, b:transfer(1)), b:is_closed())
    say(pcall(b.transfer, b, right, function() end))
    local _, wrong = pcall(b.transfer, b, "right")
    say((wrong:gsub("^.-:%d+: ", "")))
    _, wrong = pcall(b.transfer, b, 0)
    say((wrong:gsub("^.-:%d+: ", "")))
    say(b:recv "line")
    a:send "three"
    say(b:recv())
    -- The connection still has its timeout.
    say(select(4, b:recv()))
    b:send "four"
    say(a:recv(), descriptors() == before)
    b:close()
    say(b:transfer(right))
  ]],
  out = function(out)
    t.eq(kit.lines((out:gsub("Unsupport[^\n]*", "…"))), {
      "one", "refused\tfalse", "dead\tfalse", "refused\tfalse", "false\ttransfer: …",
      "bad argument #2 to 'transfer' (service expected, got string)",
      "bad argument #2 to 'transfer' (service expected, got 0)", "two", "three",
      "timeout", "four\ttrue", "nil\tclosed\tclosed",
    })
  end,
})

two_loops("an error in the receiving function is logged, and the connection is closed", {
  right = [[ net.on_transfer(function() error "no taste" end) ]],
  left = [[
    local a, b = pair()
    say(b:transfer(right))
    say(a:recv())
  ]],
  out = { "true", "nil" },
  err = "error in the receiver of a connection: .*no taste",
})

two_loops("if the target dies, no descriptor is left open in either service", {
  left = [[
    local before = descriptors()
    local io = ltask.spawn "lio"
    local ends = {}
    for i = 1, 20 do
      local a, b = pair()
      ends[i] = a
      loop.fork(function()
        if not b:transfer(io) then b:close() end
      end)
    end
    ltask.kill(io)
    for _, a in ipairs(ends) do
      a:recv()
      a:close()
    end
    say(eventually(function() return descriptors() <= before end))
  ]],
  out = { "true" },
})

kit.test("a service without a loop can move its connection from one loop to another", {
  main = [[
    local left, right = ltask.spawn "lio", ltask.spawn "lio"
    local net = require "lio.net".remote(left)
    local l = assert(net.listen("127.0.0.1", 0))
    local _, port = l:address()
    local a = assert(net.connect("127.0.0.1", port))
    local b = assert(l:accept())
    a:send "one\ntwo\nthree\n"
    say(b:recv "line")
    local c = assert(b:transfer(right))
    say(b:is_closed(), c:recv "line")
    ltask.kill(left)
    say(a:recv())
    say(c:recv "line", c:recv())
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq({ lines[1], lines[2], lines[4] }, { "one", "true\ttwo", "three\tnil" })
    t.ok(lines[3]:find "^nil", lines[3])
  end,
})

t.test("transfer raises in a loop without a service", function()
  netkit.run(function()
    local a, b = netkit.pair()
    local _ <close> = netkit.closing(a, b)
    t.raises("transfer: the loop does not belong to a service", a.transfer, a, 5)
    t.eq(a:is_closed(), false)
  end)
end)

t.finish()
