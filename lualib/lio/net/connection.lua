-- Connections: `recv`, `send`, `close`, `wrap`, and the calls that wait for the peer. Part of `lio.net`.
--
-- A call first tries its operation. If the operation would block, the call arms the connection, and its task stays in
-- the wait queue for reading or writing until the call has ended. With the tasks of `lio.task`, `recv` and `send` are
-- native; only calls that queue behind another task, and the rest of a partial `send`, run in this file.

local misuse = require "lio.misuse"
local stream = require "lio.stream"

local READ <const>, END <const> = 1, 4

local Connection <const> = stream.methods
-- Lua's messages about invalid arguments contain the names of these locals.
local recv <const>, send <const>, close_now <const> = Connection.try_recv, Connection.try_send, Connection.close_now
local is_closed <const> = Connection.is_closed

local M = {}

-- The functions of `driver.net` that are also methods of connections.
local METHODS <const> = {
  "recv", "send", "sendfile", "close", "shutdown", "timeout", "peer", "sock", "option", "wait_readable",
  "wait_closed", "transfer", "start_tls",
}

stream.metatable.__close = function(c) c:close() end

-- A VM usually has one driver, whose functions are the methods of connections. If the VM has several drivers, a method
-- finds the driver of the connection: `first`, unless `owners` contains another driver for the connection.
local first
local owners = setmetatable({}, { __mode = "k" })

-- `driver_of(c)` returns the driver to which a connection belongs.
function M.driver_of(c)
  return owners[c] or first
end

-- `adopt(driver, c)`: records that a connection belongs to the driver. Returns the connection.
function M.adopt(driver, c)
  if driver ~= first then owners[c] = driver end
  return c
end

-- `make_methods(driver)`: sets the methods of connections. Called when `driver.net` is complete.
function M.make_methods(driver)
  if not first then
    first = driver
    for _, name in ipairs(METHODS) do Connection[name] = driver.net[name] end
    return
  end
  for _, name in ipairs(METHODS) do
    Connection[name] = function(c, ...) return (owners[c] or first).net[name](c, ...) end
  end
end

-- Receiving ------------------------------------------------------------------------------------------

-- Continues a `recv` that would have blocked. The task waits in `queue`, the wait queue for reading.
local function recv_blocked(queue, c, ...)
  while true do
    local reason = queue:wait_ready(c)
    if reason == "timeout" or reason == "closed" then
      queue:release(c)
      return nil, reason, nil, reason
    end
    local value, message, partial, code = recv(c, ...)
    if value ~= false then
      queue:release(c)
      if value or not message then return value end
      return nil, message, partial, code
    end
  end
end

-- The next two functions make no tail calls: a tail call would remove the function's name from messages about invalid
-- arguments.
local function recv_once(c, ...)
  local value, message, partial, code = recv(c, ...)
  return value, message, partial, code
end

local function send_once(c, ...)
  local done, message, partial, code = send(c, 0, ...)
  return done, message, partial, code
end

-- Calls `f` while the caller holds the connection. If `f` raises because of misuse, releases the connection.
local function while_held(queue, c, f, ...)
  local result = table.pack(pcall(f, c, ...))
  if result[1] == false then
    queue:release(c)
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

-- Waits until another task has released the connection, then receives.
local function recv_queued(queue, c, ...)
  local problem = queue:acquire(c)
  if problem then return nil, problem, nil, problem end
  local value, message, partial, code = while_held(queue, c, recv_once, ...)
  if value == false then return recv_blocked(queue, c, ...) end
  queue:release(c)
  if value or not message then return value end
  return nil, message, partial, code
end

-- Returns the function `recv`. `recv(c)` returns the available bytes, or nil at the end of the stream. `recv(c, n)`
-- returns exactly n bytes. `recv(c, "line" [, limit])` and `recv(c, "until", delimiter [, limit])` return the bytes
-- before the newline or the delimiter. `recv(c, "all" [, limit])` returns all bytes up to the end of the stream. Limits
-- are in bytes; if the data is longer, `recv` fails with "too long". On failure, `recv` returns `nil, message, partial,
-- code`. After a timeout or "too long", the received bytes stay buffered.
local function make_recv(queue)
  local holders <const> = queue.holders
  return function(c, ...)
    if holders[c] then return recv_queued(queue, c, ...) end
    local value, message, partial, code = recv(c, ...)
    if value then return value end
    if value == false then return recv_blocked(queue, c, ...) end
    if not message then return nil end
    return nil, message, partial, code
  end
end

-- Sending --------------------------------------------------------------------------------------------

