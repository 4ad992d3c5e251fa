--- For the suites webservice_*_test: a system with the service `lio.webservice` in a child process, and its clients in
-- the suite. In redirect mode, the tunnel of examples/webservice owns the sockets.
-- Invariant: the system ends when `system:stop()` is called; otherwise its process is killed after a minute.

local http = require "tests.kit.raw_http"
local ltaskkit = require "tests.kit.ltask_system"
local loop = require "lio.loop"
local t = require "tests.kit"

local kit = {}

--- The modes in which every behaviour is tested.
kit.modes = { "direct", "redirect" }

local control <const> = [[
local ltask = require "ltask"
local loop = require "lio.loop"
local dir, mode, tunnel_script = ...
local function say(...) io.stdout:write(table.concat({ ... }, " ") .. "\n") io.stdout:flush() end
local conf = %s
conf.addr, conf.port, conf.mode = "127.0.0.1", 0, mode
if mode == "redirect" then conf.tunnel = ltask.spawn_service { name = "lio", args = { tunnel_script } } end
loop.run(function()
  local web = ltask.spawn "lio.webservice"
  local ok, url, port = pcall(ltask.call, web, "start", conf)
  if not ok then
    io.stderr:write(tostring(url), "\n")
    return ltask.send(1, "quit_ltask")
  end
  say("port", port)
  %s
  loop.wait "a signal"
end)
]]

local System = {}
System.__index = System

--- Starts and returns a system. `spec.conf` is the source of the table for `start`, in which the folder `spec.dir`
-- (default: a new one) replaces `DIR`. `spec.modules` maps names to the sources of Lua modules. `spec.descriptors` is
-- the number of descriptors that the system may open. `spec.after` is code that the main script runs when the service
-- is ready.
function kit.start(mode, spec)
  local dir = spec.dir or t.tmp()
  local sources = { services = spec.services, modules = {}, config = spec.config or {} }
  local conf = (spec.conf or "{}"):gsub("DIR", dir)
  sources.modules.control = control:format(conf, spec.after or "")
  local tunnel = t.root .. "examples/webservice/tunnel.lua"
  local folder, program = ltaskkit.write(sources, 2)
  for name, source in pairs(spec.modules or {}) do
    t.run("mkdir -p " .. t.quote(folder .. "/" .. (name:match "^(.*)/" or "")))
    t.write(folder .. "/" .. name .. ".lua", source)
  end
  program = program:gsub("local code", function()
    return ("config.bootstrap = { { name = 'lio', args = { %q, %q, %q, %q } } }\nlocal code"):format(
      folder .. "/control.lua", dir, mode, tunnel)
  end)
  t.write(folder .. "/program.lua", program)
  local limit = spec.descriptors and ("ulimit -n %d && "):format(spec.descriptors) or ""
  local command = limit .. ("cd %s && exec timeout --foreground -k 1 60 %s program.lua 2>errors"):format(
    t.quote(folder), ltaskkit.host())
  local child = t.spawn("sh -c " .. t.quote(command))
  local ok, port = pcall(child.expect, child, "^port (%d+)")
  if not ok then error(tostring(port) .. "\n" .. t.run("cat " .. folder .. "/errors").out, 0) end
  return setmetatable({ child = child, port = math.tointeger(tonumber(port)), dir = dir, folder = folder,
    mode = mode }, System)
end

--- Returns a new client. Must be called in a loop.
function System:open(opts)
  return http.open(self.port, opts)
end

--- Sends bytes on a new connection, in a separate loop, and returns the response.
function System:ask(bytes, method)
  local response
  loop.run(function()
    local c <close> = self:open()
    response = c:ask(bytes, method)
  end)
  return response
end

--- Sends a request as `client:request` does, on a new connection in a separate loop, and returns the response.
function System:request(...)
  local list, response = table.pack(...), nil
  loop.run(function()
    local c <close> = self:open()
    response = c:request(table.unpack(list, 1, list.n))
  end)
  return response
end

--- Returns the system's output on standard error.
function System:errors()
  local file <close> = assert(io.open(self.folder .. "/errors"))
  return file:read "a"
end

--- Ends the system with a signal. Returns its exit code and its output.
function System:stop()
  self.child:kill()
  local out = self.child:all()
  return self.child:close(), out
end

--- For each mode, runs a test that calls `f(system, mode)` with a new system.
function kit.test(name, spec, f)
  for _, mode in ipairs(kit.modes) do
    t.test(name .. " [" .. mode .. "]", function()
      local system = kit.start(mode, spec)
      local ok, problem = xpcall(f, debug.traceback, system, mode)
      local code = system:stop()
      if not ok then error(problem .. "\n" .. system:errors(), 0) end
      if not spec.errors then t.eq(system:errors(), "", "standard error") end
      t.eq(code, 0, "exit code")
    end)
  end
end

return kit
