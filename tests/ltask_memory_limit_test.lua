-- Memory limits of services (`ltask.mem_limit`): responses, requests and kills of a service at its limit.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Regression: the error was logged and not raised, and the caller waited forever.
kit.test("a call raises an error if the caller has no memory for the response", {
  services = {
    big = "local S = {} function S.big() local v = {} for i = 1, 200000 do v[i] = { i } end return v end return S",
    small = [[
      local S = {}
      function S.ask(id)
        ltask.mem_limit(2 << 20)
        local ok, e = pcall(ltask.call, id, "big")
        ltask.mem_limit(0)
        return ok, tostring(e):match "not enough memory" or e
      end
      return S
    ]],
  },
  main = [[
    local big, small = ltask.spawn "big", ltask.spawn "small"
    say(ltask.call(small, "ask", big))
    say(ltask.call(small, "ask", big))
  ]],
  err = false,
  out = function(out) t.eq(kit.said(out), { "false\tnot enough memory", "false\tnot enough memory" }) end,
})

-- Regression: an emergency collection started the collector, although it must be stopped until the call returns.
kit.test("no finalizer runs inside a native call, even at a memory limit", {
  main = [[
    if _VERSION == "Lua 5.4" then
      collectgarbage("incremental", 1, 400, 40)
    else
      collectgarbage("param", "pause", 0)
    end
    local early = 0
    local function arm()
      setmetatable({}, { __gc = function()
        for level = 3, 8 do
          local info = debug.getinfo(level, "f")
          if info and info.func == ltask.mem_count then early = early + 1 end
        end
        arm()
      end })
    end
    for spare = 8, 2000, 8 do
      arm()
      local used = ltask.mem_count({}).memory
      ltask.mem_limit(used + spare)
      pcall(ltask.mem_count)
      ltask.mem_limit(0)
    end
    say(early)
  ]],
  out = { "0" },
})

-- Serves a request whose handler runs `code` with `spare` KiB of memory.
local function out_of_memory(name, code, spare)
  kit.test(name, {
    main = ([[
      local app = require("lio.webserver").new()
      app:get("/x/:n", function(req)
        ltask.mem_limit(ltask.mem_count({}).memory + (%d << 10))
        %s
      end)
      app:on_error(function(value, req, res, text)
        ltask.mem_limit(0)
        return 500, value .. "\n" .. text
      end)
      local client <close> = app:test()
      say(client:get("/x/1").body)
    ]]):format(spare, code),
    err = "",
    out = function(out)
      t.ok(out:find "not enough memory\nin the handler of GET /x/:n %(.-main%.lua:%d+%): not enough memory", out)
    end,
  })
end

-- Lua calls no message handler if memory runs out, so there is no traceback.
out_of_memory("the error of a web handler that has no memory names the handler", "return ('x'):rep(100 << 20)", 2048)

-- Regression: in Lua 5.5 there was no room on the stack to report the error, so the client waited forever.
for _, spare in ipairs { 256, 512, 768, 1024, 1792, 2304 } do
  out_of_memory(("a web handler whose small objects need more than %d KiB gets an error"):format(spare),
    "local list = {} for i = 1, 1000000 do list[i] = { i } end return #list", spare)
end

-- Regression: there was no room on the stack for the response either.
for _, spare in ipairs { 256, 512, 768, 1024, 1792, 2304 } do
  kit.test(("a web handler that catches an error for lack of %d KiB responds"):format(spare), {
    main = ([[
      local app = require("lio.webserver").new()
      app:get("/", function(req)
        ltask.mem_limit(ltask.mem_count({}).memory + (%d << 10))
        local _, e = pcall(function()
          local list = {}
          for i = 1, 1000000 do list[i] = { i } end
          return #list
        end)
        return e, 503
      end)
      local client <close> = app:test()
      local response = client:get "/"
      ltask.mem_limit(0)
      say(response.status, response.body)
    ]]):format(spare),
    err = "",
    out = { "503\tnot enough memory" },
  })
end

-- A service whose request `limit` sets a limit slightly above the memory that it uses.
local limited <const> = [[
  local S = {}
  function S.limit()
    collectgarbage()
    ltask.mem_limit(ltask.mem_count().memory + 3000)
  end
  function S.take() return "taken" end
  function S.ping() return "pong" end
  return S
]]

-- Regression: the code that responds with an error was loaded under the same limit, and the second error ended the
-- service.
kit.test("a service at its memory limit responds with errors, and continues", {
  services = { limited = limited },
  config = { grace = 0.2 },
  main = [[
    local id = ltask.spawn "limited"
    ltask.call(id, "limit")
    local big = {}
    for i = 1, 100000 do big[i] = { i } end
    for _ = 1, 3 do
      local ok, e = pcall(ltask.call, id, "take", big)
      say(ok, tostring(e):match "not enough memory" or e)
    end
    say(ltask.call(id, "ping"))
  ]],
  err = false,
  out = function(out)
    local refused <const> = "false\tnot enough memory"
    t.eq(kit.said(out), { refused, refused, refused, "pong" })
  end,
})

-- Regression: the code of `quit` was also loaded under the limit, so the service could not be ended, and the end of the
-- system took the whole grace period.
kit.test("a service at its memory limit can be killed", {
  services = { limited = limited },
  main = [[
    local id = ltask.spawn "limited"
    ltask.call(id, "limit")
    local killed = ltask.kill(id)
    local till = ltask.counter() + 30
    local dead
    repeat
      ltask.sleep(1)
      dead = not pcall(ltask.call, id, "ping")
    until dead or ltask.counter() > till
    say(killed, dead)
  ]],
  err = false,
  out = function(out) t.eq(kit.said(out), { "true\ttrue" }) end,
})

t.finish()
