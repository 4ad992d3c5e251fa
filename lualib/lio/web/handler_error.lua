-- What follows when a handler, middleware or `on_error` raises: an entry in the log, and an answer.
--
-- Called by web/app_server.lua for the outermost function of a request, and by web/middleware.lua for what
-- `next()` runs. Invariant: the log has one entry per error; values in it cannot begin a line of their own.

local debug <const> = debug or require "lio.debug"
local frames = require "lio.web.mount_scope"

local M = {}

-- What is shown of a table: levels, entries of one table, bytes of a string.
local DEPTH <const> = 3
local ENTRIES <const> = 20
local LONGEST <const> = 200

local CODES <const> = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape_control(bytes)
  return CODES[bytes] or (bytes:gsub(".", function(byte) return ("\\x%02X"):format(byte:byte()) end))
end

-- `text` on one line: control characters, those of Unicode's second block too, are escaped.
local function on_one_line(text)
  if not text:find "[%c\127\xC2]" then return text end
  return (text:gsub("[%c\127]", escape_control):gsub("\xC2[\x80-\x9F]", escape_control))
end

local describe

local function describe_key(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" and #key <= LONGEST then return key .. " = " end
  return "[" .. describe(key, DEPTH) .. "] = "
end

-- By the kinds of keys, then by the keys.
local function is_before(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then return kind < other end
  if kind == "number" or kind == "string" then return a < b end
  return false
end

local function describe_table(value, depth)
  if next(value) == nil then return "{}" end
  if depth == DEPTH then return "{ … }" end
  local length = rawlen(value)
  local parts, keys = {}, {}
  for index = 1, math.min(length, ENTRIES) do parts[index] = describe(rawget(value, index), depth + 1) end
  local more = length > ENTRIES
  for key in next, value do
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then
      if #keys == ENTRIES then
        more = true
        break
      end
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, is_before)
  for _, key in ipairs(keys) do
    parts[#parts + 1] = describe_key(key) .. describe(rawget(value, key), depth + 1)
  end
  if more then parts[#parts + 1] = "…" end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- A value as text, without calling metamethods. Tables are shown up to a depth, so a cycle ends.
function describe(value, depth)
  local kind = type(value)
  if kind == "string" then
    local shown = #value > LONGEST and value:sub(1, LONGEST) .. "…" or value
    return '"' .. shown:gsub('["\\]', "\\%0") .. '"'
  end
  if kind == "table" then return describe_table(value, depth) end
  if kind == "number" or kind == "boolean" or kind == "nil" then return tostring(value) end
  return kind
end

local function has_text(value)
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__tostring") ~= nil
end

-- What an error says.
local function message_of(value)
  local kind = type(value)
  if kind == "string" then return value end
  if has_text(value) or kind ~= "table" then
    local ok, text = pcall(tostring, value)
    if ok then return "(error object is a " .. kind .. ": " .. text .. ")" end
  end
  return "(error object is a " .. kind .. (kind == "table" and ": " .. describe(value, 0) or "") .. ")"
end

-- The message handler for what may fail: `value` as it was raised, its `message`, and `text`, the message with the
-- traceback behind it.
function M.caught(value)
  local message = message_of(value)
  -- Lua cuts a message at a NUL.
  return { value = value, message = message, text = message .. debug.traceback("", 2) }
end

-- What `caught` makes of an error; one for want of memory comes without it, as a text.
function M.whole(problem)
  if type(problem) ~= "string" then return problem end
  return { value = problem, message = problem, text = problem }
end

-- Writes an error's entry.
function M.log(req, problem)
  problem = M.whole(problem)
  local trace = problem.text:sub(#problem.message + 1)
  io.stderr:write("lio: error in ", req.method, " ", on_one_line(req.target), ": ",
    on_one_line(problem.message), trace, "\n")
end

-- Whether an error is that of the function that could not read the body, passed on by the handler as it is.
local function is_refusal(refused, value)
  if type(value) ~= "string" then return refused.raised ~= nil and rawequal(refused.raised, value) end
  local reason = refused.reason or refused[2]
  local bare = value:gsub("^[^\n]-:%d+: ", ""):gsub("^request body: ", "")
  return value == reason or bare == reason
end

-- Takes the fields away that describe another body than the one that the library gives itself.
function M.drop_body_fields(res)
  res[1]:drop_body_fields(res[2])
end

-- Forgets the answer but for the fields that middleware had set before it went on to the handler.
local function start_anew(res)
  res:reset()
  res[1]:restore_fields(res[2])
  M.drop_body_fields(res)
end

-- The library's own answer for an error.
function M.plain(self, req, res, problem)
  start_anew(res)
  res:take(require("lio.web.error_page").failure(req, problem, self.app.settings.debug))
end

-- Has the app's `on_error` answer. → whether there is one, and it did.
local function ask_app(self, req, res, problem)
  local place = frames.place(req)
  local custom = frames.error_handler(self.app, req)
  if not custom then return false end
  res.code = 500
  local ok, second = xpcall(function()
    res:take_from("on_error", custom, custom(problem.value, req, res, problem.text))
  end, M.caught)
  frames.restore(req, place)
  if ok then return res.body ~= nil or res.mode or res.code ~= 500 end
  M.log(req, second)
  if self.server:is_answered(self.id) then self.broken = true end
  return self.broken
end

-- Puts the answer for an error into `res`, and logs it. When the answer has begun, the exchange is `broken`:
-- cutting it short is all that tells the client.
function M.answer(self, req, res, problem)
  problem = M.whole(problem)
  -- `on_file` raised it, and `req:form` raised it again: what counts is where it came from.
  if self.caught and rawequal(self.caught.value, problem.value) then problem = self.caught end
  local refused = self.problem
  -- A handler that gave up because the body was refused has no fault of its own.
  if refused and not is_refusal(refused, problem.value) then refused = false end
  if not refused then M.log(req, problem) end
  res.error = problem.value
  if self.taken then return end
  if self.server:touch(self.id, true) then
    -- What came before goes out.
    if not self.gone then self:send() end
    self.broken = true
    return
  end
  start_anew(res)
  if refused then
    res.code, res.body = refused[1], refused[2] .. "\n"
  elseif not ask_app(self, req, res, problem) then
    M.plain(self, req, res, problem)
  end
end

return M
