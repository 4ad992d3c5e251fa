-- Creates an object of each kind that the library has, in a state in which its methods have work to do. Used by the
-- generated suites (panics, reentry_generated), which find the methods in metatables, and fail if a kind has no maker.

local t = require "tests.kit"
local reentry = require "tests.kit.reentry"
local compress = require "lio.compress"
local crypto = require "lio.crypto"
local passwords = require "lio.crypto.password"
local file = require "lio.file"
local http = require "lio.http"
local lio = require "lio"
local shared_writer = require "lio.shared_writer"
local resolver = require "lio.resolver"
local signal = require "lio.signal"
local socket = require "lio.socket"
local template = require "lio.template"
local timer = require "lio.timer"
local tls = require "lio.tls"

local M = {}

local REQUEST <const> = "POST /a%20b?c=d HTTP/1.1\r\nHost: a\r\nCookie: e=f\r\nTransfer-Encoding: chunked\r\n\r\n"
  .. "5\r\nhello\r\n0\r\nTrailer: g\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"

local function answers()
  local s, far, sel = reentry.connection()
  far:send "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"
  local a = http.responses(s, 100000, 100)
  a:expect(false)
  return a, function() reentry.close(s, far, sel) end
end

local dir
local function folder()
  if not dir then
    dir = t.tmp()
    t.write(dir .. "/a", ("text"):rep(1000))
  end
  return dir
end

-- A table that maps the name of each kind to its maker. A maker returns a new object and, if the object needs other
-- objects, a function that closes them.
M.makers = {
  ["lio.compress.encoder"] = function() return compress.encoder "gzip" end,
  ["lio.compress.decoder"] = function()
    local decoder = compress.decoder "gzip"
    decoder:write(compress.encoder "gzip":finish(("text"):rep(1000)))
    return decoder
  end,
  ["lio.connection"] = function()
    local s, far, sel = reentry.connection()
    far:send(("line\n"):rep(1000))
    return s, function() reentry.close(s, far, sel) end
  end,
  ["lio.crypto.hash"] = function() return crypto.hash("sha256"):update "text" end,
  ["lio.crypto.jobs"] = function()
    local sel = lio.create()
    local jobs = passwords.jobs(sel:waker())
    for _ = 1, 2 do
      jobs:start("hash", "secret", 8, 1, 1)
      for _ in sel:wait(10) do end -- luacheck: ignore 542
    end
    return jobs, function() sel:close() end
  end,
  ["lio.endpoint"] = function() return socket.endpoint("inet", "127.0.0.1", 80) end,
  ["lio.file"] = function() return assert(file.open(folder() .. "/a")) end,
  ["lio.folder"] = function() return assert(file.folder(folder())) end,
  ["lio.http.response_head"] = function()
    local a, close = answers()
    return select(2, a:head()), close
  end,
  ["lio.http.responses"] = answers,
  ["lio.request"] = function()
    local routes = http.routes()
    routes:add("POST", "/:name")
    return reentry.request(routes, REQUEST)
  end,
  ["lio.http.dispatcher"] = function()
    local server, close = reentry.server(http.routes(), REQUEST)
    return server:dispatcher(), close
  end,
  ["lio.http.memory_client"] = function()
    local server, close = reentry.server(http.routes(), REQUEST)
    local client = server:connect("127.0.0.1", 1, 100000, 100)
    client:expect(false)
    client:send(REQUEST)
    return client, close
  end,
  ["lio.html"] = function() return http.html "<p>text</p>" end,
  ["lio.http.networks"] = function()
    local networks = http.networks()
    networks:add "10.0.0.0/8"
    return networks
  end,
  ["lio.template.views"] = function()
    return template.new({ templates = { text = "{{ 1 }} {{ a }}" }, globals = { a = { "b" } } }).core
  end,
  ["lio.http.server"] = function() return reentry.server(http.routes(), REQUEST) end,
  ["lio.http.multipart"] = function()
    local m = http.multipart("multipart/form-data; boundary=b", 10, 10000)
    for name in ("one two"):gmatch "%a+" do
      m:feed("--b\r\nContent-Disposition: form-data; name=" .. name .. "\r\nX: y\r\n\r\n" .. ("z"):rep(1000) .. "\r\n")
    end
    m:feed "--b--\r\n"
    m:end_body()
    return m
  end,
  ["lio.http.routes"] = function()
    local routes = http.routes()
    routes:add("GET", "/:a<%d+>/:b")
    return routes
  end,
  ["lio.http.site"] = function()
    return http.site(file.folder(folder()), { precompressed = true, cache_control = "max-age=1" })
  end,
  ["lio.http.spool"] = function()
    local spool = http.spool(folder())
    spool:write(("x"):rep(1000))
    return spool
  end,
  ["lio.shared_writer"] = function()
    local s, far, sel = reentry.connection()
    return shared_writer.find(s:shared_writer()), function() reentry.close(s, far, sel) end
  end,
  ["lio.resolver"] = function()
    local sel = lio.create()
    local r = resolver.new(sel:waker())
    for i = 1, 2 do
      r:query("127.0.0." .. i)
      for _ in sel:wait(10) do end -- luacheck: ignore 542
    end
    return r, function() sel:close() end
  end,
  ["lio.selector"] = function()
    local sel = lio.create()
    local near, far = socket.pair()
    far:send "x"
    sel:event_add(near, 1, { "udata" })
    return sel, function() reentry.close(near, far, sel) end
  end,
  ["lio.selector loop"] = function()
    local sel = lio.create()
    local near, far = socket.pair()
    far:send "x"
    sel:event_add(near, 1)
    -- When a loop over its events has been left early, the selector creates a guard for each later loop.
    local function leave() for _ in sel:wait(1) do break end end
    local guard
    for _ = 1, 3 do
      leave()
      guard = select(4, sel:wait(0))
    end
    return guard, function() reentry.close(near, far, sel) end
  end,
  ["lio.signals"] = function()
    local signals = signal.open "SIGUSR2"
    return signals, function() signals:close() end
  end,
  ["lio.socket"] = function()
    local near, far = socket.pair()
    far:send(("x"):rep(1000))
    return near, function() reentry.close(near, far) end
  end,
  ["lio.tls.authority"] = function() return tls.authority().core end,
  ["lio.tls.client"] = function() return assert(tls.client()) end,
  ["lio.tls.server"] = function()
    local cert, key = tls.self_signed()
    return assert(tls.server { cert = cert, key = key })
  end,
  ["lio.timers"] = function()
    local timers = timer.new()
    for i = 1, 4 do timers:add(0, i) end
    return timers
  end,
  ["lio.waker"] = function()
    local sel = lio.create()
    return sel:waker(), function() sel:close() end
  end,
}

