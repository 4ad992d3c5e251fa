-- How a connection moves from one service to another. Used by skynet.socket.pool.

local ltask = require "ltask"
local net = require "lio.net"

local M = {}

-- The first argument of connections that `transfer` moves for this file.
local TAG <const> = "skynet.socket"

-- Maps the number of a socket to its connection, which has arrived, or to the token of the task that waits for it.
local arrivals = {}

-- `hand_over(c, service, number)`: moves a connection, with its unread bytes, to another service. Returns true; or nil
-- and a message.
function M.hand_over(c, service, number)
  local moved, message = c:transfer(service, TAG, number)
  if moved == true then return true end
  return nil, message or "the other service takes no connections"
end

-- `receive(number)`: returns the connection that another service has handed over.
function M.receive(number)
  local c = arrivals[number]
  if not c then
    local token = {}
    arrivals[number] = token
    c = ltask.wait(token)
  end
  arrivals[number] = nil
  return c
end

net.on_transfer(function(c, tag, number)
  if tag ~= TAG then return c:close() end
  local token = arrivals[number]
  if not token then
    arrivals[number] = c
  else
    ltask.wakeup(token, c)
  end
end)

return M
