-- The networking that skynet's modules use, and how a connection moves from one service to another. Used by the files
-- of this folder. Nothing else in `lualib/skynet` chooses between the instances of `lio.net`.

local ltask = require "ltask"

local M = {}

-- Returns whether `lio.net` works in this service: with I/O threads in every service, otherwise only in a service that
-- owns a loop.
local function works_here()
  local owner = package.loaded["lio.loop.owner"]
  return owner and (owner.is_service or owner.is_running) or pcall(require, "lio.loop.service")
end
local is_local <const> = works_here()

-- The calls of `lio.net` for this service.
local net = is_local and require "lio.net" or require "lio.net.remote"()
M.net = net

-- The first argument of connections that `transfer` moves for this file.
local TAG <const> = "skynet.socket"

-- Maps the number of a socket to its connection, which has arrived, or to the token of the task that waits for it.
local arrivals = {}

-- `hand_over(c, service, number)`: moves a connection, with its unread bytes, to another service. Returns the arguments
-- for `receive` in that service; or nil, a message and a code.
function M.hand_over(c, service, number)
  if not net.give then
    local moved, message, code = c:transfer(service, TAG, number)
    if moved == true then return "arrived" end
    return nil, message or "the other service takes no connections", code or "refused"
  end
  local io = c.io
  local handle, message, code = net.give(c, service)
  if not handle then return nil, message, code end
  return "handle", handle, io
end

-- `receive(number, how, handle, io)`: returns the connection that another service has handed over.
function M.receive(number, how, handle, io)
  if how == "handle" then return require "lio.net.remote"(io).connection(handle) end
  local c = arrivals[number]
  if not c then
    local token = {}
    arrivals[number] = token
    c = ltask.wait(token)
  end
  arrivals[number] = nil
  return c
end

if is_local then
  net.on_transfer(function(c, tag, number)
    if tag ~= TAG then return c:close() end
    local token = arrivals[number]
    if not token then
      arrivals[number] = c
    else
      ltask.wakeup(token, c)
    end
  end)
end

return M
