-- Generates docs/api/*.md from lualib/meta/*.lua, and lists the pages in docs/SUMMARY.md: `lio docs/build.lua`, or
-- `lua5.4 docs/build.lua`, in any folder. The pages are committed; tests/meta_test.lua and tests/book_test.lua fail if
-- they are not up to date.

local root = arg[0]:match "^(.*)docs/build%.lua$" or "../"
package.path = root .. "?.lua;" .. package.path
local definitions = require "docs.definitions"
local page = require "docs.page"

local function write(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local folder = root .. "docs/api/"
assert(os.execute("mkdir -p '" .. folder .. "' && rm -f '" .. folder .. "'*.md"))
local pages = definitions.read(root)
for _, one in ipairs(pages) do write(folder .. one.name .. ".md", page.of(one)) end
write(folder .. "README.md", page.index(pages))
local contents = root .. "docs/SUMMARY.md"
write(contents, page.listed(read(contents), pages))
print(#pages .. " pages in " .. folder)
