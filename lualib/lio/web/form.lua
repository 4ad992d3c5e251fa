-- Forms: reads the fields and files of a request's body, urlencoded or multipart (RFC 7578).
--
-- Called by web/request.lua for `req:form`. A form belongs to its exchange, which closes it, and so the
-- temporary files, when the request has been answered. Invariant: nothing is read before it is needed, and
-- of a file no more than one piece is in memory.

local failure = require "lio.web.handler_error"
local http = require "lio.http"
local misuse = require "lio.misuse"
local rules = require "lio.options"
local new_part <const> = require "lio.web.form_part".new

local M = {}

-- Limits of a form, all settable per call; `body` is the app's unless it is given.
M.defaults = {
  parts = 1000, -- fields and files, or pairs of a urlencoded form
  part_headers = 8 * 1024, -- bytes of one part's headers
  field = 1024 * 1024, -- bytes of one field's value
  fields = 8 * 1024 * 1024, -- bytes of all fields
  file = math.huge, -- bytes of one file
  files = 100,
}

local OPTIONS <const> = { body = rules.number(0), dir = rules.string, on_file = rules.callable }
for name in pairs(M.defaults) do OPTIONS[name] = rules.number(0) end

-- Where temporary files are made.
local function usual_dir()
  local dir = os.getenv "TMPDIR"
  if dir and dir ~= "" then return dir end
  -- The one for what may be large: /tmp often is memory.
  local probe = io.open "/var/tmp"
  if not probe then return "/tmp" end
  probe:close()
  return "/var/tmp"
end

-- A count for the parser, which knows no infinity.
local function whole(value)
  return math.tointeger(value // 1) or math.maxinteger
end

-- Checks what `req:form` was given. → a table with every limit.
local function read_options(opts, app_body)
  if type(opts) == "number" then opts = { body = opts } end
  if opts ~= nil and type(opts) ~= "table" then misuse.argument("form", 1, "table or number", opts) end
  local chosen = { body = app_body }
  for name, value in pairs(M.defaults) do chosen[name] = value end
  for name, value in pairs(rules.check("req:form", 1, opts, OPTIONS)) do chosen[name] = value end
  for name, value in pairs(chosen) do
    if type(value) == "number" then chosen[name] = whole(value) end
  end
  chosen.part_headers = math.max(1, math.min(chosen.part_headers, 1 << 30))
  return chosen
end

local Form = {}
Form.__index = Form

-- What ends the reading, as an error that `parse` turns into results.
local Refusal = { __name = "lio.form.refusal", __tostring = function(e) return e.reason end }

local function refuse(self, status, reason, shown)
  local refusal = setmetatable({ reason = reason, status = status }, Refusal)
  self.exchange.problem = { status, shown or reason, raised = refusal }
  error(refusal, 0)
end

-- Has the parser take a step, with more of the body as long as it needs that. → its results.
function Form:step(f, ...)
  local parser, exchange = self.parser, self.exchange
  while true do
    local a, b, c, d = f(parser, ...)
    if a ~= false then
      if a == nil and b then refuse(self, b, c, b == 500 and "the upload cannot be stored") end
      return a, b, c, d
    end
    local ok, status, reason = exchange:read(self.pull, self.options.body)
    if not ok then refuse(self, status, reason) end
  end
end

-- The next piece of the part that is coming in, nil at its end. Called by the part, until it is complete.
function Form:piece()
  return self:step(self.parser.piece, self.options.file)
end

-- Takes the part that is coming in into a temporary file. Called by the part, before any of it was read.
function Form:store(part)
  part.file = http.spool(self.options.dir or usual_dir())
  part.size = self:step(self.parser.store, part.file, self.options.file)
  part.complete = true
end

-- Adds a value under a name; a second one makes a list. `lists` knows which names have one.
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
local function take_field(self, values, lists, name)
  local options = self.options
  local text = self:step(self.parser.text, options.field)
  self.field_bytes = self.field_bytes + #name + #text
  if self.field_bytes > options.fields then refuse(self, 413, "the form's fields are larger than allowed") end
  add(values, lists, name, text)
end

-- Reads a file: by `on_file`, else into a temporary file.
local function take_file(self, name, filename, headers)
  local options = self.options
  -- A file input without a choice comes as an empty file without a name.
  if filename == "" then
    local first = self:step(self.parser.peek)
    if not first then return end
  end
  local files = self.files
  if #files >= options.files then refuse(self, 413, "the form has too many files") end
  local part = new_part(self, name, filename, headers)
  files[#files + 1] = part
  add(files, self.file_lists, name, part)
  if options.on_file then options.on_file(part) else part:keep() end
  part.complete = true
end

local function read_parts(self)
  local values, lists = {}, {}
  while true do
    local what, name, filename, headers = self:step(self.parser.next)
    if not what then break end
    if filename then
      take_file(self, name, filename, headers)
    else
      take_field(self, values, lists, name)
    end
  end
  return values, self.files
end

-- The parser's food: the server, or a body that was read as a whole already.
local function source(parser, body)
  if not body then
    return function(server, id, limit) return parser:pull(server, id, limit) end
  end
  local fed = false
  return function(_, _, limit)
    if fed then return parser:finish() end
    if #body > limit then return nil, 413, "the body is larger than allowed" end
    fed = true
    parser:feed(body)
    return true
  end
end

local function multipart(req, exchange, options, kind, body)
  local parser, status, reason = http.multipart(kind, options.parts, options.part_headers)
  if not parser then
    exchange.problem = { status, reason }
    return nil, reason, status
  end
  local self = setmetatable({
    req = req,
    exchange = exchange,
    driver = exchange.driver,
    options = options,
    parser = parser,
    pull = source(parser, body),
    files = {},
    file_lists = {},
    field_bytes = 0,
  }, Form)
  exchange.form, exchange.extras = self, true
  local ok, values, files = xpcall(read_parts, failure.caught, self)
  if ok then return values, files end
  self:close()
  values = failure.whole(values)
  local value = values.value
  if getmetatable(value) == Refusal then return nil, value.reason, value.status end
  exchange.caught = values
  error(value, 0)
end

local function urlencoded(req, exchange, options)
  local body, reason, status = req:body(math.min(options.body, options.fields))
  if not body then return nil, reason, status end
  local values = http.pairs(body, options.parts)
  if values then return values, {} end
  exchange.problem = { 413, "the form has too many fields" }
  return nil, "the form has too many fields", 413
end

-- Gives the temporary files back. Called when the request is over; idempotent.
function Form:close()
  for _, part in ipairs(self.files) do part:close() end
end

-- Reads the form of a request whose body is of type `kind`, `body` when that was read already. → fields,
-- files; or nil, reason, status. Raises what `on_file` raises.
function M.read(req, exchange, opts, kind, body)
  local options = read_options(opts, exchange.app.settings.body)
  exchange.server:touch(exchange.id, true)
  local media = kind:match("^%s*([^;%s]*)"):lower()
  if media == "application/x-www-form-urlencoded" then return urlencoded(req, exchange, options) end
  if media == "multipart/form-data" then return multipart(req, exchange, options, kind, body) end
  local reason = "expected a form, got '" .. media .. "'"
  exchange.problem = { 415, reason }
  return nil, reason, 415
end

return M
