-- How a connection moves from one service to another. Used by skynet.socket.pool.

local drivers = require "lio.net.driver"
local net = require "lio.net"
local transfer = require "lio.net.transfer"

local M = {}

-- The first argument of connections that `transfer` moves for this file.
local TAG <const> = "skynet.socket"

-- `hand_over(c, service, id)`: moves the connection of a socket, with its unread bytes, to another service. Returns
-- true when the receiver there has returned; or nil and a message.
function M.hand_over(c, service, id)
  local moved, message = c:transfer(service, TAG, id)
  if moved == true then return true end
  return nil, message or "the other service takes no connections"
end

-- `set_receiver(f)`: makes `f(c, id)` run for each connection that another service hands over. `f` must not wait.
function M.set_receiver(f)
  local driver <const> = drivers.of(net)
  driver:check_loop "skynet.socket"
  transfer.receive_tagged(driver, TAG, function(c, _, id) f(c, id) end)
end

return M
