-- The library's own responses to errors: a short text, a page for browsers, or JSON for clients that accept JSON but no
-- text; with `debug = true`, a page with the traceback and source lines. Called by web/handler_error.lua,
-- web/routing.lua and web/static.lua.

local html = require "lio.web.html"
local http = require "lio.http"

local M = {}

-- How many lines are shown before and after the line of the error.
local AROUND <const> = 5

-- Escapes text for HTML. Control characters become replacement characters.
local function escape(text)
  return (html.escape(text):gsub("[%z\1-\8\11-\31\127]", "\u{FFFD}"))
end

-- Reports whether a header's value must not be shown.
local function is_secret(name)
  return name:find "cookie" or name:find "auth" or name:find "token" or name:find "secret" or name:find "api%-?key"
end

-- Reports whether the client accepts JSON, but neither text nor HTML.
local function wants_json(req)
  local accept = req:header "accept"
  if not accept or not accept:find("json", 1, true) then return false end
  return not (accept:find("*/*", 1, true) or accept:find("text/", 1, true))
end

-- Reports whether the client lists HTML in `Accept`.
local function wants_html(req)
  for item in (req:header "accept" or ""):gmatch "[^,]+" do
    if item:lower():find "^%s*text/html%s*$" then return true end
    local parameters = item:lower():match "^%s*text/html%s*(;.*)$"
    if parameters and not parameters:find ";%s*q=0%.?0*%s*$" then return true end
  end
  return false
end

-- The page for a response that states only its status.
local STATUS_PAGE <const> = [[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>%d %s</title><style>
:root{color-scheme:light dark}
body{display:grid;font:16px/1.5 system-ui,sans-serif;margin:0;min-height:90vh;padding:1rem;place-content:center;
text-align:center}
h1{font-size:4rem;font-weight:600;line-height:1.1;margin:0}
p{font-size:1.25rem;margin:0}
</style></head><body><main><h1>%d</h1><p>%s</p></main></body></html>
]]

local function status_page(status, reason)
  reason = html.escape(reason)
  return STATUS_PAGE:format(status, reason, status, reason)
end

-- `for_status(req, status [, headers])` returns the status, body and headers of a response that states only the status.
function M.for_status(req, status, headers)
  local reason = http.reason(status)
  if wants_json(req) then
    headers = headers or {}
    headers["Content-Type"] = "application/json"
    return status, ('{"error":"%s","status":%d}\n'):format(reason, status), headers
  end
  if wants_html(req) then
    headers = headers or {}
    headers["Content-Type"] = html.MEDIA_TYPE
    return status, status_page(status, reason), headers
  end
  return status, reason .. "\n", headers
end

