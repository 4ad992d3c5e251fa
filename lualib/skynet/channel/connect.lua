-- How a socketchannel connects: to its host, then to its further addresses, again after a while if it must continue,
-- and with the program's authentication. Part of skynet.socketchannel.
--
-- Invariant: one coroutine of the channel connects at a time; the others wait in `channel.waiting`.

local core = require "ltask.core"
local ltask = require "ltask"
local receive = require "skynet.channel.receive"
local socket = require "skynet.socket"

local running <const> = coroutine.running

local M = {}

-- The time between two rounds of tries, in centiseconds: it grows by STEP after each round, up to LONGEST.
local STEP <const>, LONGEST <const> = 100, 1000

local socket_error <const> = receive.error

local function log(format, ...)
  core.log("info", format:format(...))
end

-- `disconnect(channel, sock)`: closes a connection of the channel, if it is its last one.
function M.disconnect(channel, sock)
  if not sock then return end
  if channel.sock == sock then channel.sock = false end
  receive.close(sock)
end

-- One connect ---------------------------------------------------------------------------------

-- Returns the host and the port of an address of the channel; nil if the place is behind the last one.
local function address(channel, place)
  if place == 1 then return channel.host, channel.port end
  local one = channel.backup[place - 1]
  if type(one) == "table" then return one.host, one.port or channel.port end
  return one, channel.port
end

local function watch_overload(channel, id)
  local f = channel.options.overload
  if not f then return end
  local is_overloaded = false
  socket.warning(id, function(_, kibibytes)
    if is_overloaded == (kibibytes > 0) then return end
    is_overloaded = kibibytes > 0
    f(is_overloaded)
  end)
end

-- Runs the program's authentication. Returns true; or nil and an error.
local function authenticate(channel, sock)
  local auth = channel.options.auth
  if not auth then return true end
  channel.auth_task, channel.is_changed = running(), false
  local ok, problem = pcall(auth, channel)
  channel.auth_task = false
  if channel.is_changed then return nil, "changed" end
  if ok and not sock.is_over then return true end
  M.disconnect(channel, sock)
  if not ok and problem ~= socket_error then log("socket: auth failed: %s", tostring(problem)) end
  return nil, ok and socket_error or problem
end

-- Connects to one address. Returns true; or nil and an error.
local function connect_to(channel, host, port)
  local id, problem = socket.open(host, port)
  if not id then return nil, problem end
  if channel.options.nodelay then require "skynet.socketdriver".nodelay(id) end
  local sock = receive.open(id, channel.options.response)
  if channel.closed then
    receive.close(sock)
    return nil, socket_error
  end
  channel.sock = sock
  watch_overload(channel, id)
  receive.start(sock)
  return authenticate(channel, sock)
end

-- Tries each address once, and begins at the one that follows the last failed one. Returns true; or nil and an error.
local function try_all(channel)
  local count, tried = 1 + #channel.backup, 0
  local problem
  while tried < count and not channel.closed do
    if channel.address > count then channel.address = 1 end
    local ok
    ok, problem = connect_to(channel, address(channel, channel.address))
    if ok then return true end
    if problem == "changed" then
      count, tried = 1 + #channel.backup, 0
    else
      tried, channel.address = tried + 1, channel.address + 1
    end
  end
  return nil, channel.closed and socket_error or problem
end

-- Several tries -------------------------------------------------------------------------------

local function try(channel, once)
  local pause = 0
  while true do
    local ok, problem = try_all(channel)
    if ok or once or channel.closed then return ok, problem end
    log("socket: connect to %s:%s failed: %s", channel.host, tostring(channel.port), tostring(problem))
    pause = math.min(pause + STEP, LONGEST)
    ltask.sleep(pause)
  end
end

-- Returns true if the channel can be used now, false if it is closed, nil if it must connect.
local function state(channel)
  local sock = channel.sock
  if sock and not sock.is_over then
    if not channel.auth_task or channel.auth_task == running() then return true end
  elseif channel.closed then
    return false
  end
end

local function wake_all(channel)
  local list = channel.waiting
  channel.waiting, channel.is_connecting = {}, false
  for _, token in ipairs(list) do ltask.wakeup(token) end
end

local connecting_meta <const> = { __close = function(one) wake_all(one.channel) end }

-- `connect(channel, once)`: connects, unless the channel is connected. Returns true. Raises if the channel is closed,
-- or if `once` is true and no address connects.
function M.connect(channel, once)
  local now = state(channel)
  while now == nil and channel.is_connecting do
    local token = {}
    table.insert(channel.waiting, token)
    ltask.wait(token)
    now = state(channel)
    if now == nil and once then error(socket_error, 0) end
  end
  if now then return true end
  if now == false then error(socket_error, 0) end
  channel.is_connecting = true
  local _ <close> = setmetatable({ channel = channel }, connecting_meta)
  local ok, problem = try(channel, once)
  if ok then return true end
  if problem ~= socket_error then
    log("socket: connect to %s:%s failed: %s", channel.host, tostring(channel.port), tostring(problem))
  end
  error(socket_error, 0)
end

return M
