-- Lua's manual, 2.6, 3.3.8 and 6.2, as a list of behaviours: close, `<close>` variables, and the errors that resume
-- returns and that wrap functions raise. Each behaviour is tested in all places of tests/kit/coroutine_places.lua.

local t = require "tests.kit"
local kit = require "tests.kit.coroutine_places"

local behaviour <const>, guard <const> = kit.behaviour, kit.guard
local pack <const> = table.pack
local here <const> = debug.getinfo(1, "S").short_src

behaviour("close of a suspended coroutine closes its variables in reverse order", function(c)
  local closed = {}
  local co = c.create(function()
    for i = 1, 2 do
      local _ <close> = guard(function() closed[#closed + 1] = "block " .. i end)
      if i == 2 then
        local _ <close> = guard(function(_, err) closed[#closed + 1] = { err = err } end)
        pcall(function()
          local _ <close> = guard(function() closed[#closed + 1] = "in a pcall" end)
          c.yield()
        end)
      end
    end
    closed[#closed + 1] = "went on"
  end)
  t.eq(pack(c.resume(co)), { true, n = 1 })
  t.eq(closed, { "block 1" })
  t.eq(pack(c.close(co)), { true, n = 1 })
  t.eq(closed, { "block 1", "in a pcall", {}, "block 2" })
  t.eq(c.status(co), "dead")
  t.eq(pack(c.resume(co)), { false, "cannot resume dead coroutine", n = 2 })
end)

behaviour("a coroutine that is closed before its start never runs", function(c)
  local ran = false
  local co = c.create(function() ran = true end)
  t.eq(pack(c.close(co)), { true, n = 1 })
  t.eq(c.status(co), "dead")
  t.eq(pack(c.resume(co)), { false, "cannot resume dead coroutine", n = 2 })
  t.eq(ran, false)
end)

behaviour("close of a dead coroutine returns true, each time", function(c)
  local co = c.create(function() return 1, 2 end)
  c.resume(co)
  for _ = 1, 3 do t.eq(pack(c.close(co)), { true, n = 1 }) end
  co = c.create(function() c.yield() end)
  c.resume(co)
  for _ = 1, 3 do t.eq(pack(c.close(co)), { true, n = 1 }) end
end)

behaviour("the first close of a coroutine that failed returns the error", function(c)
  local object = {}
  local co = c.create(function() error(object) end)
  t.eq(c.resume(co), false)
  local ok, err = c.close(co)
  t.eq(ok, false)
  t.ok(rawequal(err, object))
  t.eq(pack(c.close(co)), { true, n = 1 })
  t.eq(c.status(co), "dead")
end)

behaviour("after an error, <close> variables stay open until close closes them with the error", function(c)
  local seen
  local co = c.create(function()
    local value <close> = guard(function(self, err) seen = { self, err } end)
    c.yield(value)
    error("broken", 0)
  end)
  local _, value = c.resume(co)
  t.eq(pack(c.resume(co)), { false, "broken", n = 2 })
  t.is_nil(seen)
  t.eq(pack(c.close(co)), { false, "broken", n = 2 })
  t.ok(rawequal(seen[1], value))
  t.eq(seen[2], "broken")
end)

behaviour("close returns the error from a __close; the other variables are closed with this error", function(c)
  local told = {}
  local co = c.create(function()
    local _ <close> = guard(function(_, err) told[1] = err error("first", 0) end)
    local _ <close> = guard(function(_, err) told[2] = err error("second", 0) end)
    local _ <close> = guard(function(_, err) told[3] = err or "none" end)
    c.yield()
  end)
  c.resume(co)
  t.eq(pack(c.close(co)), { false, "first", n = 2 })
  t.eq(told, { "second", nil, "none" })
  t.eq(c.status(co), "dead")
  t.eq(pack(c.close(co)), { true, n = 1 })
end)

behaviour("close returns the error object of a __close unchanged", function(c)
  for _, object in ipairs { {}, 42, true, print } do
    local co = c.create(function()
      local _ <close> = guard(function() error(object) end)
      c.yield()
    end)
    c.resume(co)
    local ok, err = c.close(co)
    t.eq(ok, false)
    t.ok(rawequal(err, object))
  end
end)

behaviour("<close> variables may be nil and false", function(c)
  local co = c.create(function()
    local _ <close> = nil
    local _ <close> = false
    c.yield()
  end)
  c.resume(co)
  t.eq(pack(c.close(co)), { true, n = 1 })
end)

behaviour("the closing value of a for loop is closed too", function(c)
  local closed = 0
  local co = c.create(function()
    for i in function(_, i) return (i or 0) + 1 end, nil, nil, guard(function() closed = closed + 1 end) do
      c.yield(i)
    end
  end)
  t.eq(pack(c.resume(co)), { true, 1, n = 2 })
  t.eq(pack(c.resume(co)), { true, 2, n = 2 })
  t.eq(closed, 0)
  t.eq(pack(c.close(co)), { true, n = 1 })
  t.eq(closed, 1)
end)

behaviour("in Lua 5.4, close of the running coroutine raises", function(c, place)
  if kit.is_55 then return end
  if place.main then t.raises("cannot close a running coroutine", c.close, (c.running())) end
  local co
  co = c.create(function()
    t.raises("cannot close a running coroutine", c.close, co)
    c.yield()
    t.raises("cannot close a running coroutine", c.close, c.running())
    return "goes on"
  end)
  t.eq(pack(c.resume(co)), { true, n = 1 })
  t.eq(pack(c.resume(co)), { true, "goes on", n = 2 })
end)

behaviour("in Lua 5.5, a coroutine may close itself", function(c)
  if not kit.is_55 then return end
  local closed, went_on = {}, false
  local function body(how)
    local _ <close> = guard(function(_, err) closed[#closed + 1] = err or "no error" end)
    c.yield()
    if how == "named" then c.close(c.running()) else c.close() end
    went_on = true
  end
  for _, how in ipairs { "named", "default" } do
    local co = c.create(body)
    t.eq(pack(c.resume(co, how)), { true, n = 1 })
    t.eq(pack(c.resume(co)), { true, n = 1 })
    t.eq(c.status(co), "dead")
    t.eq(pack(c.resume(co)), { false, "cannot resume dead coroutine", n = 2 })
  end
  t.eq(closed, { "no error", "no error" })
  t.eq(went_on, false)
  local co = c.create(function()
    local _ <close> = guard(function() error("in its close", 0) end)
    c.close()
  end)
  t.eq(pack(c.resume(co)), { false, "in its close", n = 2 })
end)

behaviour("close of a normal coroutine raises, and nothing is closed", function(c)
  local outer
  local closed = false
  local first = c.running()
  outer = c.create(function()
    local _ <close> = guard(function() closed = true end)
    local inner = c.create(function()
      t.raises("cannot close a normal coroutine", c.close, outer)
      t.raises("cannot close a normal coroutine", c.close, first)
      c.yield()
      t.raises("cannot close a normal coroutine", c.close, outer)
      return "inner"
    end)
    t.eq(pack(c.resume(inner)), { true, n = 1 })
    t.eq(closed, false)
    return select(2, c.resume(inner))
  end)
  t.eq(pack(c.resume(outer)), { true, "inner", n = 2 })
  t.eq(closed, true)
end)

behaviour("a __close that close calls runs in the coroutine, and cannot yield", function(c)
  local seen
  local co
  co = c.create(function()
    local _ <close> = guard(function()
      seen = { (c.running()) == co, c.status(co), c.isyieldable(), pcall(c.yield) }
    end)
    c.yield()
  end)
  c.resume(co)
  t.eq(pack(c.close(co)), { true, n = 1 })
  t.eq({ seen[1], seen[2], seen[3], seen[4] }, { true, "running", false, false })
  t.ok(seen[5]:find "attempt to yield", seen[5])
end, { refuses = true })

behaviour("a __close may run, resume and close other coroutines", function(c)
  local seen = {}
  local inner = c.create(function()
    local _ <close> = guard(function() seen[#seen + 1] = "inner closed" end)
    while true do seen[#seen + 1] = c.yield() end
  end)
  local outer = c.create(function()
    c.resume(inner)
    local _ <close> = guard(function()
      c.resume(inner, "once more")
      seen[#seen + 1] = c.wrap(function() c.yield() return "a new one" end)() or "yielded"
      t.eq(pack(c.close(inner)), { true, n = 1 })
    end)
    c.yield()
  end)
  c.resume(outer)
  t.eq(pack(c.close(outer)), { true, n = 1 })
  t.eq(seen, { "once more", "yielded", "inner closed" })
end, { refuses = true })

behaviour("a coroutine may close one that it has not resumed", function(c)
  local closed = false
  local co = c.create(function()
    local _ <close> = guard(function() closed = true end)
    c.yield()
  end)
  c.wrap(function() c.resume(co) end)()
  t.eq(c.wrap(function() return c.close(co) end)(), true)
  t.eq(closed, true)
end)

behaviour("resume returns any error value unchanged", function(c)
  local function raise(value) error(value) end
  for _, object in ipairs { {}, print, 42, true, io.stdout } do
    local co = c.create(raise)
    local got = pack(c.resume(co, object))
    t.eq({ got.n, got[1] }, { 2, false })
    t.ok(rawequal(got[2], object))
  end
  t.eq(pack(c.resume(c.create(raise), false)), { false, false, n = 2 })
  t.eq(pack(c.resume(c.create(raise), nil)), { false, kit.no_error, n = 2 })
end)

behaviour("the position in an error message is where the error was raised", function(c)
  local line
  local co = c.create(function()
    c.yield()
    line = kit.line() error "here"
  end)
  c.resume(co)
  t.eq(pack(c.resume(co)), { false, here .. ":" .. line .. ": here", n = 2 })
  co = c.create(function() c.yield() line = kit.line() local _ = nil + c end)
  c.resume(co)
  local _, message = c.resume(co)
  t.ok(message:find(here .. ":" .. line .. ": attempt to perform arithmetic", 1, true), message)
end)

behaviour("a wrap function raises, and puts its caller's position before a string", function(c)
  local raised, called
  local f = c.wrap(function()
    c.yield()
    raised = kit.line() error "broken"
  end)
  f()
  local ok, message = pcall(function() called = kit.line() local _ = f() end)
  t.eq(ok, false)
  t.eq(message, ("%s:%d: %s:%d: broken"):format(here, called, here, raised))
  f = c.wrap(function() c.yield() error("bare", 0) end)
  f()
  ok, message = pcall(function() called = kit.line() local _ = f() end)
  t.eq({ ok, message }, { false, ("%s:%d: bare"):format(here, called) })
end)

behaviour("each of several nested wrap functions adds a position to an error", function(c)
  local lines = {}
  local function level(n)
    if n == 0 then
      c.yield()
      error("deep", 0)
    end
    local inner = c.wrap(level)
    inner(n - 1)
    c.yield()
    lines[n] = kit.line() local _ = inner()
  end
  local f = c.wrap(level)
  f(3)
  local _, message = pcall(f)
  local want = ("%s:%d: "):format(here, lines[1] or 0):rep(3) .. "deep"
  t.eq(message, want)
end)

behaviour("a wrap function that a C function calls adds no position", function(c)
  local f = c.wrap(function() c.yield() error("bare", 0) end)
  f()
  t.eq(pack(pcall(f)), { false, "bare", n = 2 })
end)

behaviour("a wrap function raises an error that is not a string unchanged", function(c)
  for _, object in ipairs { {}, print, 42, true, setmetatable({}, { __tostring = function() return "x" end }) } do
    local f = c.wrap(function() c.yield() error(object) end)
    f()
    local ok, err = pcall(function() f() end)
    t.eq(ok, false)
    t.ok(rawequal(err, object))
  end
end)

behaviour("a wrap function closes its coroutine before it raises", function(c)
  local told = {}
  local f = c.wrap(function()
    local _ <close> = guard(function(_, err) told[#told + 1] = err end)
    local _ <close> = guard(function(_, err) told[#told + 1] = err end)
    c.yield()
    error("broken", 0)
  end)
  f()
  local seen_by_caller
  local ok = xpcall(f, function(err)
    seen_by_caller = { #told, err }
  end)
  t.eq(ok, false)
  t.eq(told, { "broken", "broken" })
  t.eq(seen_by_caller, { 2, "broken" })
  t.raises("cannot resume dead coroutine", f)
end)

behaviour("an error in a __close replaces the error that a wrap function raises", function(c)
  local f = c.wrap(function()
    local _ <close> = guard(function(_, err) error(err .. " and worse", 0) end)
    c.yield()
    error("bad", 0)
  end)
  f()
  t.eq(pack(pcall(f)), { false, "bad and worse", n = 2 })
end)

behaviour("an error ends only the coroutines that do not catch it", function(c)
  local outer
  outer = c.create(function()
    local inner = c.create(function() c.yield() error("inner only", 0) end)
    t.eq(pack(c.resume(inner)), { true, n = 1 })
    t.eq(pack(c.resume(inner)), { false, "inner only", n = 2 })
    t.eq(c.status(inner), "dead")
    t.eq(c.status(outer), "running")
    c.yield "alive"
    return "end"
  end)
  t.eq(pack(c.resume(outer)), { true, "alive", n = 2 })
  t.eq(pack(c.resume(outer)), { true, "end", n = 2 })
end)

behaviour("if a message handler fails, xpcall returns an error and the coroutine continues", function(c)
  local co = c.create(function()
    c.yield()
    local ok, err = xpcall(error, function() error "in the handler" end, "x")
    t.eq(ok, false)
    t.ok(err ~= "x")
    c.yield "goes on"
    return "end"
  end)
  t.eq(pack(c.resume(co)), { true, n = 1 })
  t.eq(pack(c.resume(co)), { true, "goes on", n = 2 })
  t.eq(pack(c.resume(co)), { true, "end", n = 2 })
end)

behaviour("the traceback of a suspended or failed coroutine names its functions", function(c)
  local line
  local function at_the_bottom()
    c.yield()
    line = kit.line() error "broken"
  end
  local co = c.create(function() at_the_bottom() return 1 end)
  c.resume(co)
  t.ok(debug.traceback(co):find("at_the_bottom", 1, true), debug.traceback(co))
  c.resume(co)
  local trace = debug.traceback(co)
  t.ok(trace:find("at_the_bottom", 1, true) and trace:find(here .. ":" .. line .. ":", 1, true), trace)
end)

kit.finish()
