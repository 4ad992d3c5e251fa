-- Requests of `lio.net.remote` to the service that has the loop. If the service has died, a request fails with "dead".
-- If the service detects misuse, the request raises in the calling service.

local ltask = require "ltask"
local misuse = require "lio.misuse"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local find <const>, type <const> = string.find, type

local M = {}

-- The metatable names of the objects.
local OBJECTS <const> = {
  ["lio.remote connection"] = true, ["lio.remote listener"] = true, ["lio.remote udp"] = true,
}

-- `failure(err, io)` returns the message and the code for the error `err` of a request if the service is dead; for
-- misuse, nil and the message.
function M.failure(err, io)
  local text = type(err) == "table" and err.message or tostring(err)
  if find(text, ("{service:%d} is dead"):format(io), 1, true) then return text, "dead" end
  -- Remove the position, which is in the service's code and not in the caller's.
  return nil, text:gsub("^[^:\n]+:%d+: (bad argument)", "%1", 1)
end

-- `finish(io, ok, …)` takes the results of `pcall` for a request, and returns the results of the request. If the
-- service is dead, returns nil, message, code. For misuse, raises at the program's line.
function M.finish(io, ok, ...)
  if ok then return ... end
  local message, code = M.failure((...), io)
  if not message then misuse.raise(code) end
  return nil, message, code
end

-- Sends the request of `ask_for_new`, in a separate task. If the caller was killed in the meantime, closes the new
-- handle; but a connection from `accept` is put back for the next `accept` request.
local function request_new(token, io, name, ...)
  local ok, handle, message, code = pcall(call, io, name, ...)
  if wakeup(token, ok, handle, message, code) or not ok or not handle then return end
  if name == "accept" then
    pcall(call, io, "put_back", (...), handle)
  else
    pcall(call, io, "close", handle)
  end
end

-- `ask_for_new(io, name, …)`: sends a request that returns a new handle. Returns the results of the request.
function M.ask_for_new(io, name, ...)
  local token = {}
  fork(request_new, token, io, name, ...)
  return M.finish(io, wait(token))
end

-- `ask(object, name, …)`: sends a request about an object's handle. Returns the results of the request.
function M.ask(x, name, ...)
  if not misuse.is_named(x, OBJECTS) then
    misuse.argument(name, 1, "connection, listener or datagram socket", x)
  end
  if x.closed then return nil, "closed", "closed" end
  return M.finish(x.io, pcall(call, x.io, name, x.id, ...))
end

return M
