-- `recv` of the connections of `lio.net.remote`. The caller has checked the first argument.
--
-- A connection reads ahead: the answer to a request also contains the bytes that the service has buffered beyond the
-- result, so that a burst of small messages needs few requests. Invariant: at most one `remote_recv` request is in
-- progress (`fetching`). A separate task sends the request, so that a task that is killed while it waits loses no
-- received bytes and blocks no other task.

local ltask = require "ltask"
local failure <const> = require("lio.net.remote.request").failure
local misuse = require "lio.misuse"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local find <const>, sub <const>, type <const> = string.find, string.sub, type

local M = {}

-- Puts bytes before the bytes that were read ahead.
local function put_before(c, bytes)
  c.ahead = c.ahead and bytes .. sub(c.ahead, c.ahead_at) or bytes
  c.ahead_at = 1
end

-- Puts back the bytes of a result whose reader was killed.
local function put_back(c, value, form, delimiter)
  if form == "line" then
    value = value .. "\n"
  elseif form == "until" then
    value = value .. delimiter
  end
  put_before(c, value)
end

-- A task in `recv`. One reader reads (`is_reading`); the others queue in `readers`. While a request is in progress, the
-- next reader waits until the request has ended.
local Reader = {}

local function start_next(c)
  local reader = table.remove(c.readers, 1)
  c.reading = reader ~= nil
  if reader then
    reader.is_reading = true
    wakeup(reader)
  end
end

function Reader.__close(reader)
  local c = reader.c
  if reader.is_reading then
    if not c.fetching then return start_next(c) end
    -- The reader was killed. End its request early; when the request has ended, the next reader starts.
    fork(pcall, call, c.io, "stop_remote_recv", c.id)
    return
  end
  for at, other in ipairs(c.readers) do
    if other == reader then
      table.remove(c.readers, at)
      return
    end
  end
end

-- Sends the request of a reader, which is waiting for the result.
local function read(c, reader, unread, form, ...)
  local ok, value, message, partial, code = pcall(call, c.io, "remote_recv", c.id, unread, form, ...)
  c.fetching = false
  -- The bytes that `unread` has put back meanwhile.
  local put = c.ahead and sub(c.ahead, c.ahead_at)
  c.ahead = nil
  if ok and value then
    -- The second result contains the bytes after the first result.
    if message and not c.closed then c.ahead, c.ahead_at = message, 1 end
    message = nil
  end
  local is_taken = wakeup(reader, ok, value, message, partial, code)
  if not is_taken and ok and (value or partial) and not c.closed then
    put_back(c, value or partial, value and form, ...)
  end
  if put and not c.closed then put_before(c, put) end
  if not is_taken then start_next(c) end
end

-- Takes a result from the bytes that were read ahead. Returns nil if these bytes do not suffice, or if the service must
-- check the form or the limit. The bytes from `first` to `last` (the delimiter) are removed and not returned.
local function take_ahead(c, form, limit, delimited_limit)
  local data, at = c.ahead, c.ahead_at
  if form == nil then
    c.ahead = nil
    return at == 1 and data or sub(data, at)
  end
  local first, last
  if form == "line" then
    first, last = find(data, "\n", at, true)
    if first and limit and first - at > limit then return nil end
    if first and first > at and data:byte(first - 1) == 13 then first = first - 1 end
  elseif form == "until" and type(limit) == "string" and limit ~= "" then
    first, last = find(data, limit, at, true)
    if first and delimited_limit and first - at > delimited_limit then return nil end
  elseif math.type(form) == "integer" and form >= 0 then
    first, last = at + form, at + form - 1
    if last > #data then return nil end
  end
  if not first then return nil end
  if last == #data then c.ahead = nil else c.ahead_at = last + 1 end
  return sub(data, at, first - 1)
end

local function receive_in_order(c, ...)
  local reader <close> = setmetatable({ c = c, is_reading = not c.reading }, Reader)
  if reader.is_reading then
    c.reading = true
  else
    c.readers[#c.readers + 1] = reader
    wait(reader)
  end
  if c.ahead then
    local value = take_ahead(c, ...)
    if value then return true, value end
  end
  if c.closed then return true, nil, "closed", nil, "closed" end
  local unread = c.ahead and sub(c.ahead, c.ahead_at)
  c.ahead, c.fetching, c.burst = nil, true, 0
  fork(read, c, reader, unread, ...)
  return wait(reader)
end

local function finish(io, ok, value, message, partial, code)
  if ok then
    if value or not message then return value end
    return nil, message, partial, code
  end
  message, code = failure(value, io)
  if not message then misuse.raise(code) end
  return nil, message, nil, code
end

-- `receive(c, …)`: like `net.recv`.
function M.receive(c, ...)
  if c.ahead and not c.reading then
    local value = take_ahead(c, ...)
    if value then return value end
  end
  return finish(c.io, receive_in_order(c, ...))
end

-- `unread(c, bytes)`: like `c:unread` of `lio.net`.
function M.unread(c, bytes)
  if type(bytes) == "number" then bytes = tostring(bytes) end
  misuse.check("unread", 2, bytes, "string")
  if bytes ~= "" and not c.closed then put_before(c, bytes) end
end

return M
