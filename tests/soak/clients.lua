-- The client processes of soak.lua: starts them, and sends them commands over a connection for each.

local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"
local processes = require "processes"

local Clients = {}
Clients.__index = Clients

local M = {}

-- Reads the answers of a client, and wakes the task that waits for each.
local function read(self, c)
  for line in function() return c:recv("until", "\n") end do
    local answer = json.decode(line)
    loop.wakeup(self.waiting[answer.number], answer)
  end
  -- A client that has ended answers nothing more.
  for number, token in pairs(self.waiting) do
    self.waiting[number] = nil
    loop.wakeup(token, nil)
  end
end

--- Starts `count` clients for the server at the address `ADDR:PORT`, whose operations have a deadline in seconds.
function M.start(count, lio, folder, address, seed, seconds)
  local listener <close> = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local self = setmetatable({ connections = {}, waiting = {}, number = 0, programs = {} }, Clients)
  for i = 1, count do
    local command = ("%s %s/client.lua %d %s %d c%d %d"):format(lio, folder, port, address, seed, i, seconds)
    self.programs[i] = processes.start("client" .. i, command, {})
    self.connections[i] = assert(listener:accept())
    loop.fork(read, self, self.connections[i])
  end
  return self
end

-- Sends a command to one client; returns the answer, or raises if the client has ended.
local function ask(self, i, command, order)
  self.number = self.number + 1
  local number, token = self.number, {}
  self.waiting[number] = token
  local line = { command = command, number = number }
  for key, value in pairs(order or {}) do line[key] = value end
  assert(self.connections[i]:send(json.encode(line), "\n"))
  local answer = loop.wait(token)
  self.waiting[number] = nil
  return answer or error(("client %d ended: %s"):format(i, self.programs[i]:output():sub(-2000)), 0)
end

--- Sends a command to all clients at the same time. Returns a list of their answers.
function Clients:ask(command, order)
  local answers, left, problem = {}, #self.connections, nil
  local token = {}
  for i = 1, #self.connections do
    loop.fork(function()
      local ok, answer = pcall(ask, self, i, command, order)
      if ok then answers[i] = answer else problem = answer end
      left = left - 1
      if left == 0 then loop.wakeup(token) end
    end)
  end
  loop.wait(token)
  if problem then error(problem, 0) end
  return answers
end

--- Closes the connections, which ends the clients. Returns their exit codes.
function Clients:close()
  local codes = {}
  for i, c in ipairs(self.connections) do
    c:close()
    codes[i] = self.programs[i]:wait(10)
  end
  return codes
end

return M
