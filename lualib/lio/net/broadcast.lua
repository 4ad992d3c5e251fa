-- `net.broadcast`: sends one message to many connections without waiting. Part of `lio.net`.
--
-- Bytes that the system does not accept immediately are stored only once: the queues of all connections share them. The
-- loop sends them when the sockets become writable.

local driver_of <const> = require("lio.net.connection").driver_of
local misuse = require "lio.misuse"
local stream = require "lio.stream"

-- The default limit: how many bytes may be queued for a peer.
local LIMIT <const> = 1024 * 1024

local M = {}

-- `broadcast(list, data [, limit])` returns the number of connections that have accepted the message: it was sent, or
-- queued behind earlier messages. If some connections have not accepted the message, also returns a table that maps
-- each of these to "closed" or "full". "full" means that more than `limit` bytes would be queued for the peer, or that
-- a task is waiting in `send`. Nothing is sent to the connections in the table. A connection with an empty queue
-- accepts a message of any length.
local function broadcast(list, data, limit)
  misuse.check("broadcast", 1, list, "table")
  if #list == 0 and next(list) ~= nil then
    misuse.bad("broadcast", 1, "a list of connections expected, got a table without the element 1")
  end
  misuse.check("broadcast", 2, data, "string")
  if limit == nil then
    limit = LIMIT
  elseif math.type(limit) ~= "integer" or limit < 0 then
    misuse.bad("broadcast", 3, ("limit must be an integer of at least 0, not %s"):format(limit))
  end
  local count, queued, closed, full = stream.broadcast(list, data, limit)
  if not count then misuse.bad("broadcast", 1, queued) end
  if not queued then return count end
  for _, place in ipairs(queued) do driver_of(list[place]):flush_later(list[place]) end
  if count == #list then return count end
  local missed = {}
  for _, place in ipairs(closed) do missed[list[place]] = "closed" end
  for _, place in ipairs(full) do missed[list[place]] = "full" end
  return count, missed
end

-- `install(driver, calls)`: adds `broadcast` to `calls`.
function M.install(_, calls)
  calls.broadcast = broadcast
end

return M
