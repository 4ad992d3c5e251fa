-- The service `gate` of skynet, which `skynet.newservice "gate"` creates: accepts connections, reports their events to
-- a watchdog, and forwards their messages to agents.

local gateserver = require "snax.gateserver"
local redirect <const> = require "skynet".redirect
local skynet = require "skynet"

local send <const> = skynet.send

local watchdog -- the address of the service that gets the events
local connection = {} -- fd: { fd, ip, client, agent }

skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT }

local handler = {}

function handler.open(source, conf)
  watchdog = conf.watchdog or source
  return conf.address, conf.port
end

function handler.message(fd, message, size)
  local c = connection[fd]
  local agent = c and c.agent
  if agent then return redirect(agent, c.client, "client", fd, message, size) end
  send(watchdog, "lua", "socket", "data", fd, skynet.tostring(message, size))
end

function handler.connect(fd, address)
  connection[fd] = { fd = fd, ip = address }
  send(watchdog, "lua", "socket", "open", fd, address)
end

function handler.disconnect(fd)
  connection[fd] = nil
  send(watchdog, "lua", "socket", "close", fd)
end

function handler.error(fd, problem)
  connection[fd] = nil
  send(watchdog, "lua", "socket", "error", fd, problem)
end

function handler.warning(fd, kibibytes)
  send(watchdog, "lua", "socket", "warning", fd, kibibytes)
end

local CMD = {}

local function find(fd)
  local c = connection[fd]
  if not c then error(("gate: there is no connection %s"):format(tostring(fd)), 0) end
  return c
end

-- Forwards the messages of a connection to an agent, by default the sender of the command. `client` is the source that
-- the agent's handler gets, by default 0.
function CMD.forward(source, fd, client, agent)
  local c = find(fd)
  c.client, c.agent = client or 0, agent or source
  gateserver.openclient(fd)
end

-- Passes the messages of a connection to the watchdog.
function CMD.accept(_, fd)
  local c = find(fd)
  c.client, c.agent = nil, nil
  gateserver.openclient(fd)
end

-- Closes a connection.
function CMD.kick(_, fd)
  gateserver.closeclient(fd)
end

function handler.command(command, source, ...)
  local f = CMD[command]
  if not f then error(("gate: there is no command '%s'"):format(tostring(command)), 0) end
  return f(source, ...)
end

gateserver.start(handler)
