-- The standard input of skynet.socket, if it is not a socket: a pipe, a terminal or a file. A task copies its bytes to
-- a pair of sockets, from which the program reads. Used by skynet.socket.
--
-- Invariant: a pipe or a terminal does not block the thread, because the task waits until the input is readable before
-- it reads a byte.

local loop_owner = require "lio.loop.owner"
local misuse = require "lio.misuse"
local net = require "lio.net"
local pool = require "skynet.socket.pool"
local task = require "lio.task"

-- Watching a descriptor needs the loop.
require "lio.loop"

local M = {}

-- The descriptor of the standard input, and how many bytes are read at once from a file, which is always readable.
local STDIN <const>, PIECE <const> = 0, 4096

-- Copies a file.
local function copy_file(to)
  for piece in io.stdin:lines(PIECE) do
    if not to:send(piece) then break end
  end
  to:close()
end

-- Copies a pipe or a terminal, of which one byte may be read each time it is readable.
local function copy_stream(to, driver, token)
  local byte
  repeat
    task.wait(token)
    driver:unwatch(STDIN)
    byte = io.stdin:read(1)
    local is_open = byte and to:send(byte) and driver:watch(STDIN, function() task.wakeup(token) end)
  until not is_open
  to:close()
end

-- `open()`: returns the socket from which the program reads; or nil and a message.
function M.open()
  loop_owner.check "stdin"
  local driver = require "lio.net.driver".of(net)
  local near, far = require "lio.socket".pair()
  if not near then return nil, far end
  local to, from = net.wrap(near), net.wrap(far)
  local token = {}
  local is_watched, problem, code = driver:watch(STDIN, function() task.wakeup(token) end)
  if is_watched then
    -- The library must not read ahead, because bytes in its buffer are not reported as readable.
    io.stdin:setvbuf "no"
    task.spawn(copy_stream, to, driver, token)
  elseif code == "denied" then
    task.spawn(copy_file, to)
  else
    return nil, misuse.without_position(problem)
  end
  return pool.add("TCP", "stdin", from, { is_stream = true })
end

return M
