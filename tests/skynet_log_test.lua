-- The log of the Skynet compatibility API: `skynet.error`, traces, and errors that pass through several services.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

kit.test("skynet.error writes its values to the log, separated by spaces", {
  main = [[ skynet.error("text", 1, nil, true) ]],
  out = function(out) t.ok(out:find "^%[.*%]%[INFO%]%(3 main%) text 1 nil true\n$", out) end,
})

kit.test("a trace passes through a service that does not use skynet", {
  services = { native = "return { lua = function(...) return ... end }" },
  main = [[
    local native = skynet.newservice "native"
    skynet.trace "x"
    say(skynet.call(native, "lua", 1, 2))
    say(skynet.unpack(skynet.rawcall(native, "lua", skynet.pack(3))))
    say(skynet.tracetag())
  ]],
  out = function(out)
    local said, traced = {}, {}
    for _, line in ipairs(kit.lines(out)) do
      local event = line:match "<TRACE :00000003%-1> %d+%.%d+ (%a+)"
      table.insert(event and traced or said, event or line)
    end
    t.eq(said, { "1\t2", "3", ":00000003-1" })
    t.eq(traced, { "trace", "call", "resume", "call", "resume" })
  end,
})

kit.test("a trace includes the coroutines of the traced task", {
  services = { far = [[
    skynet.start(function()
      skynet.dispatch("lua", function()
        skynet.retpack(coroutine.wrap(function() return skynet.tracetag() end)())
      end)
    end)
  ]] },
  main = [[
    local far = skynet.newservice "far"
    coroutine.wrap(function() skynet.trace() end)()
    say(skynet.tracetag())
    say(coroutine.wrap(function()
      local tag = skynet.tracetag()
      skynet.sleep(0)
      return tag, skynet.call(far, "lua")
    end)())
    skynet.fork(function() say("another", skynet.tracetag()) end)
    skynet.yield()
  ]],
  out = function(out)
    local said, traced = {}, { [3] = {}, [4] = {} }
    for _, line in ipairs(kit.lines(out)) do
      local id, event = line:match "%((%d+) .-<TRACE :00000003%-1> %d+%.%d+ (.*)"
      table.insert(event and traced[tonumber(id)] or said, event or line)
    end
    t.eq(said, { ":00000003-1", ":00000003-1\t:00000003-1", "another\tnil" })
    local call = table.remove(traced[3], 4)
    t.ok(call:find "^call @.*main%.lua:%d+$", call)
    t.eq(traced[3], { "trace", "sleep", "resume", "resume", "sleep", "resume" })
    t.eq(traced[4], { "request", "response", "end" })
  end,
})

kit.test("each service that an error passes logs it, and logs each traceback once per message", {
  services = { one = [[
    local depth = ...
    skynet.start(function()
      local next = depth > 0 and skynet.newservice("one", depth - 1)
      skynet.dispatch("lua", function(_, _, ...)
        if depth == 0 then error "no luck" end
        skynet.retpack(skynet.call(next, "lua", ...))
      end)
    end)
  ]] },
  main = [[
    local one = skynet.newservice("one", 2)
    skynet.send(one, "lua")
    -- The answer to this call arrives after the message above was handled.
    local ok, err = pcall(skynet.call, one, "lua")
    say(ok, #err)
  ]],
  err = false,
  out = function(out, err)
    -- The error has one traceback of each of the three services and one of the caller.
    t.eq(kit.lines(out), { "false\t4" })
    local heads, tracebacks = {}, {}
    for line in err:gmatch "[^\n]+" do
      local head = line:match "^%[.*%[ERROR%]%((.*)$"
      heads[#heads + 1] = head and head:gsub("/%S*/", ""):gsub("session %d+", "session N")
      local id = line:match "^in service (%d+) "
      if id then tracebacks[id] = (tracebacks[id] or 0) + 1 end
    end
    table.sort(heads)
    t.eq(heads, {
      "4 one) error in a request from :00000003, session N: one.lua:5: no luck",
      "4 one) one.lua:5: no luck (a message from service 3)",
      "5 one) error in a request from :00000004, session N: one.lua:5: no luck",
      "5 one) error in a request from :00000004, session N: one.lua:5: no luck",
      "6 one) error in a request from :00000005, session N: one.lua:5: no luck",
      "6 one) error in a request from :00000005, session N: one.lua:5: no luck",
    })
    t.eq(tracebacks, { ["4"] = 2, ["5"] = 2, ["6"] = 2 })
  end,
})

t.finish()
