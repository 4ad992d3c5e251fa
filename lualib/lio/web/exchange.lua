-- What the Lua side keeps of a request whose handler does more than return a body: why its body could not be read, its
-- form and its file, hooks, server-sent events, tasks that wait. Made when it is first needed; ends with the request.
--
-- A request is known to its server (`http.server`) by a number, so an exchange that is kept for longer finds that the
-- request is over. Responses are `{ server, number, request }`; requests know both as well.

local http = require "lio.http"

local owner <const> = http.head.owner
local setmetatable <const> = setmetatable

local M = {}

-- What web/app_server.lua has for each server.
local servings = setmetatable({}, { __mode = "k" })

local Exchange = {
  problem = false, -- why the body could not be read: `{ status, text }`
  caught = false, -- what `on_file` raised, as `failure.caught` gives it
  extras = false, -- whether there is one of the next three
  form = false,
  file = false,
  hooks = false,
  taken = false, -- the connection is the program's
  gone = false, -- the peer takes no more
  broken = false, -- the answer cannot be completed
  events = false, -- server-sent events
  waiting = false, -- tickets of tasks, by what they wait for
}

-- From now on the exchanges of this server are found.
function M.serve(serving)
  local kind = { app = serving.app, driver = serving.driver, serving = serving, server = serving.server }
  for name, value in pairs(Exchange) do kind[name] = value end
  serving.kind = { __index = kind }
  serving.exchanges = {}
  servings[serving.server] = serving
end

-- The exchange of request `id`. One that is over has one that is broken.
local function find(server, id, req)
  local serving = servings[server]
  local exchange = serving.exchanges[id]
  if exchange then return exchange end
  exchange = setmetatable({ id = id, request = req }, serving.kind)
  if server:is_open(id) then
    serving.exchanges[id] = exchange
  else
    exchange.gone, exchange.broken = true, true
  end
  return exchange
end

-- `of(res)` → the exchange of a response.
function M.of(res) return find(res[1], res[2], res[3]) end

-- `known(res)` → the same if there is one, else nil.
function M.known(res) return servings[res[1]].exchanges[res[2]] end

-- `of_request(req)` → the exchange of a request.
function M.of_request(req)
  local server, id = owner(req)
  return find(server, id, req)
end

-- `serving(res)` → what web/app_server.lua has for the server of a response.
function M.serving(res) return servings[res[1]] end

-- Waits until the connection may be read ("read"), or takes more ("write"). → true, "timeout" or "closed".
function Exchange:wait(what)
  if not self.server:wait(self.id, what) then return "closed" end
  local ticket = self.driver:new_token()
  local waiting = self.waiting or {}
  self.waiting = waiting
  waiting[what] = waiting[what] or {}
  table.insert(waiting[what], ticket)
  return self.driver:wait(ticket)
end

-- Wakes the tasks that wait for `what`.
function Exchange:wake(what, reason)
  local tickets = self.waiting and self.waiting[what]
  if not tickets then return end
  self.waiting[what] = nil
  for _, ticket in ipairs(tickets) do self.driver:wake(ticket, reason) end
end

-- Sends what is queued, and `data` behind it, of which `taken` bytes are gone. → whether the peer still takes it; else
-- "closed", "timeout", or "truncated" for a file that has become shorter.
function Exchange:send(data, taken)
  local server, id = self.server, self.id
  local reason
  data, taken = data or "", taken or 0
  repeat
    taken, reason = server:send(id, data, taken)
    if taken == true then return true end
    if taken then reason = self:wait "write" end
  until reason ~= true
  self.gone, self.broken = true, true
  return false, reason
end

-- `before` is called before what is queued goes out, which is before the loop waits: it may queue more.
function Exchange:flush_later(before)
  self.serving.unflushed[self.id] = before
end

-- Goes on after a reading function of the server has given `value, status, reason`: calls it until it does not block.
-- → its results.
function Exchange:go_on_reading(f, limit, value, status, reason)
  local server, id = self.server, self.id
  while value == false do
    local woken = self:wait "read"
    if woken ~= true then
      status, reason = 400, "closed"
      if woken == "timeout" then status, reason = 408, "the body comes in too slowly" end
      self.problem = { status, reason }
      server:close_after(id)
      return nil, status, reason
    end
    value, status, reason = f(server, id, limit)
  end
  if status then self.problem = { status, reason } end
  return value, status, reason
end

-- Calls a reading function of the server until it does not block. → its results.
function Exchange:read(f, limit)
  return self:go_on_reading(f, limit, f(self.server, self.id, limit))
end

-- An answer's file ends with its request. `keep_file(f)` closes the one before; nil: only that.
function Exchange:keep_file(f)
  if self.file then self.file:close() end
  self.file = f or false
  if f then self.extras = true end
end

return M