-- Continues a `send` that has sent `sent` bytes so far. The task waits in `queue`, the wait queue for writing.
local function send_rest(queue, c, sent, ...)
  while true do
    local reason = queue:wait_ready(c)
    if reason == "timeout" or reason == "closed" then
      queue:release(c)
      return nil, reason, sent, reason
    end
    local done, message, partial, code = send(c, sent, ...)
    if done == true or not done then
      queue:release(c)
      if done then return true end
      return nil, message, partial, code
    end
    sent = done
  end
end

-- Waits until another task has released the connection, then sends.
local function send_queued(queue, c, ...)
  local problem = queue:acquire(c)
  if problem then return nil, problem, 0, problem end
  local done, message, partial, code = while_held(queue, c, send_once, ...)
  if done and done ~= true then return send_rest(queue, c, done, ...) end
  queue:release(c)
  if done then return true end
  return nil, message, partial, code
end

-- Returns the function `send`. `send(c, data, …)` sends the strings in as few system calls as possible. Returns true
-- when the system has accepted all strings; otherwise `nil, message, sent, code`. Messages of concurrent senders are
-- not mixed.
local function make_send(queue)
  local holders <const> = queue.holders
  return function(c, ...)
    if holders[c] then return send_queued(queue, c, ...) end
    local done, message, partial, code = send(c, 0, ...)
    if done == true then return true end
    if not done then return nil, message, partial, code end
    return send_rest(queue, c, done, ...)
  end
end

-- Returns the native `recv` and `send`. These call the functions below when a task must queue, release the connection,
-- or wait until the rest can be sent.
local function native_calls(driver)
  local reads <const>, writes <const> = driver.read_queue, driver.write_queue
  return stream.native_calls(driver.timers, {
    recv_queued = function(c, ...) return recv_queued(reads, c, ...) end,
    release = function(c) reads:release(c) end,
    send_queued = function(c, ...) return send_queued(writes, c, ...) end,
    send_rest = function(c, sent, ...) return send_rest(writes, c, sent, ...) end,
  })
end

-- Waiting for the peer -------------------------------------------------------------------------------

local function wait_closed(queue, c, seconds)
  while not is_closed(c) do
    if c:is_over() then return true end
    local armed, message, code = c:arm(END)
    if not armed then return nil, message, code end
    local reason
    if queue.holders[c] then reason = queue:acquire(c, seconds) end
    if not reason then
      -- The end may have arrived while another task held the connection.
      reason = c:is_over() or queue:wait_ready(c, seconds)
      queue:release(c)
    end
    if reason == "timeout" then return nil, reason, reason end
  end
  return nil, "closed", "closed"
end

-- `install(driver)`: adds the functions of this file to `driver.net`.
function M.install(driver)
  local net <const> = driver.net
  if driver.is_native then
    net.recv, net.send = native_calls(driver)
  else
    net.recv, net.send = make_recv(driver.read_queue), make_send(driver.write_queue)
  end

  -- `wait_readable(c [, seconds])`: waits until there may be something to read, but does not read it. Returns true, or
  -- nil, message, code; the code may be "timeout" or "closed".
  function net.wait_readable(c, seconds)
    misuse.check_kind("wait_readable", c, "connection")
    misuse.check_optional_seconds("wait_readable", 2, seconds)
    if is_closed(c) then return nil, "closed", "closed" end
    if c:has_unread() then return true end
    local armed, message, code = c:arm(READ)
    if not armed then return nil, message, code end
    local reason = driver:wait_readable(c, seconds)
    if reason == "timeout" or reason == "closed" then return nil, reason, reason end
    return true
  end

  -- `wait_closed(c [, seconds])`: waits until the peer ends its side or the connection fails. Returns the same results
  -- as `wait_readable`.
  function net.wait_closed(c, seconds)
    misuse.check_kind("wait_closed", c, "connection")
    misuse.check_optional_seconds("wait_closed", 2, seconds)
    return wait_closed(driver.end_queue, c, seconds)
  end

  -- `close(x)` closes a connection, listener, datagram socket or attempt, and returns true. Idempotent. Calls of other
  -- tasks that wait on `x` fail with "closed".
  function net.close(x)
    misuse.check_kind("close", x, "connection, listener, datagram socket or attempt")
    if type(x) == "table" then return x:close() end
    if close_now(x) then driver:forget(x) end
    return true
  end

  -- `wrap(socket)` takes over a connected `lio.socket`. Returns a connection, or `false, message, code`.
  function net.wrap(s)
    misuse.check_kind("wrap", s, "socket")
    local ok, c, message, code = pcall(stream.new, driver.selector, s)
    if not ok then misuse.relay("wrap", (tostring(c):gsub("^bad argument #2", "bad argument #1"))) end
    if not c then return false, message, code end
    return M.adopt(driver, c)
  end
end

return M
