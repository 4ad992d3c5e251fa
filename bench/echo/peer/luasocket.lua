-- An echo server on luasocket's select, for a stock Lua and less than 1,000 connections:
-- `lua5.4 luasocket.lua PORT`.

local socket = require "socket"

local MOST <const> = 65536

local server = assert(socket.bind("127.0.0.1", tonumber(arg[1]), 1024))
server:settimeout(0)
print(("listening on %s:%s"):format(server:getsockname()))
io.stdout:flush()

local readers, writers = { server }, {} -- lists for select
local place = {} -- socket → { list, index in it }
local owed = {} -- socket → bytes that it could not take yet

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
  owed[s] = nil
  s:close()
end

-- Whether all of `data` went out; else what is left is owed. nil when the connection failed.
local function send(s, data)
  local sent, problem, upto = s:send(data)
  if sent then return true end
  if problem ~= "timeout" then return nil end
  owed[s] = data:sub(upto + 1)
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

local function send_owed(s)
  local sent = send(s, owed[s])
  if sent == nil then return drop(s) end
  if sent then
    owed[s] = nil
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
  for _, s in ipairs(writable) do send_owed(s) end
end
