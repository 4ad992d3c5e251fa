-- One connection in memory between a client of `app:test` and the app's server. A connection sends a request, and
-- waits for the response as a connection of `lio.http.client` does, so that a response (lio/http/client/response.lua)
-- can read from it. Part of `lio.testing`.

-- The maximum size of a response's head in bytes, and the maximum number of its fields.
local MAX_HEAD <const>, MAX_FIELDS <const> = 1024 * 1024, 256
-- The bits of a connection's number that contain its slot in the server.
local SLOT <const> = (1 << 20) - 1

local M = {}

local Connection = {}
Connection.__index = Connection

-- `new(client)` returns a new connection of a client; nil if the server has no room for it.
function M.new(client)
  local opts = client.settings
  local native = client.app_server.server:connect(opts.remote_addr, opts.remote_port, MAX_HEAD, MAX_FIELDS)
  if not native then return nil end
  return setmetatable({
    client = client,
    pool = client.pool, -- `pool:release(conn)` is called at the end of a response
    driver = client.driver,
    responses = native,
    slot = native:number() & SLOT,
    is_closed = false,
    is_last = false, -- the request contains `Connection: close`
    waited = math.huge, -- decoding a body never yields: the app is part of the test
    token = nil, -- the task that waits for data waits on this token
  }, Connection)
end

-- Waits until a read would not block. Returns true; or nil, message, code.
function Connection:wait()
  self.client.app_server:serve_soon()
  if self.responses:may_read() then return true end
  local token = self.driver:new_token()
  self.token = token
  local reason = self.driver:wait(token, self.client.settings.timeout)
  self.token = nil
  if reason == "timeout" then return nil, "waiting for the response: timeout", "timeout" end
  if reason == "closed" then return nil, "closed", "closed" end
  return true
end

-- Called outside of tasks: wakes the task that waits, if it can read.
function Connection:wake()
  if self.token and self.responses:may_read() then self.driver:wake(self.token, true) end
end

-- `conn:read(f, timeouts, limit)` calls `f`, a method of `conn.responses`, and waits while it returns false. Returns
-- its results; or nil, message, code.
function Connection:read(f, _, limit)
  while true do
    local data, message, code = f(self.responses, limit)
    if data ~= false then return data, message, code end
    local ok
    ok, message, code = self:wait()
    if not ok then return nil, message, code end
  end
end

local function send_body(self, request)
  local body, responses = request.body, self.responses
  if body.text then return responses:send(body.text) end
  while true do
    local piece, problem = body:next()
    if problem then return nil, tostring(problem), "body" end
    if not piece then break end
    if piece ~= "" then
      local is_chunked = not request.length
      responses:send(is_chunked and ("%x\r\n%s\r\n"):format(#piece, piece) or piece)
      self.client.app_server:serve_soon()
    end
  end
  if not request.length then responses:send "0\r\n\r\n" end
  return true
end

-- `conn:request(request)` sends a request (lio/http/client/request.lua). Returns the status and the head of the final
-- response; or nil, message, code.
function Connection:request(request)
  local responses = self.responses
  self.is_last = request.is_last
  responses:expect(request.is_head)
  responses:send(request.head)
  if request.body then
    local ok, message, code = send_body(self, request)
    if ok == nil then return nil, message, code end
  end
  while true do
    local status, head, code = self:read(responses.head)
    if not status or status >= 200 or status == 101 then return status, head, code end
  end
end

-- Returns whether another request can be sent.
function Connection:is_reusable()
  return not (self.is_closed or self.is_last) and self.responses:is_reusable()
end

-- Closes the connection. Idempotent.
function Connection:close()
  if self.is_closed then return end
  self.is_closed = true
  self.responses:close()
  if self.token then self.driver:wake(self.token, "closed") end
  self.pool:forget(self)
end

return M
