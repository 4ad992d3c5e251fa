-- `require "http.sockethelper"`: the functions of a socket that `http.httpd` and `http.httpc` use. Used by programs
-- that were written for skynet.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local socket = require "skynet.socket"
local task = require "lio.task"

local M = {}

-- The error of a connection that has ended.
local socket_error <const> = setmetatable({}, { __tostring = function() return "[Socket Error]" end })
M.socket_error = socket_error

local function checked(data)
  if data then return data end
  error(socket_error, 0)
end

-- `readfunc(id[, before])`: returns a function that reads: with a size, exactly as many bytes; without, the bytes that
-- are available. `before` are bytes that it returns first. The function raises `socket_error` if the connection ends.
function M.readfunc(id, before)
  if before == nil or before == "" then
    return function(size) return checked(socket.read(id, size)) end
  end
  local rest = before
  return function(size)
    if not rest then return checked(socket.read(id, size)) end
    local data = rest
    if size == nil or size == #data then
      rest = nil
      return data
    end
    if size < #data then
      rest = data:sub(size + 1)
      return data:sub(1, size)
    end
    rest = nil
    return data .. checked(socket.read(id, size - #data))
  end
end

-- `readall(id)`: the same as `socket.readall`.
M.readall = socket.readall

-- `writefunc(id)`: returns a function that writes; it raises `socket_error` if the connection has ended.
function M.writefunc(id)
  return function(data) checked(socket.write(id, data)) end
end

-- Connects, in a separate task, for the coroutine that waits on `token`.
local function connect_for(token, host, port)
  local id = socket.open(host, port)
  if not ltask.wakeup(token, id or false) and id then socket.close(id) end
end

-- `connect(host, port[, centiseconds])`: connects, and returns the socket. Raises `socket_error` on failure, or when
-- the time has passed.
function M.connect(host, port, timeout)
  if not timeout then return checked(socket.open(host, port)) end
  misuse.check("connect", 3, timeout, "number")
  local token = {}
  task.spawn(connect_for, token, host, port)
  ltask.timeout(timeout, function() ltask.wakeup(token, false) end)
  return checked(ltask.wait(token))
end

-- `close(id)`, `shutdown(id)`: close a socket; see skynet.socket.
M.close, M.shutdown = socket.close, socket.shutdown

return M
