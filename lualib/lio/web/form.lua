-- Forms: reads the fields and files of a request's body, urlencoded or multipart (RFC 7578).
--
-- Called by web/request.lua for `req:form`. A form belongs to its exchange, which closes it and its temporary files at
-- the end of the request. Invariant: nothing is read before it is needed, and files are stored piece by piece.

local handler_error = require "lio.web.handler_error"
local http = require "lio.http"
local misuse = require "lio.misuse"
local options = require "lio.options"
local parts = require "lio.web.form_part"

local close_part <const>, new_part <const> = parts.close, parts.new
local native <const> = http.request

local M = {}

-- The default limits of a form. The option `body` is a limit too; its default is the app's limit.
M.defaults = {
  parts = 1000, -- fields and files, or pairs of a urlencoded form
  part_headers = 8 * 1024, -- bytes of one part's headers
  field = 1024 * 1024, -- bytes of one field's value
  fields = 8 * 1024 * 1024, -- bytes of all fields
  file = math.huge, -- bytes of one file
  files = 100,
}

local OPTIONS <const> = { body = options.number(0), dir = options.string, on_file = options.callable }
for name in pairs(M.defaults) do OPTIONS[name] = options.number(0) end

-- Returns the folder for temporary files.
local function default_dir()
  local dir = os.getenv "TMPDIR"
  if dir and dir ~= "" then return dir end
  -- Prefers /var/tmp, because /tmp is in memory on many systems.
  local probe = io.open "/var/tmp"
  if not probe then return "/tmp" end
  probe:close()
  return "/var/tmp"
end

-- Checks the argument of `req:form`. Returns a table with every limit.
local function read_options(opts, app_body)
  if type(opts) == "number" then opts = { body = opts } end
  if opts ~= nil and type(opts) ~= "table" then misuse.argument("form", 1, "table or number", opts) end
  local chosen = { body = app_body }
  for name, value in pairs(M.defaults) do chosen[name] = value end
  for name, value in pairs(options.check("req:form", 1, opts, OPTIONS)) do chosen[name] = value end
  for name, value in pairs(chosen) do
    if type(value) == "number" then chosen[name] = options.to_integer(value) end
  end
  chosen.part_headers = math.max(1, math.min(chosen.part_headers, 1 << 30))
  return chosen
end

local Form = {}
Form.__index = Form

-- The error that stops reading. `multipart` returns its reason and status.
local Refusal = { __name = "lio.form.refusal", __tostring = function(e) return e.reason end }

-- Stops reading. `shown`: the reason for the client, if it differs from `reason`.
local function refuse(self, status, reason, shown)
  local refusal = setmetatable({ reason = reason, status = status }, Refusal)
  self.exchange.refusal = { status = status, reason = shown or reason, raised = refusal }
  error(refusal, 0)
end

-- Calls `f`, a method of the parser, and feeds the parser from the body until `f` has a result. Returns the results of
-- `f`.
function Form:step(f, ...)
  local parser, exchange = self.parser, self.exchange
  while true do
    local a, b, c, d = f(parser, ...)
    if a ~= false then
      if a == nil and b then refuse(self, b, c, b == 500 and "the upload cannot be stored") end
      return a, b, c, d
    end
    local ok, status, reason = exchange:read(self.pull, self.limits.body)
    if not ok then refuse(self, status, reason) end
    self.has_begun = self.is_of_connection
  end
end

-- Returns the next piece of the part that is being received, nil at the end of the part. Called by the part.
function Form:piece()
  return self:step(self.parser.piece, self.limits.file)
end

-- Stores the part that is being received in a temporary file. Called by the part, before any piece of it was read.
function Form:store(part)
  local spool = http.spool(self.dir or default_dir())
  part.spool, part.streamed = spool, true
  part.size = self:step(self.parser.store, spool, self.limits.file)
  part.file, part.spool, part.complete = spool, false, true
end

