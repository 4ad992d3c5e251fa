-- The book in docs: every page is in its table of contents, every relative link leads to a file and a heading, and the
-- code of the pages does what the pages show. tests/kit/book_page.lua runs the code. The code of the pages that are not
-- in `PAGES` runs in other suites.

local t = require "tests.kit"
local book = require "tests.kit.book_page"
local markdown = require "docs.markdown"

-- The pages whose code runs here.
local PAGES <const> = {
  "README.md", "README.zh.md",
  "docs/why.md", "docs/install.md", "docs/first-server.md", "docs/first-service.md",
  "docs/errors.md", "docs/logging.md", "docs/shared-state.md", "docs/rooms.md", "docs/deployment.md", "docs/tuning.md",
  "docs/webservice.md", "docs/tls.md", "docs/security.md",
  "docs/migrate-bee.md", "docs/migrate-ltask.md", "docs/migrate-skynet.md", "docs/skynet-network.md",
  "docs/migrate-ant.md",
  "docs/migrate-openresty.md", "docs/migrate-luvit.md",
  "docs/websocket.md",
  "docs/zh/why.md", "docs/zh/install.md", "docs/zh/first-server.md", "docs/zh/first-service.md",
  "docs/zh/migrate-ltask.md", "docs/zh/migrate-skynet.md",
}

