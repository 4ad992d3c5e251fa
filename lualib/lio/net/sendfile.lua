-- `net.sendfile`: files, sent by the kernel where it can. Part of `lio.net`.
--
-- A transfer has the connection's write turn from its first wait to its end, as a `send` has, so nothing
-- of another sender gets in between. It goes a bounded number of bytes a turn of the loop.

local file = require "lio.file"
local misuse = require "lio.misuse"
local stream = require "lio.stream"

local put_file <const> = stream.methods.put_file

local function check_count(value, index, name)
  if value == nil then return nil end
  local whole = math.tointeger(value)
  if type(value) ~= "number" or not whole or whole < 0 then
    local got = type(value) == "number" and tostring(value) or type(value)
    misuse.bad("sendfile", index, ("%s must be an integer from 0, not %s"):format(name, got))
  end
  return whole
end

-- What is sent: a file of ours or of `io.open`, and what has to be closed afterwards. → nil, message, code.
local function source_of(source)
  if type(source) == "string" then
    local opened, message, code = file.open(source)
    if not opened then return nil, message, code end
    return opened, opened
  end
  if io.type(source) == "file" then
    -- What was written to it before goes along.
    source:flush()
  elseif type(source) ~= "userdata" then
    misuse.argument("sendfile", 2, "path or file", source)
  end
  return source
end

return function(api, host)
  local turns <const> = host.turns
  local writes <const> = turns.writes
  local await <const>, queue_up <const>, pass_on <const> = turns.await, turns.queue_up, turns.pass_on

  -- Sends on, with the turn taken when `waited`; → as `sendfile`.
  local function transfer(c, source, offset, length, waited)
    local sent = 0
    while true do
      local done, message, partial, code = put_file(c, sent, source, offset, length)
      if done == true or not done then
        if waited then pass_on(writes, c) end
        if done then return true end
        return nil, message, partial, code
      end
      sent, waited = done, true
      local reason = await(writes, c)
      if reason == "timeout" or reason == "closed" then
        pass_on(writes, c)
        return nil, reason, sent, reason
      end
    end
  end

  local function send(c, what, offset, length)
    offset = check_count(offset, 3, "offset") or 0
    length = check_count(length, 4, "length")
    local source, own, code = source_of(what)
    if not source then return nil, own, 0, code end
    local _ <close> = own
    local size, message
    size, message, code = file.measure(source)
    if not size then return nil, message, 0, code end
    local there = math.max(size - offset, 0)
    if (length or 0) > there then
      return nil, "sendfile: the file has only " .. there .. " bytes from there on", 0, "truncated"
    end
    length = length or there
    if writes.turn[c] then
      local problem = queue_up(writes, c)
      if problem then return nil, problem, 0, problem end
      return transfer(c, source, offset, length, true)
    end
    return transfer(c, source, offset, length, false)
  end

  -- `sendfile(c, path_or_file [, offset [, length]])` → true when the system has taken all of it; else
  -- `nil, message, sent, code`. A file is one of `lio.file` or of `io.open`; `offset` counts from 0, the
  -- length is up to the end unless it is given. A file that becomes shorter meanwhile is `"truncated"`.
  function api.sendfile(c, source, offset, length)
    if getmetatable(c) ~= stream.metatable then
      misuse.argument("sendfile", 1, "connection", c)
    end
    return send(c, source, offset, length)
  end
end
