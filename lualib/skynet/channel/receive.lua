-- The responses of a socketchannel: a task reads from the connection, and wakes the coroutines that wait for a
-- response. Part of skynet.socketchannel.
--
-- A connection is a table, the *sock*: `id` and `[1]` (the socket), `is_over`, and the waits for responses:
-- `by_session`, which maps a session to a wait, or the queue `waits` from `first` to `last`. A wait has `response`, and
-- `parts` while its response has only arrived in part; `finish` sets `is_done`, `ok` and `data`. Invariant: when a
-- connection ends, each of its waits ends.

local ltask = require "ltask"
local pool_log <const> = require("skynet.socket.pool").log
local socket = require "skynet.socket"
local task = require "lio.task"

local M = {}

-- The error for a connection that has ended.
local socket_error <const> = setmetatable({}, { __tostring = function() return "[Error: socket]" end })
M.error = socket_error

-- The object that functions get to read a response.
local Sock = {}
Sock.__index = Sock

-- Returns what a read has returned; raises if the connection has ended.
local function checked(data)
  if data then return data end
  error(socket_error, 0)
end

-- `sock:read([size])`: see `socket.read`; raises if the connection has ended.
function Sock:read(size)
  return checked(socket.read(self.id, size))
end

-- `sock:readline([separator])`: see `socket.readline`; raises if the connection has ended.
function Sock:readline(separator)
  return checked(socket.readline(self.id, separator))
end

-- Waits --------------------------------------------------------------------------------------

local function finish(wait, ok, data)
  if wait.is_done then return end
  wait.is_done, wait.ok, wait.data = true, ok, data
  ltask.wakeup(wait)
end

-- Ends all waits of a connection with an error.
local function fail_all(sock, problem)
  for i = sock.first, sock.last do
    finish(sock.waits[i], socket_error, problem)
    sock.waits[i] = nil
  end
  sock.first = sock.last + 1
  for session, wait in pairs(sock.by_session) do
    sock.by_session[session] = nil
    finish(wait, socket_error, problem)
  end
  if sock.current then finish(sock.current, socket_error, problem) end
end

-- Adds a part of a response, or its only part. Returns whether the response is complete.
local function receive_part(wait, ok, data, is_partial)
  if ok and is_partial then
    wait.parts = wait.parts or {}
    table.insert(wait.parts, data)
    return false
  end
  if ok and wait.parts then
    table.insert(wait.parts, data)
    data = wait.parts
  end
  finish(wait, ok, data)
  return true
end

-- Removes the next wait from the queue; waits until there is one.
local function next_wait(sock)
  while sock.first > sock.last do
    if sock.is_over then return nil end
    sock.is_idle = true
    ltask.wait(sock)
    sock.is_idle = false
  end
  local wait = sock.waits[sock.first]
  sock.waits[sock.first] = nil
  sock.first = sock.first + 1
  return wait
end

-- Reads the responses of the requests, in their order. Returns the error that has ended the connection.
local function receive_in_order(sock)
  while true do
    local wait = next_wait(sock)
    if not wait then return socket_error end
    sock.current = wait
    repeat
      local called, ok, data, is_partial = pcall(wait.response, sock)
      if not called then return ok end
    until receive_part(wait, ok, data, is_partial)
    sock.current = nil
  end
end

-- Reads the responses, each with its session. Returns the error that has ended the connection.
local function receive_by_session(sock, response)
  while true do
    local called, session, ok, data, is_partial = pcall(response, sock)
    if not called then return session end
    local wait = session ~= nil and sock.by_session[session]
    if wait then
      if receive_part(wait, ok, data, is_partial) then sock.by_session[session] = nil end
    elseif session ~= nil then
      pool_log("socketchannel: a response with the unknown session %s", tostring(session))
    end
  end
end

-- The task of a connection. It does not refer to the channel, so that a channel that the program has dropped is
-- collected.
local function receive(sock)
  local problem
  if sock.response then problem = receive_by_session(sock, sock.response) else problem = receive_in_order(sock) end
  local is_ended = problem == socket_error
  if not is_ended and not sock.is_over then pool_log("socketchannel: %s", tostring(problem)) end
  M.close(sock, not is_ended and problem or nil)
end

-- For other files ----------------------------------------------------------------------------

-- `open(id, response)`: returns the connection for a socket. `response` is the function of a channel with sessions, or
-- nil.
function M.open(id, response)
  local sock = { id, id = id, response = response, by_session = {}, waits = {}, first = 1, last = 0 }
  setmetatable(sock, Sock)
  socket.onclose(id, function() M.close(sock) end)
  return sock
end

-- `start(sock)`: starts receiving.
function M.start(sock)
  task.spawn(receive, sock)
end

-- `close(sock[, problem])`: closes a connection. Its waits fail with `problem`, or with `socketchannel.error`.
function M.close(sock, problem)
  if sock.is_over then return end
  sock.is_over = true
  socket.close(sock.id)
  fail_all(sock, problem)
  if sock.is_idle then ltask.wakeup(sock) end
end

-- `wait(sock, response)`: waits for a response, and returns its data. Raises if it is an error.
function M.wait(sock, response)
  if sock.is_over then error(socket_error, 0) end
  local wait = { response = response }
  if sock.response then
    sock.by_session[response] = wait
  else
    sock.last = sock.last + 1
    sock.waits[sock.last] = wait
    if sock.is_idle then ltask.wakeup(sock) end
  end
  if not wait.is_done then ltask.wait(wait) end
  if wait.ok == socket_error then error(wait.data or socket_error, 0) end
  if not wait.ok then error(wait.data, 0) end
  return wait.data
end

return M
