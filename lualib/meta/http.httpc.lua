---@meta http.httpc
-- Definitions of `http.httpc` for the Lua language server. docs/build.lua generates docs/api/http.httpc.md from them.

---HTTP requests, each on a separate connection, for programs that were written for skynet. New programs use
---`lio.http.client`. The functions raise on failure.
---@class http.httpc
---@field timeout? integer how long a request may take, in centiseconds; nil: no limit
local httpc = {}

---Sends a request.
---@param method string
---@param address string `"host"`, `"host:port"` or `"http://host:port"`
---@param target string such as `"/path?query"`
---@param received? table gets the fields of the response, with names in lower case
---@param header? table<string, string|number> further fields of the request
---@param content? string the body of the request
---@return integer status
---@return string body
function httpc.request(method, address, target, received, header, content) end

---Sends a request with the method GET. The arguments are those of `request` without the method.
---@param ... any address, target, received, header, content
---@return integer status
---@return string body
function httpc.get(...) end

---Sends a request with the method HEAD. The arguments are those of `request` without the method.
---@param ... any address, target, received, header, content
---@return integer status
function httpc.head(...) end

---Sends the values of a table as a web form.
---@param address string
---@param target string
---@param form table<string, string|number>
---@param received? table gets the fields of the response
---@return integer status
---@return string body
function httpc.post(address, target, form, received) end

---Does nothing: the system resolves names, without blocking.
function httpc.dns() end

return httpc
