-- The service `.launcher` of skynet: lists the services, and asks them for statistics. The first request for the name
-- starts it (lualib/skynet/registry_service.lua). Used by skynet.debug_console and by programs.

local ltask = require "ltask"
local skynet = require "skynet"

local ROOT <const> = 1

-- The address of the logger in a system without exclusive services.
local LOGGER <const> = 2

-- Returns whether a service is a part of the library. Such services are not listed.
local function is_hidden(id, label)
  return id == ROOT or id == skynet.self() or label == "skynet.registry" or id == LOGGER and label == "logger"
end

-- Returns the labels of the services, by address.
local function services()
  local labels = {}
  for id in pairs(ltask.call(ROOT, "stat")) do
    local label = ltask.call(ROOT, "label", id)
    if label and not is_hidden(id, label) then labels[id] = label end
  end
  return labels
end

-- Sends a debug command to all services. Returns the results of `format(answer, label)` by address. A service that does
-- not answer within `centiseconds` has "TIMEOUT", and a service that cannot answer has "ERROR".
local function ask_all(centiseconds, command, format)
  local labels, requests, result = services(), skynet.request(), {}
  for id, label in pairs(labels) do
    requests:add { id, "debug", command }
    result[skynet.address(id)] = format("TIMEOUT", label)
  end
  for request, answer in requests:select(centiseconds) do
    local id = request[1]
    result[skynet.address(id)] = format(answer and answer[1] or "ERROR", labels[id])
  end
  return result
end

local function format_memory(kibibytes, label)
  if type(kibibytes) == "string" then return ("%s (%s)"):format(kibibytes, label) end
  return ("%.2f Kb (%s)"):format(kibibytes, label)
end

local CMD = {}

-- Returns the labels of the services, by address.
function CMD.LIST()
  local list = {}
  for id, label in pairs(services()) do list[skynet.address(id)] = label end
  return list
end

-- Returns the results of the debug command STAT.
function CMD.STAT(centiseconds)
  return ask_all(centiseconds, "STAT", function(stat) return stat end)
end

-- Returns the memory of each service.
function CMD.MEM(centiseconds)
  return ask_all(centiseconds, "MEM", format_memory)
end

-- Collects garbage in all services, and returns their memory.
function CMD.GC(centiseconds)
  for id in pairs(services()) do skynet.send(id, "debug", "GC") end
  return CMD.MEM(centiseconds)
end

-- Makes a service quit. Returns its label, by address.
function CMD.KILL(addr)
  local label = ltask.call(ROOT, "label", addr)
  skynet.kill(addr)
  return { [skynet.address(addr)] = tostring(label) }
end

-- Services that have ended are not listed, so there is nothing to do.
function CMD.REMOVE() end

skynet.start(function()
  skynet.dispatch("lua", function(_, _, name, ...)
    local f = CMD[tostring(name):upper()]
    if not f then error((".launcher: there is no command '%s'"):format(tostring(name)), 0) end
    skynet.retpack(f(...))
  end)
end)
