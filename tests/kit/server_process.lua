-- Server programs as child processes, for the suites of the examples. Invariant: if a child does not print its port, it
-- is killed before the error is raised.

local t = require "tests.kit"
local net = require "lio.net"

local childkit = {}

--- Starts a command that prints its address on 127.0.0.1. Returns the child and the port.
function childkit.start(command)
  local child = t.spawn(command)
  local ok, port = pcall(child.expect, child, "127%.0%.0%.1:(%d+)")
  if not ok then
    child:stop "KILL"
    error(port, 3)
  end
  return child, math.tointeger(tonumber(port))
end

--- Ends a child with SIGTERM. Returns its exit code.
function childkit.stop(child)
  child:kill()
  child:all()
  return child:close()
end

--- Connects to a port of 127.0.0.1. Returns the connection, which has timeouts of 10 s. Raises an error if the server
-- cannot be reached.
function childkit.connect(port)
  local c = assert(net.connect("127.0.0.1", port))
  c:timeout(10, 10)
  return c
end

return childkit
