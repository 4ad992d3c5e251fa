-- `web.log`: middleware that writes a line per request when the response is sent or the client has closed.
--
-- Lines are buffered and written together: when the buffer reaches 64 KiB, 0.2 seconds after its first line, and at
-- once while the server is stopping. Data from clients is escaped, so that a client cannot forge a line.

local exchanges = require "lio.web.exchange"
local lio = require "lio"
local misuse = require "lio.misuse"
local options = require "lio.options"

local Log = {}
Log.__index = Log
Log.__name = "lio.log"

-- The buffered lines are written when they reach this many bytes, or after this many seconds.
local FULL <const> = 64 * 1024
local DELAY <const> = 0.2

local MONTHS <const> = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" }

-- Returns a byte as `\xHH`. Like Apache and nginx, the log escapes quotes, backslashes and unprintable or non-ASCII
-- bytes.
local function escape_byte(byte)
  return ("\\x%02X"):format(byte:byte())
end

local function quoted(text)
  if not text then return "-" end
  if not text:find '[^ !#-Z%[%]^-~]' then return text end
  return (text:gsub('[^ !#-Z%[%]^-~]', escape_byte))
end

-- Returns a field that is written without quotes. Escapes spaces too, because a space would end the field.
local function bare(text)
  if not text or text == "" then return "-" end
  return (text:gsub("[^!#-Z%[%]^-~]", escape_byte))
end

-- Returns a time such as `[21/Nov/2026:14:48:48 +0000]`. The result is cached for a second.
local common_at, common_text = nil, nil
local function common_time(seconds)
  if seconds ~= common_at then
    local d = os.date("!*t", seconds)
    common_at = seconds
    common_text = ("[%02d/%s/%04d:%02d:%02d:%02d +0000]"):format(
      d.day, MONTHS[d.month], d.year, d.hour, d.min, d.sec)
  end
  return common_text
end

local iso_at, iso_text = nil, nil
local function iso_time(seconds, ms)
  if seconds ~= iso_at then iso_at, iso_text = seconds, os.date("!%Y-%m-%dT%H:%M:%S", seconds) end
  return ("%s.%03dZ"):format(iso_text, ms)
end

local function user_of(entry)
  return entry.user and bare(tostring(entry.user)) or "-"
end

local formats = {}

-- The Combined Log Format of Apache's httpd.
function formats.combined(entry)
  return ('%s - %s %s "%s %s HTTP/%s" %s %s "%s" "%s"'):format(
    bare(entry.remote), user_of(entry), common_time(entry.time), quoted(entry.method), quoted(entry.target),
    entry.version, entry.status or "-", entry.bytes > 0 and entry.bytes or "-",
    quoted(entry.referer), quoted(entry.agent))
end

-- Escapes the non-ASCII bytes of text that is not UTF-8, because they would make the line invalid JSON.
local function utf8_text(text)
  if text and not utf8.len(text) then return (text:gsub("[\128-\255]", escape_byte)) end
  return text
end

function formats.json(entry)
  return require("lio.json").encode({
    time = iso_time(entry.time, entry.ms),
    method = entry.method,
    path = utf8_text(entry.path),
    version = entry.version,
    status = entry.status,
    bytes = entry.bytes,
    duration = math.floor(entry.duration * 1000000 + 0.5) / 1000000,
    remote = entry.remote,
    agent = utf8_text(entry.agent),
    referer = utf8_text(entry.referer),
    user = entry.user and utf8_text(tostring(entry.user)),
    request_id = entry.request_id and utf8_text(tostring(entry.request_id)),
    aborted = entry.aborted or nil,
  }, { sort = true })
end

local function report(self, message)
  -- Reports a failure once, so that a full disk does not fill standard error as well.
  if self.reported == message then return end
  self.reported = message
  io.stderr:write("lio: access log: ", tostring(message), "\n")
end

