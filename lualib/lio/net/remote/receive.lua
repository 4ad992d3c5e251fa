-- `recv` of `lio.net.remote`'s connections. `require "lio.net.remote.receive" (ltask, failure)` → the function, without
-- the check of its first argument. `failure`: of `remote.request`.
--
-- A connection reads ahead: what its service has beyond the result comes along, so that a burst of small messages
-- costs few requests. Invariant: one `read` is under way at most, made by a task of its own, so that a task that is
-- killed while it waits loses nothing that was received, and stops nobody else.

local type <const> = type
local find <const>, sub <const> = string.find, string.sub

return function(ltask, failure)
  local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup

  -- What a reader that was killed did not take goes back to the front.
  local function put_back(c, value, form, delimiter)
    if form == "line" then
      value = value .. "\n"
    elseif form == "until" then
      value = value .. delimiter
    end
    c.data = c.data and value .. sub(c.data, c.at) or value
    c.at = 1
  end

  -- Who reads: `mine` once it has the turn. While a request is under way, the turn is the request's.
  local Turn = {}

  local function next_reader(c)
    local turn = table.remove(c.readers, 1)
    c.reading = turn ~= nil
    if turn then
      turn.mine = true
      wakeup(turn)
    end
  end

  function Turn.__close(turn)
    local c = turn.c
    if turn.mine then
      if not c.fetching then return next_reader(c) end
      -- Killed: the request ends, and hands the turn on then.
      fork(pcall, call, c.io, "stop_read", c.handle)
      return
    end
    for at, other in ipairs(c.readers) do
      if other == turn then
        table.remove(c.readers, at)
        return
      end
    end
  end

  local function read_task(c, token, ahead, form, ...)
    local ok, value, message, partial, code = pcall(call, c.io, "read", c.handle, ahead, form, ...)
    c.fetching = false
    if ok and value then
      -- Beyond what was asked for.
      if message and not c.closed then c.data, c.at = message, 1 end
      message = nil
    end
    if wakeup(token, ok, value, message, partial, code) then return end
    if ok and (value or partial) and not c.closed then put_back(c, value or partial, value and form, ...) end
    next_reader(c)
  end

  -- Takes what is there already, for the forms and limits that are plain. → value, or nil: ask.
  local function take(c, form, limit, more)
    local data, at = c.data, c.at
    if form == nil then
      c.data = nil
      return at == 1 and data or sub(data, at)
    end
    local first, last
    if form == "line" then
      first, last = find(data, "\n", at, true)
      if first and limit and first - at > limit then return nil end
      if first and first > at and data:byte(first - 1) == 13 then first = first - 1 end
    elseif form == "until" and type(limit) == "string" and limit ~= "" then
      first, last = find(data, limit, at, true)
      if first and more and first - at > more then return nil end
    elseif math.type(form) == "integer" and form >= 0 then
      last = at + form - 1
      first = at + form
      if last > #data then return nil end
    end
    if not first then return nil end
    if last == #data then c.data = nil else c.at = last + 1 end
    return sub(data, at, first - 1)
  end

  local function receive_in_turn(c, ...)
    local turn <close> = setmetatable({ c = c, mine = not c.reading }, Turn)
    if turn.mine then
      c.reading = true
    else
      c.readers[#c.readers + 1] = turn
      wait(turn)
    end
    if c.data then
      local value = take(c, ...)
      if value then return true, value end
    end
    if c.closed then return true, nil, "closed", nil, "closed" end
    local ahead = c.data and sub(c.data, c.at)
    c.data, c.fetching, c.burst = nil, true, 0
    fork(read_task, c, turn, ahead, ...)
    return wait(turn)
  end

  local function received(io, ok, value, message, partial, code)
    if ok then
      if value or not message then return value end
      return nil, message, partial, code
    end
    message, code = failure(value, io)
    if not message then error(code, 2) end
    return nil, message, nil, code
  end

  return function(c, ...)
    if c.data and not c.reading then
      local value = take(c, ...)
      if value then return value end
    end
    return received(c.io, receive_in_turn(c, ...))
  end
end
