-- Inspection of services with waiting coroutines: the request "tasks", `inspect`, orphaned tasks and requests; and
-- further calls of the service library inside coroutines.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The source has four lines. The third line resumes a coroutine.
local nested <const> = [[
  local function nested(depth, f, ...)
    if depth == 0 then return f(...) end
    return coroutine.wrap(nested)(depth - 1, f, ...)
  end
]]

-- The task of line 5 waits in one nested coroutine, the task of line 6 in two, and the task of line 7 in three.
local busy <const> = nested .. [[
  ltask.fork(nested, 1, function() local r = ltask.sleep(100000) return r end)
  ltask.fork(nested, 2, function() local r = ltask.wait "my token" return r end)
  ltask.fork(nested, 3, function() local r = ltask.call(ltask.self(), "never") return r end)
  return { never = function() local r = ltask.wait "never" return r end }
]]

-- Waits until the service `a` handles the request `never` of the third task. By then all three tasks are waiting.
local settled <const> = [[
  local function settled(a)
    while true do
      for _, one in ipairs(ltask.syscall(a, "tasks")) do
        if one.traceback:find("busy.lua:8", 1, true) then return end
      end
      ltask.sleep(1)
    end
  end
]]

kit.test("the request tasks lists a service's tasks with their waits and the lines of their coroutines", {
  services = { busy = busy },
  main = settled .. [[
    local a = ltask.spawn "busy"
    settled(a)
    for _, how in ipairs { "call", "syscall" } do
      local list = ltask[how](a, "tasks")
      local function find(name)
        for _, one in ipairs(list) do
          if one.traceback:find(name, 1, true) then return one end
        end
      end
      for level = 1, 3 do
        local one = find("busy.lua:" .. 4 + level)
        local what = one.waits_for:find "service %d+" and "an answer" or one.waits_for
        say(level, one.status, what, one.age >= 0, one.thread)
        say(select(2, one.traceback:gsub("busy.lua:3:", "")), select(2, one.traceback:gsub("resumed by", "")))
      end
      say(#list >= 4)
    end
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 14, out)
    for i = 0, 7, 7 do
      t.ok(lines[i + 1]:find "^1\twaiting\ta timer\ttrue\tnil", out)
      t.ok(lines[i + 3]:find "^2\twaiting\t.*my token.*\ttrue\tnil", out)
      t.ok(lines[i + 5]:find "^3\twaiting\tan answer\ttrue\tnil", out)
      for level = 1, 3 do t.eq(lines[i + 2 * level], level .. "\t" .. level) end
      t.eq(lines[i + 7], "true")
    end
  end,
})

kit.test("a handler named tasks takes precedence for call, but not for syscall", {
  services = { own = "return { tasks = function(...) return 'mine', ... end }" },
  main = [[
    local a = ltask.spawn "own"
    say(ltask.call(a, "tasks", 1))
    say(type(ltask.syscall(a, "tasks")))
  ]],
  out = { "mine\t1", "table" },
})

kit.test("a task's age grows while it waits", {
  services = { busy = busy },
  main = [[
    local a = ltask.spawn "busy"
    local function oldest() return ltask.call(a, "tasks")[1].age end
    local before = oldest()
    ltask.sleep(3)
    say(oldest() >= before + 0.02)
  ]],
  out = { "true" },
})

kit.test("inspect's traceback shows nested coroutines", {
  services = { busy = busy },
  main = settled .. [[
    local a = ltask.spawn "busy"
    settled(a)
    local text = ltask.syscall(a, "inspect", "traceback")
    for line = 5, 7 do say(text:find("busy.lua:" .. line, 1, true) ~= nil) end
    say(select(2, text:gsub("busy.lua:3:", "")), select(2, text:gsub("resumed by", "")))
  ]],
  out = { "true", "true", "true", "6\t6" },
})

kit.test("an orphaned request is answered once with an error, and its <close> variables are closed", {
  services = { loses = nested .. [[
    local S = {}
    local function in_vain() ltask.wait {} return 1 end
    function S.lose(depth)
      local _ <close> = setmetatable({}, { __close = function() say("closed", depth) end })
      nested(depth, in_vain)
    end
    function S.collect() collectgarbage() end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "loses"
    local told = 0
    for depth = 0, 2 do
      ltask.fork(function()
        local ok, e = pcall(ltask.call, a, "lose", depth)
        local text = tostring(e)
        say("told", depth, ok, text:find "lost" ~= nil, text:find("loses.lua:6:", 1, true) ~= nil)
        told = told + 1
      end)
    end
    for _ = 1, 20 do
      ltask.call(a, "collect")
      ltask.sleep(0)
    end
    say(told)
    say(#ltask.syscall(a, "tasks"))
  ]],
  err = false,
  out = function(out)
    for depth = 0, 2 do
      t.eq(select(2, out:gsub("closed\t" .. depth .. "\n", "")), 1, out)
      t.eq(select(2, out:gsub("told\t" .. depth .. "\tfalse\ttrue\ttrue\n", "")), 1, out)
    end
    t.ok(out:find("\n3\n", 1, true), out)
  end,
})

kit.test("an orphaned fork or request without a caller is logged once; tasks that can be woken are not logged", {
  services = { loses = nested .. [[
    local S = {}
    local kept = {}
    local function nobody_comes() ltask.wait {} return 1 end
    function S.lose() nested(1, nobody_comes) end
    function S.keep()
      kept[#kept + 1] = {}
      say("kept", nested(2, ltask.wait, kept[#kept]))
    end
    function S.wake() for _, token in ipairs(kept) do ltask.wakeup(token, "woken") end end
    function S.collect() collectgarbage() end
    ltask.fork(nested, 2, nobody_comes)
    return S
  ]] },
  main = [[
    local a = ltask.spawn "loses"
    ltask.send(a, "lose")
    ltask.send(a, "keep")
    ltask.send(a, "keep")
    for _ = 1, 20 do
      ltask.call(a, "collect")
      ltask.sleep(0)
    end
    ltask.call(a, "wake")
    ltask.call(a, "collect")
  ]],
  err = false,
  out = function(out, err)
    local log = out .. err
    t.eq(select(2, log:gsub("is lost", "")), 2, log)
    t.ok(select(2, log:gsub("loses.lua:7: in function", "")) == 2, log)
    t.eq(select(2, out:gsub("kept\twoken\n", "")), 2, out)
  end,
})

kit.test("tasks that wait when their service or the system ends are not reported as orphaned", {
  services = { busy = busy, quits = nested .. [[
    for i = 1, 5 do ltask.fork(nested, i, function() ltask.wait {} end) end
    return { stop = function() collectgarbage() ltask.quit() end }
  ]] },
  main = [[
    ltask.spawn "busy"
    for _ = 1, 3 do
      local a = ltask.spawn "quits"
      pcall(ltask.call, a, "stop")
    end
    ltask.fork(function() coroutine.wrap(ltask.wait)({}) end)
    ltask.sleep(0)
    say "end"
  ]],
  out = { "end" },
})

kit.test("concurrent requests, spawns, names and modules that wait may be used inside coroutines", {
  services = {
    echo = [[
      local S = {}
      function S.echo(...) return ... end
      function S.label() return ltask.label() end
      return S
    ]],
    named = "ltask.register 'by name' return { hello = function(...) return 'hello', ... end }",
  },
  modules = { waits_while_loading = [[
    local ltask = require "ltask"
    ltask.sleep(1)
    return { coroutine.wrap(function() ltask.sleep(0) coroutine.yield "loaded" end)() }
  ]] },
  main = nested .. [[
    nested(3, function()
      local a = ltask.spawn "echo"
      say(ltask.call(a, "label"))
      local sum = 0
      for _, result in coroutine.wrap(function()
        local list = {}
        for i = 1, 10 do list[i] = { ltask.call, a, "echo", i } end
        for one, result in ltask.parallel(list) do coroutine.yield(one, result) end
      end) do sum = sum + result[1] end
      say(sum)
      local requests = ltask.async()
      for i = 1, 3 do requests:request(a, "echo", i) end
      nested(2, requests.wait, requests)
      ltask.uniqueservice "named"
      say(ltask.call(nested(2, ltask.queryservice, "by name"), "hello", "you"))
      say(nested(2, require, "waits_while_loading")[1])
    end)
  ]],
  out = { "echo", "55", "hello\tyou", "loaded" },
})

t.test("in a service that owns a loop, a generator may use sockets and calls", function()
  local dir = t.tmp()
  t.write(dir .. "/upper.lua", "return { upper = function(s) return s:upper() end }")
  t.write(dir .. "/main.lua", [[
    local ltask, loop, net = require "ltask", require "lio.loop", require "lio.net"
    loop.run(function()
      local upper = ltask.spawn "upper"
      local listener = assert(net.listen("127.0.0.1", 0))
      local _, port = listener:address()
      loop.fork(function()
        local connection = listener:accept()
        for _, word in ipairs { "one", "two", "three" } do
          connection:send(word, "\n")
          ltask.sleep(1)
        end
        connection:close()
      end)
      local connection = assert(net.connect("127.0.0.1", port))
      for word in coroutine.wrap(function()
        for line in coroutine.wrap(function()
          while true do coroutine.yield((connection:recv "line")) end
        end) do
          coroutine.yield(ltask.call(upper, "upper", line))
          loop.sleep(0.001)
        end
      end) do print(word) end
      connection:close()
      listener:close()
    end)
    ltask.send(1, "quit_ltask")
  ]])
  local r = t.run(("cd %s && timeout -k 1 60 %s --service main.lua"):format(t.quote(dir), t.quote(t.bin())))
  t.eq({ r.out, r.err, r.code }, { "ONE\nTWO\nTHREE\n", "", 0 })
end)

t.finish()
