-- `require "bee.socket"`: lio.socket with bee's functions. Unlike in bee, a failed call also returns a short error code
-- as its third result. Unlike in lio.socket, `fd` accepts any descriptor, `bind` removes a stale unix socket, and an
-- unknown protocol is reported as an invalid option. Programs for older versions of bee call the module itself, as in
-- `socket("tcp")`.

local debug <const> = debug or require "lio.debug"
local socket = require "lio.socket"
local object = require "bee.object"

local methods = {}
for name in ([[connect listen accept recv send sendv recvfrom sendto shutdown status info option handle detach
  close]]):gmatch "%S+" do
  methods[name] = name
end
methods.bind = "_bind_over"

-- Gives a unix socket bee's methods, which include bee's `bind`.
local unix = object("bee.socket", methods)

local PROTOCOLS <const> = { tcp = true, udp = true, tcp6 = true, udp6 = true, unix = true }

-- Raises the error for an invalid argument of `create`, at the line that called `create`.
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

-- `socket.create(protocol)` returns a socket, or nil, message, code. `protocol` is `"tcp"`, `"udp"`, `"tcp6"`, `"udp6"`
-- or `"unix"`.
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
-- `socket.fd(handle [, no_ownership])` returns an object for any descriptor, even if the descriptor is not a socket.
M.fd = socket._fd_of_any

return setmetatable(M, { __call = function(_, protocol) return create(protocol) end })
