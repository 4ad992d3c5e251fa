-- An echo server that uses only the selector, without coroutines: one loop over the ready sockets.
--
--   lio bench/echo/selector.lua PORT    (0: a port chosen by the system)
--
-- A socket with unsent bytes is not read until they are sent.

local lio = require "lio"
local socket = require "lio.socket"

local READ <const>, WRITE <const> = lio.SELECT_READ, lio.SELECT_WRITE
local MOST <const> = 65536

local selector = assert(lio.create())
local listener = assert(socket.create "tcp")
assert(listener:option("reuseaddr", true))
assert(listener:bind("127.0.0.1", tonumber(arg[1])))
assert(listener:listen())
assert(selector:event_add(listener, READ))
print("listening on " .. tostring(listener:info "socket"))
io.stdout:flush()

local unsent = {} -- by socket: bytes that could not be sent yet

local function drop(s)
  unsent[s] = nil
  s:close()
end

local function accept()
  local s, message = listener:accept()
  if s == nil then error(message) end
  if s then
    s:option("nodelay", true)
    assert(selector:event_add(s, READ))
  end
end

local function send_rest(s)
  local data = unsent[s]
  local sent = s:send(data)
  if sent == nil then return drop(s) end
  if sent == #data then
    unsent[s] = nil
    selector:event_mod(s, READ)
  elseif sent then
    unsent[s] = data:sub(sent + 1)
  end
end

local function echo(s)
  local data = s:recv(MOST)
  if data then
    local sent = s:send(data)
    if sent == #data then return end
    if sent == nil then return drop(s) end
    unsent[s] = sent and data:sub(sent + 1) or data
    selector:event_mod(s, WRITE)
  elseif data == nil then
    drop(s)
  end
end

while true do
  for s, events in selector:wait() do
    if s == listener then
      accept()
    elseif events & WRITE ~= 0 then
      send_rest(s)
    else
      echo(s)
    end
  end
end
