-- `require "snax.gateserver"`: the framework of a gate: a service that accepts connections and receives messages with a
-- length of two bytes before them. Used by gate services, and by snax.msgserver.

local netpack = require "skynet.netpack"
local skynet = require "skynet"
local socketdriver = require "skynet.socketdriver"

local shown <const>, spawn <const> = require "lio.misuse".shown, require "lio.task".spawn

local M = {}

local listening -- the listener's socket
local queue -- the messages of netpack
local max_client, client_number, nodelay = 1024, 0, false
local handler -- the argument of `start`

-- The accepted sockets: true while messages are passed to the handler, false when the peer has closed the connection.
local connection = {}

-- `openclient(fd)`: starts receiving from a connection, for which the handler `connect` was called.
function M.openclient(fd)
  if connection[fd] then socketdriver.start(fd) end
end

-- `closeclient(fd)`: closes a connection after the bytes that were written are sent.
function M.closeclient(fd)
  if connection[fd] == nil then return end
  connection[fd] = nil
  socketdriver.close(fd)
end

-- Events -------------------------------------------------------------------------------------

local EVENT = {}

function EVENT.data(fd, message, size)
  if connection[fd] then return handler.message(fd, message, size) end
  skynet.error(("Drop message from fd (%d) : %s"):format(fd, netpack.tostring(message, size)))
end

-- Several messages are queued. If the handler waits, the next message does not wait for it.
function EVENT.more()
  local fd, message, size = netpack.pop(queue)
  while fd do
    spawn(EVENT.data, fd, message, size)
    fd, message, size = netpack.pop(queue)
  end
end

function EVENT.open(fd, address)
  client_number = client_number + 1
  if client_number > max_client then return socketdriver.shutdown(fd) end
  if nodelay then socketdriver.nodelay(fd) end
  connection[fd] = true
  handler.connect(fd, address)
end

function EVENT.close(fd)
  if fd == listening then
    listening = nil
    return
  end
  client_number = client_number - 1
  if connection[fd] then connection[fd] = false end
  -- The socket stays open for writing until `closeclient`, which only a program with this handler can call in time.
  if not handler.disconnect then return M.closeclient(fd) end
  handler.disconnect(fd)
end

function EVENT.error(fd, problem)
  if fd == listening then return skynet.error("gateserver: the listener failed:", problem) end
  client_number = client_number - 1
  if connection[fd] then connection[fd] = false end
  if handler.error then handler.error(fd, problem) end
end

function EVENT.warning(fd, size)
  if handler.warning then handler.warning(fd, size) end
end

function EVENT.init() end

-- Commands -----------------------------------------------------------------------------------

local CMD = {}

-- Opens the listener. Returns the result of the handler `open`.
function CMD.open(source, conf)
  if type(conf) ~= "table" then error("open: a table of options expected, got " .. shown(conf), 0) end
  if listening then error("open: the gate is open", 0) end
  local address, port = conf.address or "0.0.0.0", conf.port
  if not port then error("open: the port is missing", 0) end
  max_client, nodelay = conf.maxclient or 1024, conf.nodelay or false
  local fd, host, number = socketdriver.listen(address, port)
  listening = fd
  conf.address, conf.port = host, number
  skynet.error(("Listen on %s:%d"):format(host, number))
  socketdriver.start(fd)
  if handler.open then return handler.open(source, conf) end
end

-- Closes the listener. Connections stay open.
function CMD.close()
  if not listening then error("close: the gate is not open", 0) end
  socketdriver.close(listening)
end

-- The start ----------------------------------------------------------------------------------

local function check(given)
  if type(given) ~= "table" then require "lio.misuse".argument("start", 1, "table", given) end
  for _, name in ipairs { "message", "connect" } do
    if not given[name] then require "lio.misuse".bad("start", 1, ("the handler '%s' is missing"):format(name)) end
  end
end

local function init()
  skynet.register_protocol {
    name = "socket",
    id = skynet.PTYPE_SOCKET,
    unpack = function(message, size) return netpack.filter(queue, message, size) end,
    dispatch = function(_, _, new_queue, kind, ...)
      queue = new_queue
      if kind then EVENT[kind](...) end
    end,
  }
  skynet.dispatch("lua", function(_, address, command, ...)
    local f = CMD[command]
    if f then return skynet.retpack(f(address, ...)) end
    skynet.retpack(handler.command(command, address, ...))
  end)
end

-- `start(handler)`: makes this service a gate. The functions of the handler: `connect(fd, address)`, `message(fd,
-- message, size)`, and if they are needed `disconnect(fd)`, `error(fd, problem)`, `warning(fd, kibibytes)`,
-- `open(source, conf)` and `command(command, source, …)`, which answers the other commands.
function M.start(given)
  check(given)
  handler = given
  if given.embed then return init() end
  skynet.start(init)
end

return M
