-- `html.escape(text)` returns the text, escaped for the content or for an attribute of an HTML page. Used for the pages
-- of web/error_page.lua and web/directory_listing.lua.

local M = {}

local ESCAPES <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

function M.escape(text)
  return (text:gsub("[&<>\"']", ESCAPES))
end

return M
