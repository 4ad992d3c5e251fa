---@meta http.httpd
-- Definitions of `http.httpd` for the Lua language server. docs/build.lua generates docs/api/http.httpd.md from them.

---Reads an HTTP request, and writes its response, for programs that were written for skynet. New programs use
---`lio.webserver`.
---@class http.httpd
local httpd = {}

---Reads a request. If the request is invalid, or its body is too long, returns only the status for the response. If the
---connection has ended, returns nil and the error, such as `sockethelper.socket_error`.
---@param read fun(size?: integer): string a result of `sockethelper.readfunc`
---@param limit? integer the largest body in bytes; default: no limit
---@return integer? code 200 for a valid request
---@return any target the target of the request, or the error
---@return string? method
---@return table<string, string|string[]>? header names in lower case
---@return string? body
function httpd.read_request(read, limit) end

---Writes a response. Fields with line breaks are refused.
---@param write fun(data: string) a result of `sockethelper.writefunc`
---@param code integer
---@param body? string|fun(): string? a function returns the pieces of the body, then nil
---@param header? table<string, string|number|(string|number)[]>
---@return boolean ok
---@return any problem the error
function httpd.write_response(write, code, body, header) end

return httpd
