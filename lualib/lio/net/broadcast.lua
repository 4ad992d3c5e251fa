-- `net.broadcast`: one message for many connections, without a wait. Part of `lio.net`.
--
-- What the system does not take of it at once is kept once, however many connections have it in their queues. The loop
-- sends it on when there is room.

local misuse = require "lio.misuse"
local stream = require "lio.stream"

local broadcast <const> = stream.broadcast

-- So many bytes may wait for a peer unless the caller says otherwise.
local LIMIT <const> = 1024 * 1024

return function(api, host)
  local instance_of <const> = host.instance_of

  -- `broadcast(list, data [, limit])` → how many of the connections have taken the message: it is sent, or queued
  -- behind what was sent before. When not all have, also the others: a table of connection to "closed", or "full" when
  -- over `limit` bytes would wait for the peer, or a task waits in `send` for it. Such a connection gets nothing of
  -- the message. One with nothing in its queue takes a message of any length.
  function api.broadcast(list, data, limit)
    misuse.check("broadcast", 1, list, "table")
    misuse.check("broadcast", 2, data, "string")
    if limit == nil then
      limit = LIMIT
    elseif math.type(limit) ~= "integer" or limit < 0 then
      misuse.bad("broadcast", 3, ("limit must be an integer from 0, not %s"):format(limit))
    end
    local count, queued, closed, full = broadcast(list, data, limit)
    if not count then misuse.bad("broadcast", 1, queued) end
    if not queued then return count end
    for _, place in ipairs(queued) do instance_of(list[place]).flush_later(list[place]) end
    if count == #list then return count end
    local missed = {}
    for _, place in ipairs(closed) do missed[list[place]] = "closed" end
    for _, place in ipairs(full) do missed[list[place]] = "full" end
    return count, missed
  end
end
