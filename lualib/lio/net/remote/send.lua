-- `send` of `lio.net.remote`'s connections. `require "lio.net.remote.send" (ltask, failure)` → the function, without
-- the check of its first argument. `failure`: of `remote.request`.
--
-- What is sent goes out from here, through the connection's outlet, as long as the system takes it; what several
-- tasks send beyond that goes out together. Invariant: one `put` is under way at most, made by a task of its own.
-- `outlet` is false once another request has to do with what is sent: from then on the requests' order is that of
-- the bytes.

local outlet = require "lio.outlet"

local pack <const>, unpack <const>, type <const> = table.pack, table.unpack, type
local sub <const> = string.sub

return function(ltask, failure)
  local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup

  -- Tells the senders of one batch how it ended; `sent` bytes of all are gone when it failed. When it did not,
  -- `message` is the number of the connection's outlet.
  local function report(c, batch, ok, done, message, sent, code)
    if not (ok and done) then
      c.outlet = c.outlet and nil
    elseif c.outlet == nil and message then
      c.outlet = outlet.find(message)
    end
    for _, one in ipairs(batch) do
      if not ok then
        wakeup(one, ok, done)
      elseif done then
        wakeup(one, true, true)
      else
        local mine = math.min(sent, one.size)
        sent = sent - mine
        if mine == one.size and mine > 0 then
          wakeup(one, true, true)
        else
          wakeup(one, true, nil, message, mine, code)
        end
      end
    end
  end

  local function send_task(c)
    while c.outbox[1] do
      local batch = c.outbox
      c.outbox = {}
      if #batch == 1 then
        report(c, batch, pcall(call, c.io, "put", c.handle, unpack(batch[1], 1, batch[1].n)))
      else
        local pieces, n = {}, 0
        for _, one in ipairs(batch) do
          table.move(one, 1, one.n, n + 1, pieces)
          n = n + one.n
        end
        report(c, batch, pcall(call, c.io, "put", c.handle, unpack(pieces, 1, n)))
      end
    end
    c.sending = false
  end

  -- One string when there are many: a request has room for some hundred values.
  local MANY <const> = 100

  local function message_of(...)
    local one = pack(...)
    local size = 0
    for index = 1, one.n do
      local kind = type(one[index])
      if kind == "number" then
        one[index] = tostring(one[index])
      elseif kind ~= "string" then
        error(("bad argument #%d to 'send' (string expected, got %s)"):format(index + 1, kind), 3)
      end
      size = size + #one[index]
    end
    if one.n > MANY then one = { table.concat(one), n = 1 } end
    one.size = size
    return one
  end

  -- So many messages go out from here without a wait in between; then others get their turn.
  local BURST <const> = 32

  -- Sends what the system takes now. → true: that was all; else how many bytes that is, or false and
  -- what `send` returns for a failure.
  local function send_from_here(c, ...)
    c.burst = c.burst + 1
    local sent, all, code = c.outlet:send(...)
    if all == true then return true end
    if code then return false, all, code end
    return sent or 0
  end

  -- The rest of a message, of which so many bytes are gone.
  local function rest_of(one, gone)
    local data = table.concat(one, "", 1, one.n)
    return { sub(data, gone + 1), n = 1, size = #data - gone }
  end

  return function(c, ...)
    local gone = 0
    if c.outlet and not c.sending and c.burst < BURST then
      local message, code
      gone, message, code = send_from_here(c, ...)
      if gone == true then return true end
      if not gone then return nil, message, 0, code end
    end
    local one = message_of(...)
    if c.closed then return nil, "closed", 0, "closed" end
    if gone > 0 then one = rest_of(one, gone) end
    c.outbox[#c.outbox + 1] = one
    c.burst = 0
    if not c.sending then
      c.sending = true
      fork(send_task, c)
    end
    local ok, done, message, sent, code = wait(one)
    if ok then
      if done then return true end
      return nil, message, sent + gone, code
    end
    message, code = failure(done, c.io)
    if not message then error(code, 2) end
    return nil, message, gone, code
  end
end
