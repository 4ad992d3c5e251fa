-- `require "http.url"`: the parts of a request's target. Used by programs that were written for skynet.

local add <const> = require "http.internal".add
local misuse = require "lio.misuse"

local M = {}

local function decode(text)
  return (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

-- `parse(target)`: returns the path, with its escapes decoded, and the query after the "?", or nil if there is none.
function M.parse(target)
  misuse.check("parse", 1, target, "string")
  local path, mark, query = target:match "^([^?]*)(%??)(.*)$"
  return decode(path), mark ~= "" and query or nil
end

-- `parse_query(query)`: returns a table of the decoded values by name. If a name occurs several times, its value is the
-- list of the values.
function M.parse_query(query)
  misuse.check("parse_query", 1, query, "string")
  local values = {}
  for pair in query:gmatch "[^&]+" do
    local encoded_name, encoded_value = pair:match "^([^=]*)=(.*)$"
    if encoded_name then
      add(values, decode((encoded_name:gsub("+", " "))), decode((encoded_value:gsub("+", " "))))
    end
  end
  return values
end

return M
