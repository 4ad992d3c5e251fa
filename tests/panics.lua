-- A panic in any function that the library binds becomes a Lua error, and the VM continues. `make panics` runs this
-- suite in a build whose functions panic on demand (src/lua/panics.rs). The suite finds the functions in the tables of
-- modules, in the metatables of every kind of object, and among the searchers.

local t = require "tests.kit"
require "lio"
local panics = require "lio.panics"

-- Makes the next bound function panic, and calls `f`. If `f` was this function, returns the panic's message; otherwise
-- returns nil and the first two results of pcall.
local function broken(f, ...)
  panics.after(1)
  local done, message = pcall(f, ...)
  -- If the call of `f` entered no bound function, this call of `panics.after` is the one that panics.
  if not pcall(panics.after, 0) then
    panics.after(0)
    return nil, done, message
  end
  return message
end

local function is_panic(message)
  return type(message) == "string" and message:find "internal error: on purpose" ~= nil
end

-- The functions of the standard library.
local plain = {}
for _, name in ipairs { "_G", "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" } do
  for _, value in pairs(package.loaded[name]) do
    if type(value) == "function" then plain[value] = true end
  end
end

local function is_bound(f) return type(f) == "function" and not plain[f] and debug.getinfo(f, "S").what == "C" end

local count = 0

-- Checks that each bound function in the table `list`, and in tables inside it, fails with its panic.
local function check(where, list, depth)
  local names = {}
  for name in pairs(list) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local value = list[name]
    -- A panic in `__gc` does not become a Lua error.
    if is_bound(value) and name ~= "__gc" then
      local message = broken(value)
      t.ok(is_panic(message), ("%s.%s: %s"):format(where, name, tostring(message)))
      count = count + 1
    elseif type(value) == "table" and depth > 0 and value ~= list then
      check(where .. "." .. name, value, depth - 1)
    end
  end
end

-- Some modules can be opened only in a service.
for _, name in ipairs { panics.modules() } do
  if name ~= "lio.panics" and name ~= "lio.debug" then
    t.test(name .. ": a panic in the module or its functions is caught", function()
      local done, module = pcall(require, name)
      if not done then
        t.ok(not tostring(module):find "internal error", module)
      elseif type(module) == "table" then
        check(name, module, 2)
      end
    end, { leaks = true })
  end
end

t.test("a panic in the loader of any module is caught", function()
  for _, name in ipairs { panics.modules() } do
    local loader
    for _, search in ipairs(package.searchers) do
      local found, place = search(name)
      if type(found) == "function" and (place == ":built-in:" or is_bound(found)) then loader = found end
    end
    t.ok(loader, name)
    t.ok(is_panic(broken(loader, name)), name)
    count = count + 1
  end
end, { leaks = true })

t.test("a panic in a searcher of modules is caught", function()
  local found = 0
  for _, search in ipairs(package.searchers) do
    if is_panic(broken(search, "lio.net")) then found = found + 1 end
  end
  t.ok(found >= 1)
end)

t.test("a panic in any method of any kind of object is caught", function()
  local objects = require "tests.kit.objects"
  objects.each(function(name, make, methods)
    for method, f in pairs(methods) do
      local object, close = make()
      local message, done, result = broken(f, object)
      if method ~= "__gc" then
        t.ok(is_panic(message), ("%s:%s: %s %s %s"):format(name, method, message, done, result))
        count = count + 1
      end
      -- After `__gc` the object has no value, so `close` may fail.
      if close then t.ok(pcall(close) or method == "__gc", name) end
    end
  end)
end, { leaks = true })

-- In exchange `n`, the `n`th call of a bound function panics.
t.test("any step of a server's work may panic", function()
  local socket, lio = require "lio.socket", require "lio"
  local loop, web, net = require "lio.loop", require "lio.webserver", require "lio.net"
  local log = {}
  local function exchange(n)
    local app = web.new()
    app:on_error(function() end)
    app:post("/:id", function(req) return { id = req.params.id, body = req:body(), q = req.query.q } end)
    local body, server
    local done, message = pcall(loop.run, function()
      local _ <close> = setmetatable({}, { __close = function() loop.stop() end })
      local near, other = socket.pair()
      server = app:server()
      server:admit(net.wrap(near))
      local client = net.wrap(other)
      panics.after(n)
      client:send "POST /7?q=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
      local id = loop.timeout(0.2, function() client:close() end)
      body = client:recv "all"
      loop.cancel(id)
      pcall(panics.after, 0)
    end)
    if not pcall(panics.after, 0) then pcall(panics.after, 0) end
    log[#log + 1] = tostring(message)
    -- Otherwise this server's work would count in the next exchange.
    if server then loop.run(function() server:stop(0) end) end
    return done and body and tostring(body):find '"id":"7"' ~= nil
  end
  t.ok(exchange(0), log[#log])
  local whole = 0
  for n = 1, 80 do
    if exchange(n) then whole = whole + 1 end
    t.ok(lio.now() > 0)
  end
  t.ok(exchange(0), log[#log])
  t.ok(whole > 20 and whole < 60, whole)
end, { leaks = true })

t.test("the suite has tested many functions", function() t.ok(count > 250, count) end)

t.finish()
