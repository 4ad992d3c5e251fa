-- Prepares the pages of the book for mdBook: `lua5.4 docs/book.lua TARGET`, which `make book` runs. The pages of docs
-- link to files of other folders, which a browser that reads the book cannot reach. So this program copies docs to
-- TARGET, copies the linked files into TARGET/files, and changes the links. A linked folder becomes a page that lists
-- its files.

local root = arg[0]:match "^(.*)docs/book%.lua$" or "../"
package.path = root .. "?.lua;" .. package.path
local markdown = require "docs.markdown"

local target = assert(arg[1], "usage: docs/book.lua TARGET")
local FILES <const> = "files/"

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function run(command)
  assert(os.execute(command))
end

-- Reads a file of the repository, to which the page `from` links.
local function read(path, from)
  local file <close> = io.open(root .. path, "rb")
  if not file then error(("%s links to %s, which does not exist"):format(from, path), 0) end
  return assert(file:read "a")
end

local function write(path, text)
  local folder = path:match "^(.*)/"
  if folder then run("mkdir -p " .. quote(folder)) end
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end

local function list(command)
  local pipe <close> = assert(io.popen(command))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  return lines
end

local function is_folder(path)
  return os.execute("test -d " .. quote(path)) == true
end

-- Resolves a link's path, relative to the page `from`. All paths are relative to the root of the repository.
local function resolve(from, path)
  local parts = {}
  for part in ((from:match "^(.*/)" or "") .. path):gmatch "[^/]+" do
    if part == ".." then
      table.remove(parts)
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return table.concat(parts, "/")
end

-- Returns the path of a file of the repository in the book. The page of a folder is its index.
local function place_of(path)
  -- mdBook shows the table of contents beside each page, so a link to it leads to the first page.
  if path == "README.md" or path == "docs/SUMMARY.md" then return "index.md" end
  local place = path:match "^docs/(.*)$" or FILES .. path
  -- A file without an extension has no type, so that a browser would not show it.
  if path == "LICENSE" then return place .. ".txt" end
  return (place:gsub("README%.md$", "index.md"))
end

-- Returns the link from the book's page `from` to the book's file `to`.
local function link(from, to)
  local _, depth = from:gsub("/", "")
  return ("../"):rep(depth) .. to
end

-- The pages that have been staged, and the files that have been copied, by path.
local staged = {}
local stage

-- The page of a folder, without mdBook's frame: the folder's path, a link to the book's first page, the files.
local FOLDER_PAGE <const> = [[
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s - lio</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 45rem; padding: 1rem }
h1, li { overflow-wrap: anywhere }
li { padding: .2rem 0 }
</style>
<main>
<p><a href="%s">The book</a></p>
<h1>%s</h1>
<ul>
%s
</ul>
</main>
</html>
]]

-- Copies the files of a folder, including those of its subfolders, and writes a page that lists them.
local function copy_folder(path)
  local lines, page = {}, place_of(path) .. "/index.html"
  for _, name in ipairs(list("cd " .. quote(root .. path) .. " && find . -type f | LC_ALL=C sort")) do
    name = name:match "^%./(.*)$"
    stage(path .. "/" .. name, path)
    lines[#lines + 1] = ("<li><a href=\"%s\">%s</a></li>"):format(name, name)
  end
  write(target .. "/" .. page, FOLDER_PAGE:format(path, link(page, "index.html"), path, table.concat(lines, "\n")))
end

-- Copies a page, a file or a folder, and all files to which a page links. `from` is the page that links to it.
function stage(path, from)
  if staged[path] then return end
  staged[path] = true
  if is_folder(root .. path) then return copy_folder(path) end
  local text, place = read(path, from), place_of(path)
  if path:find "%.md$" then
    text = markdown.map_links(text, function(address)
      local file, anchor = address:match "^([^#]+)(#?.*)$"
      if not file or address:find "^%a[%w+.-]*:" then return nil end
      local linked = resolve(path, file)
      stage(linked, path)
      local to = place_of(linked)
      return link(place, is_folder(root .. linked) and to .. "/index.html" or to) .. anchor
    end)
  end
  write(target .. "/" .. (path == "docs/SUMMARY.md" and "SUMMARY.md" or place), text)
end

run("rm -rf " .. quote(target))
stage("docs/book.toml", "docs/book.lua")
stage("docs/book.css", "docs/book.toml")
-- The table of contents links to every page of the book.
stage("docs/SUMMARY.md", "docs/book.lua")
print("staged in " .. target)
