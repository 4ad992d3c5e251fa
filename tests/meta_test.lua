-- Compares the definitions in lualib/meta with the modules, and docs/api with the definitions.
-- Needs `ls` and `sh`. Serves one request on 127.0.0.1 to get a request and a response, and boots a scheduler
-- for the modules and classes that exist only in services.

local t = require "tests.kit"
local definitions = require "docs.definitions"
local page = require "docs.page"
local kit = require "tests.kit.ltask_system"

local lio = require "lio"
local socket = require "lio.socket"
local loop = require "lio.loop"
local net = require "lio.net"
local web = require "lio.webserver"
local websocket = require "lio.websocket"
local http_client = require "lio.http.client"

-- Modules that only the library's own files use. The files of services are internal too.
local INTERNAL <const> = {}
for name in ([[ lio.serve lio.test lio.check lio.new lio.repl lio.cert lio.command lio.line_editor lio.traceback
  lio.program_traceback
  lio.crypto.core lio.crypto.password lio.tls.core
  lio.stream lio.http lio.shared_writer lio.resolver lio.run_time lio.memory lio.task.core lio.task_list lio.service
  ltask.core
  lio.template.core lio.websocket.core
  lio.defer lio.watch_hooks lio.supervisor lio.misuse lio.options lio.debug lio.panics lio.alloc_failures bee.object
  ltask.callbacks ltask.concurrent ltask.coroutines ltask.errors ltask.exclusive_loop ltask.log ltask.log_output
  ltask.main ltask.main_thread ltask.quit_handler ltask.require ltask.root_client ltask.sessions
  skynet.argument skynet.boot skynet.callbacks skynet.clock skynet.config skynet.console skynet.crypt.core
  skynet.debug skynet.debug_console skynet.frames skynet.gate skynet.launcher skynet.missing
  skynet.inspect skynet.lifecycle skynet.manager skynet.message skynet.names skynet.packed_message skynet.protocol
  skynet.redirect skynet.registry_service skynet.request skynet.response skynet.select skynet.sockets skynet.task
  skynet.trace skynet.unhandled http.internal ]]):gmatch "%S+" do
  INTERNAL[name] = true
end

local pages = definitions.read(t.root)
local modules, by_name, classes = definitions.modules(pages), {}, {}
for _, module in ipairs(modules) do
  by_name[module.name] = module
  for _, class in ipairs(module.classes) do classes[class.name] = class end
end