-- Finds the first line of a traceback whose source file can be read. Returns the path, the line number and the source
-- lines around it. `trace` must not include the error's message, because a client can supply a part of the message and
-- thus choose the file.
local function source_of(trace)
  for path, number in trace:gmatch "\n\t([^\n\t:]+):(%d+):" do
    local file = io.open(path, "r")
    if file then
      local wanted, lines, count = math.tointeger(tonumber(number)), {}, 0
      for line in file:lines() do
        count = count + 1
        if count >= wanted - AROUND then lines[#lines + 1] = { number = count, text = line } end
        if count == wanted + AROUND then break end
      end
      file:close()
      if count >= wanted then return path, wanted, lines end
    end
  end
end

-- A block that scrolls: it can get the focus, so that keys scroll it, and has a name.
local PRE <const> = '<pre class=%s tabindex=0 role=region aria-label="%s">'

local function source_part(trace)
  local ok, path, wanted, lines = pcall(source_of, trace)
  if not ok or not path then return "" end
  local row = ("<i>%%%dd</i>  %%s\n"):format(#tostring(wanted + AROUND))
  local parts = { "<h2>", escape(path), ":", wanted, "</h2>", PRE:format("source", "Source") }
  for _, line in ipairs(lines) do
    local mark = line.number == wanted and "<b>%s</b>" or "<span>%s</span>"
    local shown = escape(line.text:sub(1, 300))
    parts[#parts + 1] = mark:format(row:format(line.number, shown))
  end
  parts[#parts + 1] = "</pre>"
  return table.concat(parts)
end

local function headers_part(req)
  local names = {}
  for name in pairs(req.headers) do names[#names + 1] = name end
  table.sort(names)
  local parts = { "<h2>Request headers</h2><dl>" }
  for _, name in ipairs(names) do
    local value = is_secret(name) and "<em>hidden</em>" or escape(req.headers[name] or "")
    parts[#parts + 1] = ("<dt>%s</dt><dd>"):format(escape(name)) .. value .. "</dd>"
  end
  parts[#parts + 1] = "</dl>"
  return table.concat(parts)
end

local STYLE <const> = [[
:root{color-scheme:light dark;--ink:#1d2433;--dim:#667085;--ground:#f6f7f9;--card:#fff;--line:#e1e4ea;
--red:#c02626;--mark:#fdecec}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e8ee;--dim:#98a1b3;--ground:#14171d;--card:#1c2028;--line:#2d333f;--red:#ff7b72;--mark:#43262a}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:62rem;margin:0 auto;padding:2rem 1rem 4rem}
header{border-left:.3rem solid var(--red);padding:.1rem 0 .1rem 1rem}
header p{margin:0;color:var(--dim);overflow-wrap:anywhere}
h1{font-size:1.3rem;line-height:1.35;margin:.2rem 0 0;color:var(--red);overflow-wrap:anywhere;white-space:pre-wrap}
h2{font-size:.95rem;margin:2rem 0 .5rem;overflow-wrap:anywhere}
pre,dl{background:var(--card);border:1px solid var(--line);border-radius:.5rem;margin:0;
padding:.8rem 1rem;overflow-x:auto}
pre,dd,dt{font:13.5px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre.source{padding:.8rem 0}
pre.source b,pre.source span{display:block;padding:0 1rem;font-weight:inherit;
width:max-content;min-width:100%}
pre.source b{background:var(--mark)}pre.source i{color:var(--dim);font-style:normal}pre.source b i{color:inherit}
dt{color:var(--dim)}dd{margin:0 0 .4rem;overflow-wrap:anywhere}em{color:var(--dim)}
@media(min-width:40rem){dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem}
dd{margin:0}}
]]

-- The HTML page for a caught error.
local function html_page(req, err)
  local message = err.message
  local trace = err.text:sub(#message + 1):gsub("^\n", "")
  local calls = trace:gsub("^stack traceback:", ""):gsub("\n\t", "\n"):gsub("^\n", ""):gsub("\t", "  ")
  return table.concat {
    "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">",
    "<title>", escape(message:sub(1, 80)), "</title><style>", STYLE, "</style><main><header><p>500 · ",
    escape(req.method), " ", escape(req.target), "</p><h1>", escape(message), "</h1></header>",
    source_part(trace), "<h2>Traceback</h2>", PRE:format("traceback", "Traceback"), escape(calls),
    "</pre>", headers_part(req), "</main></html>\n",
  }
end

-- `for_error(req, err, debug)` returns the status, body and headers of the response to `err`, a caught error from
-- `handler_error.catch`. `debug`: whether the response shows the error.
function M.for_error(req, err, debug)
  if not debug then return M.for_status(req, 500) end
  local kind, body = "text/plain; charset=utf-8", nil
  if wants_json(req) then
    local content = { error = "Internal Server Error", status = 500, traceback = err.text }
    local ok, encoded = pcall(require("lio.json").encode, content, { sort = true })
    if ok then kind, body = "application/json", encoded end
  elseif wants_html(req) then
    kind, body = html.MEDIA_TYPE, html_page(req, err)
  end
  return 500, body or err.text .. "\n", { ["Content-Type"] = kind, ["Cache-Control"] = "no-store" }
end

return M
