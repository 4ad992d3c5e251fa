-- Requests of `lio.net.remote` to the service that has the loop. I/O by a service that has died fails with "dead";
-- misuse that the service finds is raised here.

local ltask = require "ltask"
local misuse = require "lio.misuse"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local find <const>, type <const> = string.find, type

local M = {}

-- The keys are the names of metatables.
local OBJECTS <const> = {
  ["lio.remote connection"] = true, ["lio.remote listener"] = true, ["lio.remote udp"] = true,
}

-- `failure(err, io)`: the message and code of a request's error if the service is dead; nil and a message for misuse.
function M.failure(err, io)
  local text = type(err) == "table" and err.message or tostring(err)
  if find(text, ("{service:%d} is dead"):format(io), 1, true) then return text, "dead" end
  -- The position is in the service's code, not in the caller's.
  return nil, text:gsub("^[^:\n]+:%d+: (bad argument)", "%1", 1)
end

-- `finish(io, ok, …)`: the results of a request that was made by `pcall`, or nil, message, code when the service is
-- dead; raises misuse at the program's line.
function M.finish(io, ok, ...)
  if ok then return ... end
  local message, code = M.failure((...), io)
  if not message then misuse.raise(code) end
  return nil, message, code
end

-- The request of `ask_for_new`, in a separate task. If the caller was killed meanwhile, the new handle is closed; a
-- connection is given to the next `accept` request.
local function request_new(token, io, name, ...)
  local ok, handle, message, code = pcall(call, io, name, ...)
  if wakeup(token, ok, handle, message, code) or not ok or not handle then return end
  if name == "accept" then
    pcall(call, io, "put_back", (...), handle)
  else
    pcall(call, io, "close", handle)
  end
end

-- `ask_for_new(io, name, …)`: a request that returns a new handle.
function M.ask_for_new(io, name, ...)
  local token = {}
  fork(request_new, token, io, name, ...)
  return M.finish(io, wait(token))
end

-- `ask(object, name, …)`: a request about an object's handle.
function M.ask(x, name, ...)
  if not misuse.is_named(x, OBJECTS) then
    misuse.argument(name, 1, "connection, listener or datagram socket", x)
  end
  if x.closed then return nil, "closed", "closed" end
  return M.finish(x.io, pcall(call, x.io, name, x.handle, ...))
end

return M
