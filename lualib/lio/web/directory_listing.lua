-- The page that lists a directory, for web/static.lua. Every name is escaped; links are relative.

local html = require "lio.web.html"
local http = require "lio.http"
local loop = require "lio.loop"

-- After this number of entries, other tasks get their turn.
local SLICE <const> = 500

local STYLE <const> = [[
:root{color-scheme:light dark;--line:#8883;--dim:#5f6368;--link:#0a58ca}
@media(prefers-color-scheme:dark){:root{--dim:#a8adb4;--link:#8ab4f8}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1.5rem 1rem 3rem}
h1{font-size:1.25rem;font-weight:600;margin:0 0 1rem;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}
th{color:var(--dim);font-size:.8rem;font-weight:500;text-align:left}
th,td{border-bottom:1px solid var(--line);padding:.45rem .5rem;vertical-align:top}
th:first-child,td:first-child{padding-left:0;width:100%}
th:last-child,td:last-child{padding-right:0}
td:first-child{overflow-wrap:anywhere}
a{color:var(--link);text-decoration:none}
a:hover,a:focus{text-decoration:underline}
a:focus-visible{outline:2px solid;outline-offset:2px}
.n{color:var(--dim);padding-left:1rem;font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
p{color:var(--dim);font-size:.85rem}
@media(max-width:34rem){.d{display:none}th,td{padding-block:.6rem}.n:nth-child(2){padding-right:0}}]]

-- Characters that change the direction of the text after them, so that a name could be shown with another extension:
-- U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069, U+061C.
local DIRECTIONS <const> = { "\xE2\x80[\x8E\x8F\xAA-\xAE]", "\xE2\x81[\xA6-\xA9]", "\u{61C}" }

-- Returns `text` as HTML. Question marks replace control characters, characters that change the direction, and all
-- non-ASCII bytes of malformed UTF-8.
local function shown_text(text)
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  for _, pattern in ipairs(DIRECTIONS) do text = text:gsub(pattern, "?") end
  return html.escape((text:gsub("%c", "?")))
end

local UP <const> = '<tr><td><a href="../" aria-label="Parent folder">../</a><td class="n">–<td class="n d">\n'

local UNITS <const> = { "kB", "MB", "GB", "TB", "PB", "EB" }

local function shown_size(bytes)
  if bytes < 1000 then return bytes .. " B" end
  local size, unit = bytes / 1000, 1
  while size >= 999.5 and UNITS[unit + 1] do size, unit = size / 1000, unit + 1 end
  return (size < 9.95 and "%.1f %s" or "%.0f %s"):format(size, UNITS[unit])
end

local function row(entry)
  local slash = entry.kind == "directory" and "/" or ""
  -- The prefix "./" keeps browsers from reading a name that contains a colon as a URL scheme.
  local link = "./" .. http.percent_encode(entry.name) .. slash
  local size = slash == "" and shown_size(entry.size) or "–"
  return ('<tr><td><a href="%s"><bdi>%s</bdi>%s</a><td class="n">%s<td class="n d">%s\n'):format(
    link, shown_text(entry.name), slash, size, os.date("!%Y-%m-%d %H:%M", entry.mtime))
end

-- `directory_listing(shown, path, entries, more, hidden)` returns the HTML page. `shown`: the decoded path of the
-- request; `path`: the part of that path below the root, `""` for the root; `entries`, `more`: the results of
-- `folder:list`; `hidden`: whether names that begin with a dot are shown. Waits if there are many entries.
return function(shown, path, entries, more, hidden)
  local rows, files, folders = {}, 0, 0
  for i, entry in ipairs(entries) do
    if i % SLICE == 0 then loop.sleep(0) end
    if hidden or entry.name:sub(1, 1) ~= "." then
      rows[#rows + 1] = row(entry)
      if entry.kind == "directory" then folders = folders + 1 else files = files + 1 end
    end
  end
  local title = "Files in " .. shown_text(shown)
  local up = path ~= "" and UP or ""
  local function count(number, one, many) return number .. " " .. (number == 1 and one or many) end
  return table.concat {
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width,initial-scale=1">',
    "<title>", title, "</title><style>", STYLE, "</style></head><body>\n<main><h1>", title,
    '</h1>\n<table aria-label="Files">',
    '<thead><tr><th>Name<th class="n">Size<th class="n d">Changed (UTC)</thead><tbody>\n',
    up, table.concat(rows), "</tbody></table>\n<p>", count(folders, "folder", "folders"), ", ",
    count(files, "file", "files"), more and ", and more that are not shown" or "", "</p>\n</main></body></html>\n",
  }
end