-- Adds a value under a name. If the name already has a value, it gets a list of its values instead. `lists`: the set of
-- the names that have a list.
local function add(values, lists, name, value)
  local known = values[name]
  if known == nil then
    values[name] = value
  elseif lists[name] then
    known[#known + 1] = value
  else
    values[name], lists[name] = { known, value }, true
  end
end

-- Reads a field's value into `values`.
local function read_field(self, values, lists, name)
  local limits = self.limits
  local text = self:step(self.parser.text, limits.field)
  self.field_bytes = self.field_bytes + #name + #text
  if self.field_bytes > limits.fields then refuse(self, 413, "the form's fields are larger than allowed") end
  add(values, lists, name, text)
end

-- Reads a file: calls `on_file`, or stores the file in a temporary file.
local function read_file(self, name, filename, headers)
  -- If no file was chosen for an input, a browser sends an empty file without a name.
  if filename == "" then
    local first = self:step(self.parser.peek)
    if not first then return end
  end
  local files = self.files
  if #files >= self.limits.files then refuse(self, 413, "the form has too many files") end
  local part = new_part(self, name, filename, headers)
  files[#files + 1] = part
  add(files, self.file_lists, name, part)
  if self.on_file then self.on_file(part) else part:keep() end
  -- The rest of the part is skipped.
  part.complete, part.taken = true, false
end

local function read_parts(self)
  local values, lists = {}, {}
  while true do
    local part, name, filename, headers = self:step(self.parser.next)
    if not part then break end
    if filename then
      read_file(self, name, filename, headers)
    else
      read_field(self, values, lists, name)
    end
  end
  return values, self.files
end

-- Returns the function that feeds the parser: from the connection, or from `body` if the whole body was read before.
local function feeder(parser, body)
  if not body then
    return function(req, limit) return parser:pull(req, limit) end
  end
  local fed = false
  return function(_, limit)
    if fed then return parser:end_body() end
    if #body > limit then return nil, 413, "the body is larger than allowed" end
    fed = true
    parser:feed(body)
    return true
  end
end

-- The end of a call that reads a form, even if its task is killed.
local Reading = { __close = function(reading) reading.form.is_being_read = false end }

local function multipart(exchange, chosen, kind, body)
  local former = exchange.form
  if former and former.is_of_connection and former.is_being_read then
    misuse.raise "req:form: another call is reading the form"
  end
  if former and former.has_begun then
    -- The parts that it has read cannot be read again.
    local failure = former.failure
    exchange.refusal = exchange.refusal or { status = failure.status, reason = failure.reason, raised = failure }
    return nil, failure.reason, failure.status
  end
  local parser, status, reason = http.multipart(kind, chosen.parts, chosen.part_headers)
  if not parser then
    exchange.refusal = { status = status, reason = reason }
    return nil, reason, status
  end
  local self = setmetatable({
    exchange = exchange,
    driver = exchange.driver,
    limits = chosen,
    on_file = chosen.on_file,
    dir = chosen.dir,
    parser = parser,
    pull = feeder(parser, body),
    files = {},
    file_lists = {},
    field_bytes = 0,
    is_of_connection = not body,
    has_begun = false, -- whether a piece was read from the connection
    is_being_read = true,
    failure = { reason = "only a part of the form was read", status = 400 }, -- the result of later calls
  }, Form)
  if former then
    former:close()
    -- The former call was refused before it had read anything.
    if exchange.refusal and rawequal(exchange.refusal.raised, former.failure) then exchange.refusal = false end
  end
  exchange.form, exchange.needs_cleanup = self, true
  local _ <close> = setmetatable({ form = self }, Reading)
  local ok, values, files = xpcall(read_parts, handler_error.catch, self)
  if ok then return values, files end
  self:close "because its form could not be read"
  local err = handler_error.as_caught(values)
  local value = err.value
  if getmetatable(value) == Refusal then
    self.failure = value
    return nil, value.reason, value.status
  end
  exchange.upload_error = err
  error(value, 0)
end

local function urlencoded(req, exchange, chosen)
  local body, reason, status = req:body(math.min(chosen.body, chosen.fields))
  if not body then return nil, reason, status end
  local values = http.parse_urlencoded(body, chosen.parts)
  if values then return values, {} end
  exchange.refusal = { status = 413, reason = "the form has too many fields" }
  return nil, "the form has too many fields", 413
end

-- Deletes the temporary files. Called at the end of the request; idempotent. `reason` completes the errors from later
-- calls; by default, the reason is that the request has ended.
function Form:close(reason)
  for _, part in ipairs(self.files) do close_part(part, reason or "because its request has ended") end
end

-- `read(req, exchange, opts, kind, body)` reads the form of a request. Returns fields, files; or nil, reason, status.
-- `kind`: the Content-Type; `body`: the body if it was read before, otherwise nil. Raises any error that
-- `on_file` raises.
function M.read(req, exchange, opts, kind, body)
  local chosen = read_options(opts, exchange.app.settings.body)
  native.record_effect(req, true)
  local media = kind:match("^%s*([^;%s]*)"):lower()
  if media == "application/x-www-form-urlencoded" then return urlencoded(req, exchange, chosen) end
  if media == "multipart/form-data" then return multipart(exchange, chosen, kind, body) end
  local reason = "expected a form, got '" .. media .. "'"
  exchange.refusal = { status = 415, reason = reason }
  return nil, reason, 415
end

return M
