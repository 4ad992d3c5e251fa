-- A service of main.lua that stores values by name. Its commands are get, set, wait, names and stop.

local skynet = require "skynet"

local values = {} -- by name
local waiting = {} -- by name: functions that answer requests that wait for the name's next value

local CMD = {}

function CMD.get(name)
  skynet.retpack(values[name])
end

-- Answers with the previous value.
function CMD.set(name, value)
  local before = values[name]
  values[name] = value
  skynet.retpack(before)
  for _, answer in ipairs(waiting[name] or {}) do answer(true, value) end
  waiting[name] = nil
end

-- Answers at once, or when the name gets a value.
function CMD.wait(name)
  if values[name] ~= nil then return CMD.get(name) end
  waiting[name] = waiting[name] or {}
  table.insert(waiting[name], skynet.response())
end

function CMD.names()
  local list = {}
  for name in pairs(values) do list[#list + 1] = name end
  table.sort(list)
  skynet.retpack(list)
end

function CMD.stop()
  skynet.exit()
end

-- The arguments are those of `newservice`: names and values.
local first = table.pack(...)

skynet.start(function()
  for i = 1, first.n, 2 do values[first[i]] = first[i + 1] end
  skynet.dispatch("lua", function(_, _, command, ...)
    local f = CMD[command]
    if not f then error(("there is no command '%s'"):format(command)) end
    f(...)
  end)
end)
