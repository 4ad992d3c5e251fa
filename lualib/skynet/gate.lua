-- The service `gate` of skynet, which `skynet.newservice "gate"` creates: accepts connections, reports their events to
-- a watchdog, and forwards their messages to agents.

local gateserver = require "snax.gateserver"
local redirect <const> = require "skynet".redirect
local skynet = require "skynet"
local socketdriver = require "skynet.socketdriver"

local send <const> = skynet.send

local watchdog -- the address of the service that gets the events
local connection = {} -- fd: { fd, ip, client, agent, pending, is_paused }

-- How many messages of a connection may wait for room in a mailbox before reading from the connection pauses.
local PENDING_MAX <const> = 64

skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT }

local handler = {}

function handler.open(source, conf)
  watchdog = conf.watchdog or source
  return conf.address, conf.port
end

-- Passes a message of a connection on with `f(…)`, which waits while the mailbox of the receiver is full.
local function pass(c, f, ...)
  c.pending = c.pending + 1
  if c.pending >= PENDING_MAX then
    c.is_paused = true
    socketdriver.pause(c.fd)
  end
  local ok, problem = pcall(f, ...)
  c.pending = c.pending - 1
  if c.pending == 0 and c.is_paused then
    c.is_paused = false
    gateserver.openclient(c.fd)
  end
  if not ok then error(problem, 0) end
end

function handler.message(fd, message, size)
  local c = connection[fd]
  if c and c.agent then return pass(c, redirect, c.agent, c.client, "client", fd, message, size) end
  local text = skynet.tostring(message, size)
  if c then return pass(c, send, watchdog, "lua", "socket", "data", fd, text) end
  send(watchdog, "lua", "socket", "data", fd, text)
end

function handler.connect(fd, address)
  connection[fd] = { fd = fd, ip = address, pending = 0, is_paused = false }
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
