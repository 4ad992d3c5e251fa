-- An echo server on luasocket's select, for a stock Lua: `lua5.4 luasocket.lua PORT`. It supports fewer than 1,000
-- connections.

local socket = require "socket"

local MOST <const> = 65536

local server = assert(socket.bind("127.0.0.1", tonumber(arg[1]), 1024))
server:settimeout(0)
print(("listening on %s:%s"):format(server:getsockname()))
io.stdout:flush()

local readers, writers = { server }, {} -- lists for select
local place = {} -- by socket: the list that contains the socket, and its index in the list
local unsent = {} -- by socket: bytes that could not be sent yet

local function put(list, s)
  list[#list + 1] = s
  place[s] = { list, #list }
end

local function take(s)
  local list, index = table.unpack(place[s])
  local last = table.remove(list)
  if last ~= s then
    list[index] = last
    place[last][2] = index
  end
  place[s] = nil
end

local function drop(s)
  take(s)
  unsent[s] = nil
  s:close()
end

-- Sends data. Returns true if all bytes were sent, false if some bytes were stored in `unsent`, nil if the connection
-- failed.
local function send(s, data)
  local sent, problem, upto = s:send(data)
  if sent then return true end
  if problem ~= "timeout" then return nil end
  unsent[s] = data:sub(upto + 1)
  return false
end

local function echo(s)
  local data, problem, partial = s:receive(MOST)
  data = data or partial
  if #data == 0 then
    if problem ~= "timeout" then drop(s) end
    return
  end
  local sent = send(s, data)
  if sent == nil then return drop(s) end
  if not sent then
    take(s)
    put(writers, s)
  end
end

local function send_rest(s)
  local sent = send(s, unsent[s])
  if sent == nil then return drop(s) end
  if sent then
    unsent[s] = nil
    take(s)
    put(readers, s)
  end
end

while true do
  local readable, writable = socket.select(readers, writers)
  for _, s in ipairs(readable) do
    if s == server then
      local client = server:accept()
      if client then
        client:settimeout(0)
        client:setoption("tcp-nodelay", true)
        put(readers, client)
      end
    else
      echo(s)
    end
  end
  for _, s in ipairs(writable) do send_rest(s) end
end