-- The kinds of a VM's internal objects, which programs never get.
M.internal = {
  ["lio.probe"] = true,
  ["lio.store"] = true,
  ["lio.task.core"] = true,
  ["lio.websocket.deflate"] = true,
  ["lio.websocket.request"] = true,
}

-- The executable alone has line editors.
local has_editor, line_editor = pcall(require, "lio.line_editor")
if has_editor then
  M.makers["lio.line_editor"] = function()
    local selector = lio.create()
    return line_editor.open(selector:waker()), function() selector:close() end
  end
else
  M.internal["lio.line_editor"] = true
end

-- The arguments with which methods are called. The object replaces "self".
local ARGUMENTS <const> = {
  {},
  { 1 },
  { 3, "text" },
  { "line" },
  { "text", "a", "b", "c" },
  { 12345.5, 67.5 },
  { 200, "text/plain", "body", { "A", "1", "B", 2 } },
  { "GET", "/x/:y", { 1, 2 } },
  { "self", 1, "self" },
  { {}, {}, {} },
  { function() return 1 end, function() return 2 end },
}

-- The arguments for methods that would otherwise block the thread or have effects outside the suite.
local ONLY <const> = {
  wait = { { 0 } },
  _select_wait = { { 0 } },
  _epoll_wait = { { 0 } },
  link = { {}, { {} }, { "/dev/null/no folder" } },
  bind = { {}, { {} }, { "/dev/null/no folder" } },
  _bind_over = { {}, { {} }, { "/dev/null/no folder" } },
  recvfrom = { { 10 } },
  detach = {},
}

-- Returns the lists of arguments with which the method `name` of `object` is called.
function M.arguments(name, object)
  local list = {}
  for i, one in ipairs(ONLY[name] or ARGUMENTS) do
    local copy = { n = #one }
    for j, value in ipairs(one) do copy[j] = value == "self" and object or value end
    list[i] = copy
  end
  return list
end

-- Returns a sorted list of the names of all kinds that the sources declare.
function M.kinds()
  local names, sources = {}, t.quote(t.root .. "src")
  local list = io.popen("grep -rh --include=*.rs \"const NAME: &'static str\" " .. sources)
  local text = list:read "a"
  list:close()
  for name in text:gmatch "str = \"([^\"]+)\"" do
    -- The names of kinds in unit tests begin differently.
    if name:find "^lio" or name:find "^ltask" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- Calls `visit(name, make, methods)` for each kind that has a maker. `methods` maps names to the kind's methods and
-- metamethods that are C functions.
function M.each(visit)
  for _, name in ipairs(M.kinds()) do
    local make = M.makers[name]
    if make then
      local object, close = make()
      local metatable = debug.getmetatable(object)
      assert(metatable and metatable.__name == name, name)
      local methods = {}
      if type(metatable.__index) == "table" then
        for key, f in pairs(metatable.__index) do
          if type(f) == "function" and debug.getinfo(f, "S").what == "C" then methods[key] = f end
        end
      end
      for key, f in pairs(metatable) do
        if type(f) == "function" and debug.getinfo(f, "S").what == "C" then methods[key] = f end
      end
      visit(name, make, methods)
      if close then close() end
    end
  end
end

return M
