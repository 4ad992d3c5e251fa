---@meta http.url
-- Definitions of `http.url` for the Lua language server. docs/build.lua generates docs/api/http.url.md from them.

---The parts of a request's target, for programs that were written for skynet.
---@class http.url
local url = {}

---Splits a target.
---@param target string
---@return string path with its escapes decoded
---@return string? query what follows the "?"
function url.parse(target) end

---Returns the decoded values of a query by name. If a name occurs several times, its value is the list of the values.
---@param query string
---@return table<string, string|string[]> values
function url.parse_query(query) end

return url
