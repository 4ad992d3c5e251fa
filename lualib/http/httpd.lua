-- `require "http.httpd"`: reads a request, and writes its response. Used by programs that were written for skynet;
-- `lio.webserver` is the server of lio.

local internal = require "http.internal"
local misuse = require "lio.misuse"

local M = {}

-- The texts of statuses.
local REASONS <const> = {
  [100] = "Continue", [101] = "Switching Protocols", [200] = "OK", [201] = "Created", [202] = "Accepted",
  [203] = "Non-Authoritative Information", [204] = "No Content", [205] = "Reset Content", [206] = "Partial Content",
  [300] = "Multiple Choices", [301] = "Moved Permanently", [302] = "Found", [303] = "See Other",
  [304] = "Not Modified", [305] = "Use Proxy", [307] = "Temporary Redirect", [308] = "Permanent Redirect",
  [400] = "Bad Request", [401] = "Unauthorized", [402] = "Payment Required", [403] = "Forbidden", [404] = "Not Found",
  [405] = "Method Not Allowed", [406] = "Not Acceptable", [407] = "Proxy Authentication Required",
  [408] = "Request Timeout", [409] = "Conflict", [410] = "Gone", [411] = "Length Required",
  [412] = "Precondition Failed", [413] = "Content Too Large", [414] = "URI Too Long",
  [415] = "Unsupported Media Type", [416] = "Range Not Satisfiable", [417] = "Expectation Failed",
  [422] = "Unprocessable Content", [426] = "Upgrade Required", [429] = "Too Many Requests",
  [500] = "Internal Server Error", [501] = "Not Implemented", [502] = "Bad Gateway", [503] = "Service Unavailable",
  [504] = "Gateway Timeout", [505] = "HTTP Version Not Supported",
}

local function read_request(read, limit)
  misuse.check_function("read_request", 1, read)
  local input = internal.input(read)
  local lines = input:head()
  if not lines then return 413 end
  local method, target, version = lines[1]:match "^(%a+) (%S+) HTTP/(%d%.%d)$"
  if not method then return 400 end
  if version ~= "1.0" and version ~= "1.1" then return 505 end
  local header = internal.fields(lines, 2)
  if not header then return 400 end
  local body, status = internal.body(input, header, limit)
  if body == false then return status end
  return 200, target, method, header, body or ""
end

local function finish(ok, code, ...)
  if ok then return code, ... end
  return nil, code
end

-- `read_request(read[, limit])`: reads a request through `read(size)`; see `sockethelper.readfunc`. Returns 200, the
-- target, the method, the table of fields, and the body. If the request is invalid, or its body has more than `limit`
-- bytes, returns only the status for the response. If the connection has ended, returns nil and the error.
function M.read_request(...)
  return finish(pcall(read_request, ...))
end

-- Writes a body in chunks. `next_piece` returns the pieces, then nil.
local function write_chunks(write, next_piece)
  for piece in next_piece do
    if piece ~= "" then write(("%x\r\n%s\r\n"):format(#piece, piece)) end
  end
  write "0\r\n\r\n"
end

local function write_response(write, code, body, header)
  misuse.check_function("write_response", 1, write)
  if math.type(code) ~= "integer" then misuse.argument("write_response", 2, "status", code) end
  local head = internal.head(("HTTP/1.1 %03d %s"):format(code, REASONS[code] or ""), header)
  if body == nil then
    write(head .. "\r\n")
  elseif type(body) == "string" then
    write(("%scontent-length: %d\r\n\r\n%s"):format(head, #body, body))
  elseif type(body) == "function" then
    write(head .. "transfer-encoding: chunked\r\n\r\n")
    write_chunks(write, body)
  else
    error(("write_response: a body must be a string or a function, not a %s"):format(type(body)), 0)
  end
end

-- `write_response(write, code[, body[, header]])`: writes a response through `write(data)`. `body` is a string, or a
-- function that returns the pieces of the body and then nil. `header` maps names to values or to lists of values.
-- Returns true; or false and the error.
function M.write_response(...)
  return pcall(write_response, ...)
end

return M
