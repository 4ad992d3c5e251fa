-- `net.sendfile`: sends files, in the kernel if possible. Part of `lio.net`.
--
-- From its first wait to its end, a transfer holds the connection for writing, as a `send` does, so its bytes are not
-- mixed with the bytes of other senders. A transfer sends a bounded number of bytes in each round of the loop.

local file = require "lio.file"
local misuse = require "lio.misuse"
local stream = require "lio.stream"

local try_sendfile <const> = stream.methods.try_sendfile

local M = {}

local function check_count(index, name, value)
  if value == nil then return nil end
  local whole = math.tointeger(value)
  if type(value) ~= "number" or not whole or whole < 0 then
    local got = type(value) == "number" and tostring(value) or type(value)
    misuse.bad("sendfile", index, ("%s must be an integer of at least 0, not %s"):format(name, got))
  end
  return whole
end

-- `check(offset, length)` returns both arguments as integers; the length may be nil. Raises for other values.
function M.check(offset, length)
  return check_count(3, "offset", offset) or 0, check_count(4, "length", length)
end

-- `measure(source, offset, length)` returns the number of bytes to send from a file of `lio.file` or `io.open`; or nil,
-- message, code. Raises for any other object.
function M.measure(source, offset, length)
  if io.type(source) == "file" then
    -- The bytes that the program has written into the file's buffer must be sent as well.
    source:flush()
  elseif not io.type(source) and not misuse.is_kind(source, "file") then
    misuse.argument("sendfile", 2, "path or file", source)
  end
  local size, message, code = file.measure(source)
  if not size then return nil, message, code end
  local available = math.max(size - offset, 0)
  if (length or 0) > available then
    return nil, "sendfile: the file has only " .. available .. " bytes after the offset", "truncated"
  end
  return length or available
end

-- Sends a part of a file. `is_held`: whether the caller already holds the connection. Returns the same results as
-- `sendfile`.
local function send_part(queue, c, is_held, source, offset, length)
  local sent = 0
  while true do
    local done, message, partial, code = try_sendfile(c, sent, source, offset, length)
    if done == true or not done then
      if is_held then queue:release(c) end
      if done then return true end
      return nil, message, partial, code
    end
    sent, is_held = done, true
    local reason = queue:wait_ready(c)
    if reason == "timeout" or reason == "closed" then
      queue:release(c)
      return nil, reason, sent, reason
    end
  end
end

local function send(queue, c, what, offset, length)
  offset, length = M.check(offset, length)
  local own, message, code
  if type(what) == "string" then
    own, message, code = file.open(what)
    if not own then return nil, message, 0, code end
  end
  local source <const>, _ <close> = own or what, own
  length, message, code = M.measure(source, offset, length)
  if not length then return nil, message, 0, code end
  local is_held = queue.holders[c] ~= nil
  if is_held then
    local problem = queue:acquire(c)
    if problem then return nil, problem, 0, problem end
  end
  return send_part(queue, c, is_held, source, offset, length)
end

-- `install(driver, calls)`: adds `sendfile` to `calls`.
function M.install(driver, calls)
  -- `sendfile(c, path_or_file [, offset [, length]])` returns true when the system has accepted all bytes; otherwise
  -- `nil, message, sent, code`. The file is an object of `lio.file` or of `io.open`. `offset` counts from 0; if
  -- `length` is nil, the rest of the file is sent. If the file becomes shorter meanwhile, the code is `"truncated"`.
  function calls.sendfile(c, source, offset, length)
    if getmetatable(c) ~= stream.metatable then misuse.argument("sendfile", 1, "connection", c) end
    return send(driver.write_queue, c, source, offset, length)
  end
end

return M
