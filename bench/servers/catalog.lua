-- The servers of the suite `http`: how each server is started, which kinds of request it supports, and what it
-- requires. All servers respond with the same status, body and Content-Type.

local process = require "harness.process"
local quote = process.quote

local M = {}

-- The kinds of request: the path, the type and the length of the response body, and the length of the request body if
-- the request has one.
M.kinds = {
  hello = { path = "/", type = "text/plain", length = 14 },
  request = { path = "/request", type = "text/plain", length = 14 },
  echo = { path = "/echo", type = "application/octet-stream", length = 1024, body = 1024 },
  large = { path = "/large", type = "text/plain", length = 100 * 1024 },
  json = { path = "/users/7/posts/42", type = "application/json", length = 24 },
  small_file = { path = "/static/1k.txt", type = "text/plain", length = 1024 },
  large_file = { path = "/static/1m.txt", type = "text/plain", length = 1024 * 1024 },
  stream = { path = "/stream", type = "text/plain", length = 8 * 128 },
}

-- The kinds that the slowest server is measured with: only a few, because measuring it takes a long time.
local SLOW <const> = { hello = true, echo = true, json = true }
local EVERY <const> = { hello = true, echo = true, large = true, json = true, stream = true }

-- -----------------------------------------------------------------------------------------------------------
-- Requirements of the servers

local static
-- Returns the folder of the static files. The first call creates the folder and the files.
local function static_folder()
  if static then return static end
  static = process.folder() .. "/static"
  assert(os.execute("mkdir " .. static))
  for name, size in pairs { ["1k.txt"] = 1024, ["100k.txt"] = 100 * 1024, ["1m.txt"] = 1024 * 1024 } do
    local file = assert(io.open(static .. "/" .. name, "wb"))
    file:write((("x"):rep(127) .. "\n"):rep(size // 128))
    file:close()
  end
  return static
end

local INTERPRETERS <const> = { "lua5.4", "lua5.3", "luajit", "lua5.1" }
local found = {}
-- Returns the first interpreter that can load a module, or nil.
local function interpreter(module)
  if found[module] == nil then
    found[module] = false
    for _, name in ipairs(INTERPRETERS) do
      if process.succeeds(("%s -e 'require \"%s\"'"):format(name, module)) then
        found[module] = name
        break
      end
    end
  end
  return found[module] or nil
end

local function nginx()
  return process.run("PATH=$PATH:/usr/sbin command -v nginx"):match "%S+"
end

local MODULES <const> = "/usr/lib/nginx/modules"

-- Creates a configuration from the file `name` of bench/peers. Returns the command that starts nginx with this
-- configuration.
local function nginx_command(name, port)
  local folder = ("%s/nginx-%d"):format(process.folder(), port)
  assert(os.execute("mkdir " .. folder))
  local values = { PORT = port, FOLDER = folder, STATIC = static_folder(), MODULES = MODULES }
  local file = assert(io.open(folder .. "/nginx.conf", "w"))
  file:write((process.text(process.here .. "peers/" .. name):gsub("@(%u+)@", values)))
  file:close()
  return ("%s -p %s -c %s/nginx.conf -e stderr"):format(nginx(), folder, folder)
end

-- Returns a server that is a script of bench/peers. It requires the Lua module `module`, which is in a Debian package.
local function lua_peer(name, file, module, package, kinds)
  return {
    name = name, peer = true, kinds = kinds or EVERY,
    missing = function()
      if not interpreter(module) then return "is not installed (Debian package: " .. package .. ")" end
    end,
    command = function(port)
      return ("%s %s %d"):format(interpreter(module), quote(process.here .. "peers/" .. file), port)
    end,
    version = function()
      return ("(dpkg-query -W -f '${Version}\\n' %s; %s -v 2>&1) | tr '\\n' ' '"):format(package, interpreter(module))
    end,
  }
end

-- -----------------------------------------------------------------------------------------------------------
-- The servers

-- The servers in the order of their turns. `kinds` is the set of kinds that a server supports; `missing()` returns the
-- reason why the server cannot be started, or nil; `command(port, kind, workers)` returns the command that starts the
-- server; `version()` returns a command that prints its version.
M.servers = {
  {
    name = "baseline",
    kinds = setmetatable({}, { __index = function() return true end }),
    missing = function()
      if process.text(process.examples .. "/baseline") == "" then
        return "is not built: cargo build --release --examples"
      end
    end,
    command = function(port, kind) return ("%s/baseline %d %s"):format(quote(process.examples), port, kind) end,
  },
  {
    name = "lio",
    kinds = setmetatable({}, { __index = function() return true end }),
    missing = function() end,
    command = function(port, _, workers)
      return ("%s %sservers/http.lua %d %s %s"):format(quote(process.lio), process.here, port, static_folder(),
        workers or "")
    end,
  },
  {
    name = "nginx", peer = true,
    kinds = { hello = true, large = true, json = true, small_file = true, large_file = true },
    missing = function() if not nginx() then return "is not installed (Debian package: nginx)" end end,
    command = function(port) return nginx_command("nginx.conf", port) end,
    version = function() return nginx() .. " -v 2>&1" end,
  },
  {
    name = "nginx Lua", peer = true,
    kinds = EVERY,
    missing = function()
      if not nginx() or process.text(MODULES .. "/ngx_http_lua_module.so") == "" then
        return "is not installed (Debian packages: nginx, libnginx-mod-http-lua)"
      end
    end,
    command = function(port) return nginx_command("nginx_lua.conf", port) end,
    version = function() return "dpkg-query -W -f '${Version}\\n' libnginx-mod-http-lua" end,
  },
  lua_peer("luv", "luv_server.lua", "luv", "lua-luv"),
  lua_peer("cqueues", "cqueues_server.lua", "cqueues", "lua-cqueues"),
  lua_peer("lua-http", "lua_http_server.lua", "http.server", "lua-http", SLOW),
  {
    name = "Node", peer = true, kinds = EVERY,
    missing = function()
      if not process.succeeds "command -v node" then return "is not installed (Debian package: nodejs)" end
    end,
    command = function(port) return ("node %s %d"):format(quote(process.here .. "peers/node.js"), port) end,
    version = function() return "node --version" end,
  },
}

return M
