-- In each function that the library binds, the first allocation of Lua memory fails, then the second, and so on, until
-- the call succeeds. Each call raises an error, leaks nothing, and leaves an object that can be used or closed.
-- `make alloc-failures` runs this suite in a build whose allocators fail on demand (src/lua/alloc_failures.rs). The
-- suite finds the functions as panics.lua does. Allocations of Rust code do not fail: without memory, Rust ends the
-- process.

local t = require "tests.kit"
local kit = require "tests.kit.alloc_failures"
local failures = require "lio.alloc_failures"
local http = require "lio.http.client"
local loop = require "lio.loop"
local objects = require "tests.kit.objects"
local public_calls = require "tests.kit.public_calls"
local web = require "lio.webserver"

local swallowed = {}
function kit.on_returned(name) swallowed[name] = (swallowed[name] or 0) + 1 end

-- The functions of the standard library.
local plain = {}
for _, name in ipairs { "_G", "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" } do
  for _, value in pairs(package.loaded[name]) do
    if type(value) == "function" then plain[value] = true end
  end
end

local function is_bound(f) return type(f) == "function" and not plain[f] and debug.getinfo(f, "S").what == "C" end

local function sorted(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

-- Fills the VM's pool of buffers, which would otherwise grow during the sweeps.
for _ = 1, 100 do
  local connection, close = objects.makers["lio.connection"]()
  connection:unread "x"
  close()
end

t.test("creating any kind of object", function()
  for _, name in ipairs(sorted(objects.makers)) do
    local make = objects.makers[name]
    -- The first object loads modules and creates files, which the next ones use.
    local _, first_close = make()
    if first_close then first_close() end
    kit.sweep("new " .. name, function()
      local close
      return function()
        local object
        object, close = make()
        return object
      end, {}, function() if close then close() end end
    end)
  end
end, { leaks = true })

objects.each(function(name, make, methods)
  t.test(name .. ": the methods", function()
    for _, method in ipairs(sorted(methods)) do
      local f = methods[method]
      for number = 1, method == "__gc" and 1 or #objects.arguments(method) do
        kit.sweep(("%s:%s %d"):format(name, method, number), function()
          local object, close = make()
          local given = objects.arguments(method, object)[number]
          return f, { object, table.unpack(given, 1, given.n) }, function(_, _, failed)
            if failed then
              -- The object can be used, or raises an error.
              local _, message = pcall(f, object, table.unpack(given, 1, given.n))
              t.ok(not tostring(message):find "internal error", message)
            end
            if close then pcall(close) end
          end
        end)
      end
    end
  end, { leaks = true })
end)

-- The functions of native modules that change the process or the modules themselves, that make an object of any
-- descriptor, or that take long with some of the arguments.
local LEFT_OUT <const> = {
  ["lio.alloc_failures"] = true, ["lio.debug"] = true, ["lio.line_editor"] = true, ["lio.panics"] = true,
  ["lio.signal"] = true, ["lio.supervisor"] = true, ["lio.task.core"] = true, ["ltask.bootstrap"] = true,
  ["lio.http.define_request_fields"] = true, ["lio.http.serve"] = true, ["lio.socket.chmod"] = true,
  ["lio.socket.fd"] = true,
  ["lio.socket._fd_of_any"] = true, ["lio.crypto.password.run"] = true, ["lio.crypto.password.post"] = true,
  ["lio.stream.register"] = true, ["lio.stream.register_socket"] = true, ["lio.stream.set_holder"] = true,
  ["lio.stream.set_reader_queued"] = true, ["lio.stream.set_recv_timeout"] = true, ["lio.timer.pause"] = true,
  ["lio.timer.resume"] = true, ["lio.timer.advance"] = true, ["lio.timer.real"] = true,
  ["lio.tls.core.set_check_interval"] = true,
}

t.test("the functions of native modules, with different arguments", function()
  for _, module in ipairs { failures.modules() } do
    local opened, functions = pcall(require, module)
    if LEFT_OUT[module] or not opened or type(functions) ~= "table" then goto continue end
    for _, name in ipairs(sorted(functions)) do
      local f = functions[name]
      local full = module .. "." .. tostring(name)
      if is_bound(f) and not LEFT_OUT[full] then
        for number = 1, #objects.arguments(name) do
          kit.sweep(full .. " " .. number, function() return f, objects.arguments(name)[number] end)
        end
      end
    end
    ::continue::
  end
end, { leaks = true })

-- Calls of native functions that programs reach through the library only.
local NATIVE <const> = {
  { "co.resume", "co.create(print_nothing)" }, { "co.resume", "coroutine.create(print_nothing)", "1", "2" },
  { "co.wrap", "print_nothing" }, { "co.wrap(print_nothing)" }, { "co.status", "co.create(print_nothing)" },
  { "co.close", "co.create(print_nothing)" }, { "co.running" },
  { "password.is_outdated", "password_hash", "8", "1", "1" }, { "password.run", "'hash'", "'secret'", "8", "1", "1" },
  { "http.boundary", "'multipart/form-data; boundary=x'" }, { "http.check_field", "'X-A'", "'b'" },
  { "http.choose_response", "{ 'text/html', 'application/json' }", "'application/json'" },
  { "http.escape_html", "'<p>'" }, { "http.html", "'<p>'" }, { "http.text_of_html", "http.html '<p>'" },
  { "http.media_type", "'a.html'" }, { "http.parse_urlencoded", "'a=b&c=%20d&a=e'", "10" },
  { "http.percent_encode", "'a b'" }, { "http.reason", "404" }, { "http.body_of", "{ a = 1 }" },
  { "http.routes" }, { "http.networks" },
  { "json.encode", "{ 1, { a = 'b', c = { true, 1.5 } } }", "{ pretty = true }" },
  { "json.decode", "'[1,{\"a\":[\"bc\",null,1.5]},\"\\\\u00e4\"]'" },
  { "tls.self_signed", "{ 'localhost' }" },
  { "traceback.shorten", "debug.traceback()" },
  { "md5.sum", "'x'" }, { "md5.sumhexa", "'x'" }, { "md5.hmacmd5", "'x'", "'y'" }, { "md5.exor", "'xy'", "'zz'" },
  { "crypt.base64encode", "'x'" }, { "crypt.base64decode", "'eA=='" }, { "crypt.hexencode", "'x'" },
  { "crypt.hexdecode", "'78'" }, { "crypt.desencode", "'12345678'", "'text'" },
  { "crypt.desdecode", "'12345678'", "crypt.desencode('12345678', 'text')" }, { "crypt.hashkey", "'x'" },
  { "crypt.dhexchange", "'12345678'" }, { "crypt.dhsecret", "'12345678'", "'87654321'" }, { "crypt.randomkey" },
  { "crypt.hmac64", "'12345678'", "'12345678'" }, { "crypt.hmac_hash", "'12345678'", "'x'" },
  { "crypt.hmac_sha1", "'x'", "'y'" }, { "crypt.sha1", "'x'" }, { "crypt.xor_str", "'xy'", "'z'" },
  { "frames.frame", "'x'" }, { "frames.new" },
  { "pack", "1", "'x'", "{ { a = 'b' } }" }, { "unpack", "1", "('x'):rep(100)", "{ { a = 'b' } }" },
}

local bootstrap <const> = require "ltask.bootstrap"
local natives <const> = {
  co = require "lio.coroutine", password = require "lio.crypto.password", http = require "lio.http",
  json = require "lio.json", tls = require "lio.tls.core", traceback = require "lio.traceback", md5 = require "md5",
  crypt = require "skynet.crypt.core", frames = require "skynet.frames", coroutine = coroutine, debug = debug,
  print_nothing = function(...) return ... end,
  password_hash = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
}

-- A packed message is memory that belongs to the program.
function natives.pack(...) bootstrap.remove(bootstrap.pack(...)) end

function natives.unpack(...)
  local message, size = bootstrap.pack(...)
  local done, problem = pcall(bootstrap.unpack, message, size)
  bootstrap.remove(message, size)
  if not done then error(problem, 0) end
end

t.test("functions of native modules, with correct arguments", function()
  for _, one in ipairs(NATIVE) do
    local text = ("return %s(%s)"):format(one[1], table.concat(one, ", ", 2))
    local f = assert(load(text, "=program", "t", natives))
    kit.sweep(text, function() return f, {} end)
  end
end, { leaks = true })


-- Regression: after a memory error, the number belonged to an object without a reference, and was closed later.
t.test("a descriptor that socket.fd does not take for lack of memory still belongs to the caller", function()
  local socket = require "lio.socket"
  for _, name in ipairs { "fd", "_fd_of_any" } do
    kit.sweep("socket." .. name, function()
      local a, b = socket.pair()
      local number = a:detach()
      return socket[name], { number }, function(returned, taken)
        collectgarbage()
        if not returned then taken = assert(socket.fd(number)) end
        t.eq(taken:send "x", 1)
        t.eq(b:recv(1), "x")
        taken:close()
        b:close()
      end
    end)
  end
end, { leaks = true })

-- Calls that run in a task. If the task waits, the allocations up to the wait have failed in turn.
t.test("every public function, in tasks of a loop", function()
  local problems = {}
  loop.run(function()
    for _, list in ipairs(public_calls.lists) do
      if not list.in_requests and not list.without_loop then
        for _, one in ipairs(list.calls) do
          local text = ("%s(%s)"):format(one[1], table.concat(one, ", ", 2))
          -- A detached descriptor belongs to the program.
          if not text:find "detach" then
            local done, problem = pcall(kit.sweep_in_tasks, text)
            if not done then problems[#problems + 1] = problem end
          end
        end
      end
    end
    loop.stop(0)
  end)
  t.eq(problems, {})
end, { leaks = true })

t.test("every method of requests and responses, in handlers of requests", function()
  local problems = {}
  loop.run(function()
    local app = web.new()
    local handler
    app:on_error(function() return 500, "" end)
    app:post("/", function(req, res) handler(req, res) return "" end)
    local server = assert(app:listen "127.0.0.1:0")
    local function request(f)
      handler = f
      http.post(server.url, { form = { a = 1 }, timeout = 60 })
    end
    for _, list in ipairs(public_calls.lists) do
      for _, one in ipairs(list.in_requests and list.calls or {}) do
        local text = ("%s(%s)"):format(one[1], table.concat(one, ", ", 2))
        local done, problem = pcall(kit.sweep_in_requests, text, request)
        if not done then problems[#problems + 1] = problem end
      end
    end
    server:stop()
  end)
  t.eq(problems, {})
end, { leaks = true })

-- Memory may run out while the error is reported.
t.test("the variables of a task that fails are closed", function()
  local task = require "lio.task"
  local on_error = task.on_error
  local _ <close> = setmetatable({}, { __close = function() task.on_error = on_error end })
  task.on_error = function() end
  kit.sweep("a task that fails", function()
    local has_begun, is_closed = false, false
    local closing = setmetatable({}, { __close = function() is_closed = true end })
    local function fail()
      local _ <close> = closing
      has_begun = true
      error("problem", 0)
    end
    return task.spawn, { fail }, function() t.eq(is_closed, has_begun) end
  end)
end, { leaks = true })

-- Regression: if memory ran out while the system was created, the VM could not start another one.
t.test("the start of a system", function()
  local ltask = require "ltask"
  local dir = t.tmp()
  t.write(dir .. "/quits.lua", [[ require("ltask").quit() return {} ]])
  kit.sweep("ltask.start", function()
    local config = { service_path = dir .. "/?.lua", bootstrap = { "quits" }, core = { worker = 1 } }
    return ltask.start, { config }, function(returned, value, failed) t.ok(returned or failed, value) end
  end)
end, { leaks = true })

print(("%d calls, %d failed allocations, %d calls returned"):format(kit.calls, kit.points, kit.returned))
for _, kind in ipairs(sorted(kit.errors)) do print(kit.errors[kind], kind) end
for _, name in ipairs(sorted(swallowed)) do print("returned", swallowed[name], name) end
t.finish()
