-- How sockets of skynet's modules are opened: listeners, connections, descriptors. Used by skynet.socket and
-- skynet.socketdriver.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local net = require "lio.net"
local pool = require "skynet.socket.pool"
local task = require "lio.task"

local M = {}

-- How long accepting pauses after a failure, in centiseconds.
local PAUSE <const> = 10

local BACKLOG_MAX <const> = 2147483647

-- `split(call, host, port)`: returns a host and a port, which may also be given as "host:port".
function M.split(call, host, port)
  if type(host) ~= "string" then misuse.argument(call, 1, "string", host) end
  local index = port == nil and 1 or 2
  if port == nil then
    local name, digits = host:match "^%[?(.-)%]?:(%d+)$"
    if not name then misuse.bad(call, 1, ("'host:port' expected, got '%s'"):format(host)) end
    host, port = name, digits
  end
  local number = math.tointeger(tonumber(port))
  if not number or number < 0 or number > 65535 then
    misuse.bad(call, index, "a port from 0 to 65535 expected, got " .. misuse.shown(port))
  end
  return host, number
end

-- `peer(c)`: returns the address of a connection's peer as "host:port".
function M.peer(c)
  local host, port = c:peer()
  if not host then return "?" end
  return math.type(port) == "integer" and host .. ":" .. port or host
end

-- Raises unless a value can be the backlog of a listener, the third argument of `call`.
local function check_backlog(call, backlog)
  if math.type(backlog) ~= "integer" or backlog < 0 or backlog > BACKLOG_MAX then
    misuse.bad(call, 3, "a backlog from 0 to 2147483647 expected, got " .. misuse.shown(backlog))
  end
end

-- `listen(call, host, port, backlog)`: opens a listener. Returns its socket; or nil and a message.
function M.listen(call, host, port, backlog)
  host, port = M.split(call, host, port)
  if host:find "^unix:" then misuse.bad(call, 1, "a host expected, not a path: skynet.socket has no Unix sockets") end
  if backlog ~= nil then check_backlog(call, backlog) end
  local listener, message = net.listen(host, port, backlog and { backlog = backlog } or nil)
  if not listener then return nil, message end
  local bound, number = listener:address()
  return pool.add("LISTEN", ("%s:%d"):format(bound, number), listener, { host = bound, port = number })
end

-- The loop that accepts: `f(s, address)` runs as a task for each socket.
local function accept(listening, f)
  while not listening.is_closed do
    local c, message, code = listening.c:accept()
    if c then
      local address = M.peer(c)
      task.spawn(f, pool.add("TCP", address, c, { is_stream = true }), address)
    elseif listening.is_closed or code == "closed" then
      return
    else
      pool.log("accept of socket %d: %s", listening.id, message)
      ltask.sleep(PAUSE)
    end
  end
end

-- `accept(s, f)`: makes `f(socket, address)` run as a task for each connection that a listener accepts.
function M.accept(s, f)
  task.spawn(accept, s, f)
end

-- `connect(call, host, port)`: connects. Returns the socket; or nil and a message.
function M.connect(call, host, port)
  host, port = M.split(call, host, port)
  local c, message = net.connect(host, port)
  if not c then return nil, message end
  return pool.add("TCP", M.peer(c), c, { is_stream = true })
end

-- `bind(call, descriptor)`: takes over a descriptor of a connected socket. Returns the socket; or nil and a message.
function M.bind(call, descriptor)
  if math.type(descriptor) ~= "integer" and type(descriptor) ~= "userdata" then
    misuse.argument(call, 1, "descriptor", descriptor)
  end
  local ok, socket, problem = pcall(require "lio.socket".fd, descriptor)
  if not ok or not socket then return nil, tostring(ok and problem or socket) end
  local c, message = net.wrap(socket)
  if not c then return nil, message end
  return pool.add("TCP", "descriptor " .. tostring(descriptor), c, { is_stream = true })
end

-- `set_nodelay(s)`: makes the system send small pieces at once.
function M.set_nodelay(s)
  if s.is_stream then s.c:option("nodelay", true) end
end

return M
