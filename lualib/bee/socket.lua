-- `require "bee.socket"`: lio.socket with bee's calls; lio adds a short error code as a third result. Differences:
-- `fd` takes any descriptor, `bind` removes a stale unix socket, and an unknown protocol is an invalid option. Older
-- versions of bee call the module itself: `socket "tcp"`.

local debug <const> = debug or require "lio.debug"
local socket = require "lio.socket"
local object = require "bee.object"

local methods = {}
for name in ([[connect listen accept recv send sendv recvfrom sendto shutdown status info option handle detach
  close]]):gmatch "%S+" do
  methods[name] = name
end
methods.bind = "_bind_over"

-- A unix socket with bee's `bind`.
local unix = object("bee.socket", methods)

local PROTOCOLS <const> = { tcp = true, udp = true, tcp6 = true, udp6 = true, unix = true }

-- Raises for the arguments of `create`, at the caller's line.
local function refuse(...)
  local given = ...
  local what
  if type(given) == "string" or type(given) == "number" then
    what = "invalid option '" .. given .. "'"
  else
    what = "string expected, got " .. (select("#", ...) == 0 and "no value" or type(given))
  end
  local name = debug.getinfo(2, "n").name or "bee.socket.create"
  error("bad argument #1 to '" .. name .. "' (" .. what .. ")", 3)
end

-- `socket.create(protocol)`: `"tcp"`, `"udp"`, `"tcp6"`, `"udp6"` or `"unix"`. A socket, or nil and a message.
local function create(...)
  local protocol = ...
  if not PROTOCOLS[protocol] then refuse(...) end
  if protocol ~= "unix" then return socket.create(protocol) end
  local s, message, code = socket.create "unix"
  if not s then return nil, message, code end
  return unix(s)
end

local M = {}
for name, value in pairs(socket) do M[name] = value end
M.create = create
-- `socket.fd(handle [, no_ownership])`: an object for any descriptor, even one that is not a socket.
M.fd = socket._fd_of_any

return setmetatable(M, { __call = function(_, protocol) return create(protocol) end })
