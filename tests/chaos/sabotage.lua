-- Faults in the application itself, to see that the ledger reports them: the fourth argument of server.lua.
--   forget  acknowledges a count that the service never gets     upload   acknowledges an upload without storing it
--   twice   counts a request twice                               answer   answers a request twice on one connection
--   gap     leaves out an event of a stream                      wrong    answers with the response of another request
--   service leaves a service running     descriptor, task, timer  leaks one of these     stuck  never answers
--   memory  leaks 64 KiB                 thread   leaves threads running
--   hoard   keeps each body above 100 kB

local loop = require "lio.loop"
local ltask = require "ltask"

local M = {}

local chosen, turn = "none", 0
local leaked = {}

local function keep(value) leaked[#leaked + 1] = value end

function M.choose(name) chosen = name or "none" end

--- Returns whether the fault happens now: every 8th time if it was chosen.
function M.strikes(name)
  if chosen ~= name then return false end
  turn = turn + 1
  return turn % 8 == 0
end

--- Keeps the body of a request, if that was chosen and it is long.
function M.hoard(body)
  if chosen == "hoard" and #body > 100000 then keep(body) end
end

-- Leaks a descriptor, memory, a task, a thread or a timer, if that was chosen.
local function leak()
  if M.strikes "descriptor" then keep(io.open "/dev/null") end
  if M.strikes "memory" then keep(("x"):rep(65536 + turn)) end
  if M.strikes "thread" and turn % 80 == 0 then ltask.spawn "blocker" end
  if M.strikes "timer" then loop.timeout(3600, function() end) end
  if M.strikes "task" then
    local token = {}
    keep(token)
    loop.fork(function() loop.wait(token) end)
  end
end

local function answer_twice(req)
  local body = ('{"id":"%s"}'):format(req.params.id)
  local c <close> = req:take_over()
  local head = "HTTP/1.1 200 OK\r\nContent-Length: " .. #body .. "\r\n\r\n"
  c:send((head .. body):rep(2))
  c:recv(1)
end

--- Adds middleware for the faults of single requests.
function M.install(app)
  local before
  app:use("/echo", function(req, res, next)
    leak()
    if M.strikes "stuck" then loop.sleep(3600) end
    if M.strikes "answer" then return answer_twice(req) end
    next()
    if M.strikes "wrong" and before then res:send(before) end
    before = res.body
  end)
end

return M