-- `log:flush()`: writes the buffered lines. Returns true, or nil and a message.
function Log:flush()
  if self.size == 0 then return true end
  local text = table.concat(self.lines, "\n", 1, self.count) .. "\n"
  self.lines, self.count, self.size = {}, 0, 0
  local ok, done, message = pcall(self.write, text)
  if ok and done then
    self.reported = nil
    return true
  end
  message = ok and message or done
  report(self, message)
  return nil, message
end

-- `log:reopen()`: opens the log file by its name again, after it was moved away. Returns true; or nil and a message. On
-- failure, the old file stays open.
function Log:reopen()
  self:flush()
  if not self.path then return true end
  local file, message = io.open(self.path, "a")
  if not file then return nil, message end
  if self.file then self.file:close() end
  self.file = file
  return true
end

-- `log:close()`: writes the buffered lines, and closes the file if `web.log` opened it.
function Log:close()
  self:flush()
  if self.path and self.file then
    self.file:close()
    self.file = nil
  end
end
Log.__close = Log.close
Log.__gc = Log.close

local function add(self, line, app_server)
  self.count = self.count + 1
  self.lines[self.count] = line
  self.size = self.size + #line + 1
  if self.size >= FULL or app_server.stopping then return self:flush() end
  if self.has_timer then return end
  self.has_timer = true
  app_server.driver:call_later(DELAY, function()
    self.has_timer = false
    self:flush()
  end)
end

-- Returns the table of values for a log line, which is the first argument of a format function.
local function entry_of(req, res, began, wall)
  local status, bytes, aborted = res:sent()
  return {
    time = math.floor(wall),
    ms = math.floor(wall % 1 * 1000),
    duration = lio.now() - began,
    method = req.method,
    target = req.target,
    path = req.original_path,
    version = req.version,
    status = status,
    bytes = bytes,
    aborted = aborted,
    remote = req.remote_addr,
    agent = req:header "user-agent",
    referer = req:header "referer",
    user = req.user,
    request_id = req.id or req.request_id or req:header "x-request-id",
  }
end

-- The log as middleware: adds a line when the request ends.
function Log:__call(req, res, next)
  local began, wall = lio.now(), self.clock()
  -- The request keeps the address from now on; it is unknown once the client has closed. `web.trust_proxy` may replace
  -- it later.
  local _ = req.remote_addr
  res:on_end(function()
    local line = self.format(entry_of(req, res, began, wall), req, res)
    if line then add(self, line, exchanges.app_server_of(res)) end
  end)
  return next()
end

local function open_writer(self, target)
  if target == nil then target = io.stdout end
  if type(target) == "string" then
    self.path = target
    local file, message = io.open(target, "a")
    if not file then misuse.raise("web.log: " .. message) end
    self.file = file
  elseif type(target) == "function" then
    self.write = function(text)
      target(text)
      return true
    end
    return
  else
    self.file = target
  end
  self.write = function(text)
    local file = self.file
    if not file then return nil, "the log is closed" end
    local ok, message = file:write(text)
    if not ok then return nil, message end
    if file.flush then return file:flush() end
    return true
  end
end

local function write_of(value)
  return value.write
end

local OPTIONS <const> = {
  format = options.either(options.one_of("combined", "json"), options.callable),
  file = options.rule("a path, a function or an object with the method 'write'", function(value)
    local kind = type(value)
    if kind == "string" or kind == "function" then return true end
    -- Indexing a userdata without `__index` raises.
    if kind ~= "table" and kind ~= "userdata" then return false end
    local ok, write = pcall(write_of, value)
    return ok and options.callable.test(write)
  end),
}

-- `web.log([options])` returns middleware with the methods `flush`, `reopen` and `close`. `format`: `"combined"`,
-- `"json"`, or a function that gets a table of values, the request and the response, and returns a line, or nil for no
-- line. `file`: a path, an object with the method `write`, or a function; standard output by default.
return function(opts)
  opts = options.check("web.log", 1, opts, OPTIONS)
  local format = opts.format or "combined"
  format = formats[format] or format
  local self = { format = format, lines = {}, count = 0, size = 0, clock = lio.wall }
  open_writer(self, opts.file)
  return setmetatable(self, Log)
end