local function read_file(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- Returns two tables, with names as keys: the functions and the fields that a class and its parents define.
local function defined(class)
  local functions, fields = {}, {}
  for _, name in ipairs(class.parents) do
    local parent = assert(classes[name], "no class " .. name)
    for key, f in pairs((defined(parent))) do functions[key] = f end
    for key, field in pairs(select(2, defined(parent))) do fields[key] = field end
  end
  for _, f in ipairs(class.functions) do functions[f.name] = f end
  for _, field in ipairs(class.fields) do fields[field.name] = field end
  return functions, fields
end

-- Returns two tables, with names as keys: the functions and the other values of a table. Names that begin with `_` are
-- left out.
local function found(values)
  local functions, others = {}, {}
  for name, value in pairs(values) do
    if type(name) == "string" and name:sub(1, 1) ~= "_" then
      if type(value) == "function" then functions[name] = value else others[name] = value end
    end
  end
  return functions, others
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Returns the paths of the guides: README.md, CHANGELOG.md and the pages of docs.
local function guides()
  local list = { "README.md", "CHANGELOG.md" }
  local pipe <close> = assert(io.popen("ls " .. t.quote(t.root .. "docs")))
  for file in pipe:lines() do
    if file:find "%.md$" then list[#list + 1] = "docs/" .. file end
  end
  return list
end

local function methods_of(object)
  local meta = getmetatable(object)
  -- The metatable of a session contains its methods.
  return type(meta.__index) == "table" and meta.__index or meta
end

-- Returns the upvalue of `f` that is named `wanted`; raises if there is none.
local function upvalue(f, wanted)
  for index = 1, 255 do
    local name, value = debug.getupvalue(f, index)
    if not name then break end
    if name == wanted then return value end
  end
  error("no upvalue " .. wanted)
end

-- Returns a table that maps the name of each class to its methods, and a table that maps names to the objects of a
-- served request.
local function gather()
  local all, seen = {}, {}
  local function add(name, object)
    all[name] = methods_of(object)
  end
  local sel <close> = assert(lio.create())
  add("lio.Selector", sel)
  add("lio.Waker", assert(sel:waker()))
  local folder <close> = assert(require("lio.file").folder(t.tmp()))
  add("lio.Folder", folder)
  local opened <close> = assert(folder:open "")
  add("lio.File", opened)
  local one, other = socket.pair()
  local _ <close> = one
  add("lio.Socket", one)
  add("lio.Endpoint", assert(socket.endpoint("inet", "127.0.0.1", 1)))
  local watcher <close> = assert(require("lio.signal").open "SIGUSR1")
  add("lio.SignalWatcher", watcher)
  add("lio.Timers", require("lio.timer").new())
  add("lio.Views", require("lio.template").new())
  add("lio.Log", web.log { file = function() end })
  add("lio.Encoder", require("lio.compress").encoder "gzip")
  add("lio.Decoder", require("lio.compress").decoder "gzip")
  add("lio.Hash", require("lio.crypto").hash "md5")
  local tls = require "lio.tls"
  local certificate, key = tls.self_signed()
  add("lio.TlsServer", assert(tls.server { cert = certificate, key = key }))
  add("lio.Authority", tls.authority())
  add("lio.Session", require("lio.web.session").new())
  add("lio.MemoryStore", web.memory_store())
  add("lio.RateLimit", web.rate_limit { rate = 1 })
  add("lio.Scope", require("lio.thread").scope())
  local clock <close> = require("lio.testing").clock()
  add("lio.TestClock", clock)
  local selector <close> = assert(require("bee.select").create())
  add("bee.Selector", selector)
  local epoll <close> = assert(require("bee.epoll").create(8))
  add("bee.Epoll", epoll)
  local connection <close> = assert(net.wrap(other))
  add("lio.Connection", connection)
  add("lio.Driver", require("lio.net.driver").of(net))

  local app = web.new()
  add("lio.App", app)
  local tester <close> = app:test()
  add("lio.TestClient", tester)
  app:use(function(req, res, next)
    next()
    if req.path == "/" then seen.req, seen.res = req, res end
    res.error = "of a handler"
  end)
  add("lio.Topic", websocket.topic())
  app:ws("/socket", function() end)
  app:get("/events", function(_, res) add("lio.Events", res:sse()) end)
  app:get("/", function(_, res) return res:status(201):header("X-Seen", "yes"):send "seen" end)
  loop.run(function()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    -- These modules are loaded when they are first used.
    t.ok(web.basic_auth and web.compress and web.cors and web.csrf and web.log and web.request_id and web.sessions)
    t.ok(web.compress and web.log and web.trust_proxy) -- these modules are loaded when they are first used
    t.ok(web.hsts and web.https_redirect)
    add("lio.Listener", listener)
    local udp <close> = assert(net.udp("127.0.0.1", 0))
    add("lio.Udp", udp)
    add("lio.Attempt", net.attempt())
    local server = assert(app:listen "127.0.0.1:0")
    all["lio.Server"] = upvalue(getmetatable(server).__index, "Methods")
    -- Only a server with TLS has all fields.
    seen.server = assert(app:listen("127.0.0.1:0", { tls = { cert = certificate, key = key } }))
    local _, port = server.listener:address()
    local client <close> = assert(net.connect("127.0.0.1", port, { timeout = 10 }))
    client:timeout(10, 10)
    client:send "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"
    client:recv("until", "0\r\n\r\n")
    local ws <close> = assert(websocket.connect(("ws://127.0.0.1:%d/socket"):format(port)))
    add("lio.WebSocket", ws)
    client:send "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    seen.answer = client:recv "all"
    local asking <close> = http_client.new()
    add("lio.HttpClient", asking)
    local response = assert(asking:get("http://127.0.0.1:" .. port))
    all["lio.HttpResponse"] = upvalue(getmetatable(response).__index, "Response")
    server:stop()
    seen.server:stop()
  end)
  local request = require "lio.web.request"
  seen.getters = request.getters
  all["lio.Request"] = request.Request
  all["lio.Response"] = methods_of(seen.res)
  all["skynet.Request"] = methods_of(require "skynet".request())
  all["lio.Part"] = require "lio.web.form_part".Part
  return all, seen
end

local instances, seen

-- Modules of the scheduler -----------------------------------------------------------------------

-- The lists of Rust functions that make up `ltask`. A function is added to its table when it is first used.
local NATIVE <const> = {
  { "modules/ltask/messages.rs", "FUNCTIONS" }, { "modules/ltask/time.rs", "FUNCTIONS" },
  { "modules/ltask/event.rs", "FUNCTIONS" }, { "modules/pack/mod.rs", "FUNCTIONS" },
  { "modules/ltask/calls.rs", "PUBLIC" }, { "modules/ltask/library.rs", "PUBLIC" },
}

local function native_names()
  local names = {}
  for _, one in ipairs(NATIVE) do
    local text = read_file(t.root .. "src/" .. one[1])
    local list = text:match("const " .. one[2] .. ": [^=]+=[%s%w!]*([%[{].-[%]}]);")
    assert(list, one[1] .. " has no " .. one[2])
    -- An entry is `step`, `module::step`, `name = step` or `name: FUNCTION`.
    for entry in list:sub(2, -2):gsub(",%s*$", ""):gmatch "[^,]+" do
      local path = assert(entry:match "^%s*([%w_:]+)", entry)
      names[#names + 1] = path:gsub(":$", ""):match "[%w_]+$"
    end
  end
  local list = read_file(t.root .. "src/modules/ltask/library.rs"):match "const MODULES: [^=]+=(.-)];\n"
  for name in list:gmatch '"([%w_]+)"' do names[#names + 1] = name end
  return table.concat(names, " ")
end

-- Writes one line for each function and other value of a module: module, name, and number of parameters or "value".
local SHOW <const> = [[
  local function show(module, name, value)
    local info = type(value) == "function" and debug.getinfo(value, "u")
    local kind = info and (info.isvararg and "..." or info.nparams) or "value"
    io.stdout:write(table.concat({ module, name, kind }, " "), "\n")
    io.stdout:flush()
  end
  local function show_all(module, values) for name, value in pairs(values) do show(module, name, value) end end
]]

-- Returns a function with `parameters` parameters; "..." means a variable number.
local function stand_in(parameters)
  if parameters == "..." then return function(...) return ... end end
  local names = {}
  for index = 1, tonumber(parameters) do names[index] = "p" .. index end
  return load("return function(" .. table.concat(names, ", ") .. ") end")()
end

-- Returns a table that maps the name of a module or class to substitutes for its functions that exist only in services.
-- A substitute has as many parameters as its function.
local function in_services()
  local out, err, code = kit.system {
    services = { alone = SHOW .. "show_all('ltask.exclusive', require 'ltask.exclusive') return {}" },
    config = {
      exclusive = { "alone" },
      root_initfunc = SHOW .. "show_all('ltask.root', require 'ltask.root')",
    },
    main = SHOW .. "local NAMES <const> = '" .. native_names() .. "'" .. [[

      for name in NAMES:gmatch "%S+" do show("ltask", name, ltask[name]) end
      show_all("ltask.Log", ltask.log)
      show_all("ltask.Async", getmetatable(ltask.async()).__index)
      show_all("ltask.Requests", getmetatable(ltask.request()).__index)
      for name in ("netpack socket socketchannel socketdriver"):gmatch "%a+" do
        show_all("skynet." .. name, require("skynet." .. name))
      end
      for name in ("snax.gateserver snax.msgserver http.httpd http.httpc http.url http.sockethelper"):gmatch "%S+" do
        show_all(name, require(name))
      end
      local channel = require("skynet.socketchannel").channel { host = "unused", port = 1 }
      show_all("skynet.Channel", getmetatable(channel).__index)
    ]],
  }
  t.eq({ err, code }, { "", 0 })
  -- This module is a function.
  local all = { ["snax.loginserver"] = {} }
  for module, name, kind in out:gmatch "(%S+) (%S+) (%S+)\n" do
    all[module] = all[module] or {}
    all[module][name] = kind == "value" and true or stand_in(kind)
  end
  return all
end

-- Fields of `ltask` that do not exist until they are assigned, or that do not exist in services.
local ASSIGNED <const> = { signal_handler = true, on_idle = true, start = true }

-- Returns the module `name`, or the table of its substitutes.
local function module_of(name)
  return instances and instances[name] or require(name)
end

t.test("the test has an instance of every class", function()
  instances, seen = gather()
  for name, functions in pairs(in_services()) do instances[name] = functions end
  local ltask = instances.ltask
  for name in pairs(ASSIGNED) do ltask[name] = true end
  instances["http.httpc"].timeout = true
  t.ok(seen.answer:find("^HTTP/1.1 201 "), seen.answer)
  for name, class in pairs(classes) do
    local is_module = by_name[name] ~= nil
    if #class.functions > 0 and not is_module then t.ok(instances[name], "no instance of " .. name) end
  end
end, { leaks = true })

t.test("every public module has definitions, and every definition has a module", function()
  local there = { skynet = true, ["lio.http.client"] = true, ["lio.net.driver"] = true }
  local native = read_file(t.root .. "src/modules/mod.rs"):match "const NATIVES: [^=]+= &(%b[]);"
  for name in native:gmatch '%(%s*"([%w_.]+)"' do there[name] = true end
  for _, folder in ipairs { "lio", "bee", "ltask", "skynet", "snax", "http" } do
    local pipe = assert(io.popen("ls " .. t.quote(t.root .. "lualib/" .. folder)))
    for file in pipe:lines() do
      local name = file:match "^(.*)%.lua$"
      if name then there[folder .. "." .. name] = true end
    end
    pipe:close()
  end
  for name in pairs(INTERNAL) do
    t.ok(there[name], name .. " is listed as internal but does not exist")
    there[name] = nil
  end
  t.eq(sorted(by_name), sorted(there))
end)

-- Both are loaded before the tests: `net` is filled when it is first accessed, and `ltask.start` loads other modules.
local _ = net.listen
require "ltask.start"

for _, module in ipairs(modules) do
  t.test(module.name .. ": the definitions match the functions of the module", function()
    local functions, fields = defined(module.classes[1])
    local real, values = found(module_of(module.name))
    t.eq(module.classes[1].name, module.name, "the first class is the module")
    t.eq(sorted(functions), sorted(real))
    t.eq(sorted(fields), sorted(values))
  end)

  for index = 2, #module.classes do
    local class = module.classes[index]
    if #class.functions > 0 then
      t.test(class.name .. ": the definitions match the methods", function()
        local functions = defined(class)
        t.eq(sorted(functions), sorted((found(instances[class.name]))))
      end)
    end
  end
end

t.test("lio.NetInstance: the definitions match the loop's instance", function()
  local functions = defined(classes["lio.NetInstance"])
  -- Only the module has these three functions.
  functions.new, functions.use, functions.remote = nil, nil, nil
  local real, values = found(loop.net)
  t.eq(sorted(functions), sorted(real))
  local own = {}
  for _, field in ipairs(classes["lio.NetInstance"].fields) do own[field.name] = true end
  t.eq(sorted(own), sorted(values))
end)

-- Checks that the Lua function `real` has as many parameters as its definition `f`. Functions with `...` are not
-- checked.
local function check_parameters(label, f, real)
  local info = debug.getinfo(real, "u")
  if info.isvararg then return end
  local count = #f.names + (f.is_method and 1 or 0)
  if f.names[#f.names] == "..." then return t.ok(false, label .. " accepts no further arguments") end
  t.eq(count, info.nparams, label .. ": number of parameters")
end

t.test("definitions have as many parameters as the functions", function()
  for _, module in ipairs(modules) do
    for index, class in ipairs(module.classes) do
      local real = index == 1 and module_of(module.name) or instances[class.name]
      for _, f in ipairs(class.functions) do
        -- Connections and datagram sockets, which have two timeouts, share this function.
        if not (class.name == "lio.Listener" and f.name == "timeout") then
          check_parameters(class.name .. "." .. f.name, f, real[f.name])
        end
      end
    end
  end
end)

t.test("every public function has a description, and its parameters are described in order", function()
  for _, module in ipairs(modules) do
    for _, class in ipairs(module.classes) do
      for _, f in ipairs(class.functions) do
        local label = class.name .. "." .. f.name
        t.ok(f.text:find "%.$", label .. " has no sentence")
        local described = {}
        for position, param in ipairs(f.params) do described[position] = param.name end
        if not f.private then t.eq(described, f.names, label) end
      end
    end
  end
end)

t.test("the fields of a request are defined", function()
  local _, fields = defined(classes["lio.Request"])
  for _, set_by_middleware in ipairs { "csrf_token", "id", "session", "user" } do
    t.ok(fields[set_by_middleware] ~= nil, set_by_middleware)
    fields[set_by_middleware] = nil
  end
  t.eq(sorted(fields), sorted(seen.getters))
end)

t.test("the fields of responses and servers exist", function()
  for name, object in pairs { ["lio.Response"] = seen.res, ["lio.Server"] = seen.server } do
    local _, fields = defined(classes[name])
    for field in pairs(fields) do
      t.ok(object[field] ~= nil, name .. " has no field " .. field)
    end
  end
end)

t.test("the options of an app are defined, with their defaults", function()
  local _, fields = defined(classes["lio.WebOptions"])
  t.eq(sorted(fields), sorted(web.defaults))
  for name, value in pairs(web.defaults) do
    local shown = value == math.huge and "math.huge" or tostring(value)
    t.ok(fields[name].text:find("default `" .. shown .. "`", 1, true), name .. " has another default: " .. shown)
  end
end)

t.test("all types that the definitions mention are defined", function()
  local known = {}
  for _, module in ipairs(modules) do
    for _, alias in ipairs(module.aliases) do known[alias.name] = true end
    for _, class in ipairs(module.classes) do known[class.name] = true end
  end
  local function check(label, list)
    for _, one in ipairs(list) do
      -- String literals are removed, because they are not names.
      for name in one.type:gsub('"[^"]*"', ""):gmatch "%f[%w](%l+%.[%w_]+)" do
        t.ok(known[name], label .. " mentions " .. name)
      end
    end
  end
  for _, module in ipairs(modules) do
    check(module.name, module.aliases)
    for _, class in ipairs(module.classes) do
      check(class.name, class.fields)
      for _, f in ipairs(class.functions) do
        local label = class.name .. "." .. f.name
        check(label, f.params)
        check(label, f.returns)
        for _, overload in ipairs(f.overloads) do check(label, overload) end
      end
    end
  end
end)

t.test("the scheduler's manual lists every name of its modules and every field of its configuration", function()
  local named = {}
  for words in read_file(t.root .. "docs/ltask.md"):gmatch "\n|([^\n]*)" do
    for name in words:gmatch "`([%w_]+)`" do named[name] = true end
    for name in words:gmatch "`log%.([%w_]+)`" do named[name] = true end
  end
  for _, name in ipairs { "ltask", "ltask.bootstrap", "ltask.exclusive", "ltask.root" } do
    local functions = defined(by_name[name].classes[1])
    for f in pairs(functions) do t.ok(named[f], name .. "." .. f .. " is missing") end
  end
  local _, fields = defined(classes["ltask.Config"])
  for field in pairs(fields) do t.ok(named[field], "the field " .. field .. " is missing") end
end)

t.test("docs/api is the output of docs/build.lua", function()
  local made = { ["README.md"] = page.index(pages) }
  for _, one in ipairs(pages) do made[one.name .. ".md"] = page.of(one) end
  local pipe = assert(io.popen("ls " .. t.quote(t.root .. "docs/api")))
  local there = {}
  for name in pipe:lines() do there[name] = true end
  pipe:close()
  t.eq(sorted(there), sorted(made), "run docs/build.lua")
  for name, text in pairs(made) do
    t.ok(read_file(t.root .. "docs/api/" .. name) == text, name .. " is not up to date: run docs/build.lua")
  end
end)

-- Regression: the guides named `attend` and `keep`, which lio.net no longer had.
t.test("the calls of lio.net and of its driver that the guides name exist", function()
  local driver, remote = require "lio.net.driver", {}
  for _, field in ipairs(classes["lio.RemoteNet"].fields) do remote[field.name] = true end
  local unknown = {}
  for _, path in ipairs(guides()) do
    local text = read_file(t.root .. path):gsub("lio%.net%.%l+", "")
    for separator, name in text:gmatch "%f[%w_]net([.:])([%l_]+)%f[^%l_]" do
      local is_file = name == "md" or name == "lua"
      if not (is_file or separator == "." and (net[name] or remote[name])) then
        unknown[#unknown + 1] = path .. ": net" .. separator .. name
      end
    end
    for name in text:gmatch "%f[%w_]driver[.:]([%l_]+)" do
      local is_known = name == "lua" or driver[name] or driver.of(net)[name]
      if not is_known then unknown[#unknown + 1] = path .. ": driver:" .. name end
    end
  end
  t.eq(unknown, {})
end)

t.finish()
