-- How the process of a file of tests reports to `lio test`: events between the lines of its output. An event is "\1",
-- its fields separated by "\2", and "\3\n"; in fields, control characters and "%" are escaped. The first field is the
-- kind: `begin`, `passed`, `failed`, `skipped`, `broken`, `loaded`, `end`. Part of `lio.testing`.

local M = {}

local function escape(text)
  return (tostring(text):gsub("[%c%%]", function(c) return ("%%%02X"):format(c:byte()) end))
end

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

-- `write(kind, …)`: writes an event to standard output.
function M.write(kind, ...)
  local fields = { kind, ... }
  for index, field in ipairs(fields) do fields[index] = escape(field) end
  io.stdout:write("\1", table.concat(fields, "\2"), "\3\n")
  io.stdout:flush()
end

-- `parse(output, on_text, on_event)`: calls `on_text(text)` for the text between events, and `on_event(kind, …)` for
-- each complete event, in order.
function M.parse(output, on_text, on_event)
  local at = 1
  while true do
    local first, last, content = output:find("\1([^\1\3]*)\3\n", at)
    local text = output:sub(at, (first or 0) - 1)
    if text ~= "" then on_text(text) end
    if not first then return end
    local fields = {}
    for field in (content .. "\2"):gmatch "([^\2]*)\2" do fields[#fields + 1] = unescape(field) end
    on_event(table.unpack(fields))
    at = last + 1
  end
end

return M
