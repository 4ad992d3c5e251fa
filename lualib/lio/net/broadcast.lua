-- `net.broadcast`: one message for many connections, without a wait. Part of `lio.net`.
--
-- Bytes that the system does not take immediately are kept in one copy, which the queues of all connections share. The
-- loop sends them when there is room.

local driver_of <const> = require("lio.net.connection").driver_of
local misuse = require "lio.misuse"
local stream = require "lio.stream"

-- How many bytes may wait for a peer unless the caller sets a limit.
local LIMIT <const> = 1024 * 1024

local M = {}

-- `broadcast(list, data [, limit])` returns how many of the connections have taken the message: it is sent, or queued
-- behind earlier messages. If some have not, it also returns a table of these: connection to "closed", or to "full"
-- when over `limit` bytes would wait for the peer, or a task waits in `send` for it. Such a connection gets no part of
-- the message. A connection with an empty queue takes a message of any length.
local function broadcast(list, data, limit)
  misuse.check("broadcast", 1, list, "table")
  misuse.check("broadcast", 2, data, "string")
  if limit == nil then
    limit = LIMIT
  elseif math.type(limit) ~= "integer" or limit < 0 then
    misuse.bad("broadcast", 3, ("limit must be an integer from 0, not %s"):format(limit))
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

-- `install(driver)`: makes the call of this file.
function M.install(driver)
  driver.net.broadcast = broadcast
end

return M
