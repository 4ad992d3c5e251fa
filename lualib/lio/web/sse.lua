-- Server-sent events: `res:sse([opts])` returns a stream with `send`, `comment`, `wait` and `close` (HTML Standard,
-- section 9.2). The head is flushed at once. An event is queued, and the server sends it before the loop waits again.
--
-- No task waits for the client to close; the native server reports it. When the client has closed or the server stops,
-- every call returns nil and "closed", so a handler that loops ends.

local defer = require "lio.defer"
local exchanges = require "lio.web.exchange"
local misuse = require "lio.misuse"
local options = require "lio.options"
local native <const> = require("lio.http").request

local Events = {}
Events.__index = Events
Events.__name = "lio.events"

-- The number of seconds between comments, which keep proxies from closing a silent stream.
local PING <const> = 15

-- Adds a field to `parts` for each line of a value.
local function add_field(parts, name, value)
  value = value:gsub("\r\n?", "\n")
  for line in (value .. "\n"):gmatch "(.-)\n" do
    parts[#parts + 1] = name .. line .. "\n"
  end
end

local function one_line(value, name)
  if type(value) ~= "string" and type(value) ~= "number" then
    misuse.raise(("events:send: %s must be a string, not a %s"):format(name, type(value)))
  end
  value = tostring(value)
  if value:find "[\r\n%z]" then misuse.raise("events:send: " .. name .. " must be one line") end
  return value
end

local function encoded(data)
  local ok, text = pcall(require("lio.json").encode, data)
  if not ok then misuse.raise("events:send: data: " .. tostring(text):gsub("^json: ", "")) end
  return text
end

local function write(self, text)
  if self.closed then return nil, "closed" end
  local ok = self.res:write(text)
  if not ok then
    self:finish()
    return nil, "closed"
  end
  return true
end

-- `events:send(data [, event [, id [, retry]]])` returns true, or nil and "closed". `data`: a string of one or more
-- lines, a number, or a table, which is sent as JSON; if it is nil, only the other fields are sent. `retry`:
-- milliseconds.
function Events:send(data, event, id, retry)
  local parts = {}
  if event ~= nil then parts[#parts + 1] = "event: " .. one_line(event, "event") .. "\n" end
  if id ~= nil then parts[#parts + 1] = "id: " .. one_line(id, "id") .. "\n" end
  if retry ~= nil then
    if math.type(retry) ~= "integer" or retry < 0 then
      misuse.raise(("events:send: retry must be an integer of at least 0 (milliseconds), got %s"):format(
        misuse.shown(retry)))
    end
    parts[#parts + 1] = "retry: " .. retry .. "\n"
  end
  if type(data) == "table" then data = encoded(data) end
  if data ~= nil then
    if type(data) ~= "string" and type(data) ~= "number" then
      misuse.raise("events:send: data must be a string, a number or a table, not a " .. type(data))
    end
    add_field(parts, "data: ", tostring(data))
  end
  if #parts == 0 then misuse.raise "events:send: nothing to send" end
  parts[#parts + 1] = "\n"
  return write(self, table.concat(parts))
end

-- `events:comment([text])`: sends a comment, which browsers ignore. Returns the same results as `send`.
function Events:comment(text)
  local parts = {}
  add_field(parts, ": ", tostring(text or ""))
  parts[#parts + 1] = "\n"
  return write(self, table.concat(parts))
end

-- `events:wait([seconds])`: waits until the client has closed or the server stops, for at most `seconds` seconds.
-- Returns nil and "closed", or false and "timeout".
function Events:wait(seconds)
  misuse.check_optional_seconds("wait", 1, seconds)
  if self.closed then return nil, "closed" end
  if self.waiting then misuse.raise "events:wait: another task is already waiting on this stream" end
  local driver = self.driver
  self.waiting = driver:new_token()
  -- Runs even if the task is killed.
  local _ <close> = defer(function() self.waiting = nil end)
  local reason = driver:wait(self.waiting, seconds)
  if reason == "timeout" then return false, "timeout" end
  return nil, "closed"
end

-- `events:is_closed()` returns whether the stream has ended.
function Events:is_closed()
  return self.closed
end

-- `events:close()`: ends the stream. Returns true. Browsers reconnect, unless the page has closed its `EventSource`.
function Events:close()
  self:finish()
  return true
end

-- Ends the stream: frees the timer, and wakes the waiting task.
function Events:finish()
  if self.closed then return end
  self.closed = true
  if self.exchange.event_stream == self then self.exchange.event_stream = false end
  if self.timer then self.driver.timers:free(self.timer) end
  if self.waiting then self.driver:wake(self.waiting, "closed") end
end

-- Called when the timer fires: sends a comment, and sets the timer again.
function Events:expired()
  if self.closed then return end
  -- A client that has not read the queued bytes does not need a comment.
  local exchange = self.exchange
  if native.queued(exchange.request) == 0 then self:comment() end
  if not self.closed then self.driver.timers:set(self.timer, self.ping) end
end

local OPTIONS <const> = {
  ping = options.either(options.seconds, options.is_false),
  retry = options.integer(0),
}

local function ping_of(opts)
  if opts.ping == nil then return PING end
  return opts.ping or nil
end

-- `res:sse([opts])`: sends the head, and returns the stream. `opts`: `ping` (seconds between comments, 15 by default;
-- false: none), `retry` (milliseconds until the client reconnects).
return function(res, opts)
  opts = options.check("res:sse", 1, opts, OPTIONS)
  local ping = ping_of(opts)
  local exchange = exchanges.of(res)
  local driver = exchange.driver
  res:header("Content-Type", "text/event-stream")
  if not res:get_header "cache-control" then res:header("Cache-Control", "no-cache") end
  -- Without this field nginx buffers the events.
  res:header("X-Accel-Buffering", "no")
  local self = setmetatable({
    res = res,
    exchange = exchange,
    driver = driver,
    ping = ping,
    timer = false,
    closed = false,
  }, Events)
  local ok = res:flush()
  if not ok or native.is_head(exchange.request) or exchange.app_server.stopping then
    self.closed = true
    return self
  end
  exchange.event_stream = self
  -- Added before the timer is created, so that no error prevents the end of the timer.
  res:on_end(function() self:finish() end)
  if not native.wait(exchange.request, "end") then exchange:on_peer_close() end
  if ping and not self.closed then
    self.timer = driver.timers:create(self)
    driver.timers:set(self.timer, ping)
  end
  if opts.retry then self:send(nil, nil, nil, opts.retry) end
  return self
end
