-- The class of responses, and the checks that its methods call first. The methods are in web/response.lua (what a
-- handler sets), web/handler_result.lua (what it returns) and web/response_sending.lua.
--
-- A response has these fields; the native server keeps its header fields.
--   request       the request; the functions of `http.request` take it
--   code          its status, nil until one is set
--   body          a string, a function that returns pieces, or an open file with its ranges in `file_parts`
--   content_type  the type of the body, if no header field names one; false: the body is sent without a type
--   trailers      the lines of its trailer fields
--   error         the value that the handler raised
-- A response that has begun also has `sent_code`; `framing` of its body ("length", "chunked", "close", or "none" for no
-- body); `unwritten`, how many bytes of its Content-Length are not written yet; and `encoder`, which compresses the
-- pieces of the body.

local misuse = require "lio.misuse"
local native <const> = require("lio.http").request

local Response = { __name = "lio.response" }
Response.__index = Response

local M = { Response = Response }

-- Raises unless `res` is a response. `call` is the method's name.
local function check_self(res, call)
  if getmetatable(res) ~= Response then misuse.no_colon("res", call) end
end
M.check_self = check_self

-- Raises if the response has begun. `needs_lua`: after this call only `Response:finish` can complete the response.
function M.check_open(res, call, needs_lua)
  check_self(res, call)
  if native.record_effect(res.request, needs_lua) or res.framing then
    misuse.raise(("res:%s: the response has already begun"):format(call))
  end
end

return M