-- Returns the paths of files below the root of the repository that match a shell pattern.
local function files(pattern)
  local list = {}
  local pipe <close> = assert(io.popen(("cd %s && find %s | sort"):format(t.quote(t.root), pattern)))
  for path in pipe:lines() do list[#list + 1] = path end
  return list
end

local docs = files "docs -name '*.md'"

-- Resolves `target`, a path in a link of the page `from`. Returns a path below the root of the repository, or nil if
-- the target is outside.
local function resolve(from, target)
  local parts = {}
  for part in (from:match "^(.*/)" or ""):gmatch "[^/]+" do parts[#parts + 1] = part end
  for part in target:gmatch "[^/]+" do
    if part == ".." then
      if not table.remove(parts) then return nil end
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return table.concat(parts, "/")
end

local function exists_in(folder, path)
  return os.rename(folder .. "/" .. path, folder .. "/" .. path) ~= nil
end

local function exists(path)
  return exists_in(t.root, path)
end

local anchors = {}

local function has_anchor(path, anchor)
  anchors[path] = anchors[path] or markdown.anchors(book.read(path))
  return anchors[path][anchor] ~= nil
end

-- Returns what is wrong with a link, or nil.
local function problem_of(page, target)
  if target:find "^%a[%w+.-]*:" then return nil end
  local path, anchor = target:match "^([^#]*)#?(.*)$"
  local file = path == "" and page or resolve(page, path)
  if not file then return "leads out of the repository" end
  if not exists(file) then return "there is no such file" end
  if anchor ~= "" and not (file:find "%.md$" and has_anchor(file, anchor)) then return "there is no such heading" end
end

t.test("every relative link of the pages leads to a file and a heading", function()
  local wrong, count = {}, 0
  for _, list in ipairs { docs, files "*.md tests/*.md bench/*.md" } do
    for _, page in ipairs(list) do
      markdown.map_links(book.read(page), function(target, line)
        count = count + 1
        local problem = problem_of(page, target)
        if problem then wrong[#wrong + 1] = ("%s:%d: %s: %s"):format(page, line, target, problem) end
      end)
    end
  end
  t.eq(wrong, {})
  t.ok(count > 200, count)
end)

t.test("the table of contents lists every page of docs once, and nothing that does not exist", function()
  local listed, twice = {}, {}
  markdown.map_links(book.read "docs/SUMMARY.md", function(target)
    local path = resolve("docs/SUMMARY.md", target)
    if listed[path] then twice[#twice + 1] = path end
    listed[path] = true
  end)
  t.eq(twice, {})
  local missing = {}
  for _, page in ipairs(docs) do
    if page ~= "docs/SUMMARY.md" and not listed[page] then missing[#missing + 1] = page end
  end
  t.eq(missing, {})
end)

t.test("every table of the pages names its columns", function()
  local wrong = {}
  for _, list in ipairs { docs, files "*.md tests/*.md bench/*.md examples -name '*.md'" } do
    for _, page in ipairs(list) do
      local number, before = 0, ""
      for line in io.lines(t.root .. page) do
        number = number + 1
        if line:find "^|[-:| ]+|$" and before:find "|%s*|" then
          wrong[#wrong + 1] = ("%s:%d: %s"):format(page, number - 1, before)
        end
        before = line
      end
    end
  end
  t.eq(wrong, {})
end)

t.test("no heading contains a link, because mdBook makes a link of each heading", function()
  local wrong = {}
  for _, page in ipairs(docs) do
    for line in io.lines(t.root .. page) do
      if line:find "^#+ .*%]%(" then wrong[#wrong + 1] = page .. ": " .. line end
    end
  end
  t.eq(wrong, {})
end)

-- Regression: docs/book.js replaced the file of mdBook with this name, so its menu, search and colours did nothing.
t.test("no script or style of the book has the name of one of mdBook's files", function()
  local taken = {}
  local names <const> = "book.js toc.js searcher.js highlight.js clipboard.min.js elasticlunr.min.js mark.min.js "
    .. "editor.js ace.js mode-rust.js general.css chrome.css print.css variables.css highlight.css tomorrow-night.css "
    .. "ayu-highlight.css fonts.css font-awesome.css"
  for name in names:gmatch "%S+" do taken[name] = true end
  local wrong, count = {}, 0
  for list in book.read "docs/book.toml":gmatch "\nadditional%-[cj]ss? = (%b[])" do
    for path in list:gmatch '"([^"]+)"' do
      count = count + 1
      if taken[path:match "[^/]*$"] then wrong[#wrong + 1] = path end
    end
  end
  t.eq({ wrong, count }, { {}, 1 })
end)

t.test("a suite runs the code of every page", function()
  local named = {}
  for _, page in ipairs(PAGES) do named[page] = true end
  for _, suite in ipairs(files "tests -name '*_test.lua'") do
    for page in book.read(suite):gmatch '"(docs/[%w_/-]+%.md)"' do named[page] = true end
  end
  local untested = {}
  for _, page in ipairs(docs) do
    local is_generated = page:find "^docs/api/"
    for _, block in ipairs(is_generated and {} or markdown.blocks(book.read(page))) do
      if block.language == "lua" and not named[page] then
        untested[#untested + 1] = ("%s:%d"):format(page, block.line)
        break
      end
    end
  end
  t.eq(untested, {})
end)

t.test("make book stages every linked file, and its table of contents lists every staged page", function()
  local dir = t.tmp() .. "/book"
  local r = t.run(("%s %s %s"):format(t.lio(), t.quote(t.root .. "docs/book.lua"), t.quote(dir)))
  t.eq({ r.err, r.code }, { "", 0 })
  local function each_link(page, f)
    local file <close> = assert(io.open(dir .. "/" .. page, "rb"))
    markdown.map_links(file:read "a", function(target)
      local path = target:match "^[^#]+"
      if path and not target:find "^%a[%w+.-]*:" then f(resolve(page, path), target) end
    end)
  end
  local listed, wrong = {}, {}
  each_link("SUMMARY.md", function(path) listed[path] = true end)
  local pipe <close> = assert(io.popen(("cd %s && find . -name '*.md' -printf '%%P\\n'"):format(t.quote(dir))))
  for page in pipe:lines() do
    if not listed[page] and page ~= "SUMMARY.md" then wrong[#wrong + 1] = page .. " is not listed" end
    each_link(page, function(path, target)
      if path == "SUMMARY.md" or not (path and exists_in(dir, path)) then
        wrong[#wrong + 1] = page .. ": " .. target
      end
    end)
  end
  t.eq(wrong, {})
  t.ok(exists_in(dir, "files/LICENSE.txt"), "a browser shows a file with an extension")
  local page <close> = assert(io.open(dir .. "/files/examples/ltask/index.html"))
  local text = page:read "a"
  for _, path in ipairs { "minimal/main.lua", "web/main.lua" } do
    t.ok(exists_in(dir, "files/examples/ltask/" .. path), path)
    t.ok(text:find(('<li><a href="%s">%s</a></li>'):format(path, path), 1, true), text)
  end
  t.ok(text:find('<a href="../../../index.html">', 1, true), text)
end)

t.test("book_language.lua sets the language of pages, and refuses a page without one", function()
  local path = t.tmp() .. "/page.html"
  local function set()
    return t.run(("%s %s zh-CN %s"):format(t.lio(), t.quote(t.root .. "docs/book_language.lua"), t.quote(path)))
  end
  t.write(path, '<!DOCTYPE HTML>\n<html lang="en" class="light">\n<p lang="en">\n')
  t.eq(set().code, 0)
  local file <close> = assert(io.open(path))
  t.eq(file:read "a", '<!DOCTYPE HTML>\n<html lang="zh-CN" class="light">\n<p lang="en">\n')
  t.write(path, "<html>\n")
  local r = set()
  t.eq(r.code, 1)
  t.ok(r.err:find("page.html has no <html lang=", 1, true), r.err)
end)

for _, page in ipairs(PAGES) do
  t.test("the code of " .. page .. " does what the page shows", function()
    book.run(page)
  end, { leaks = true })
end

t.finish()
