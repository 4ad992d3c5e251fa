-- Programs that serve, run as child processes: what the suites of the examples and of --watch share.
-- Invariant: a child that did not say its port is ended before the error is raised.

local t = require "tests.kit"
local net = require "lio.net"

local childkit = {}

--- Starts a command that prints its address of 127.0.0.1. → the child and the port.
function childkit.start(command)
  local child = t.spawn(command)
  local ok, port = pcall(child.expect, child, "127%.0%.0%.1:(%d+)")
  if not ok then
    child:stop "KILL"
    error(port, 3)
  end
  return child, math.tointeger(tonumber(port))
end

--- Ends a child by SIGTERM. → its exit code.
function childkit.stop(child)
  child:kill()
  child:all()
  return child:close()
end

--- Connects to a port of 127.0.0.1, with time-outs of 10 s. Raises when that fails.
function childkit.connect(port)
  local c = assert(net.connect("127.0.0.1", port))
  c:timeout(10, 10)
  return c
end

return childkit
