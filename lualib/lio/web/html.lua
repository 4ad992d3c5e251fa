-- HTML: the native functions for escaping and for results that are sent as HTML. Used by webserver.lua, by the pages of
-- web/error_page.lua and web/directory_listing.lua, and by web/handler_result.lua.

local http = require "lio.http"
local misuse = require "lio.misuse"

local M = {}

-- The type of a body that `html` has marked.
M.MEDIA_TYPE = "text/html; charset=utf-8"

-- `escape(text)` returns the text, escaped for the content or for a quoted attribute of an HTML page.
M.escape = http.escape_html

-- `text_of(value)` returns the text of a result of `html`; nil for any other value.
M.text_of = http.text_of_html

-- `html(text)` returns a value that a handler can return: it is sent as HTML.
function M.html(text)
  misuse.check("html", 1, text, "string")
  return http.html(text)
end

return M
