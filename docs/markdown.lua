-- Reads pages in Markdown: their links, the anchors of their headings, and their code blocks. Used by docs/book.lua and
-- tests/book_test.lua. Only the forms that the pages of this repository use are supported: inline links, headings with
-- `#`, and fenced blocks.

local M = {}

-- Calls `f(line, number)` for each line of prose, and replaces the line with the result, if there is one. Fenced blocks
-- are left unchanged.
local function each_prose_line(text, f)
  local out, fenced, number = {}, false, 0
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local is_fence = line:find "^%s*```"
    out[#out + 1] = not is_fence and not fenced and f(line, number) or line
    if is_fence then fenced = not fenced end
  end
  return table.concat(out, "\n") .. "\n"
end

-- Replaces the targets of the links in a part of a line without code spans.
local function replace_targets(part, number, f)
  return (part:gsub("(%]%()([^()%s]+)(%))", function(open, target, close)
    return open .. (f(target, number) or target) .. close
  end))
end

--- Calls `f(target, number)` for the target of each link and image, with the number of its line. If `f` returns a
-- string, the string replaces the target. Returns the page with these replacements.
function M.map_links(text, f)
  return each_prose_line(text, function(line, number)
    -- A code span inside a link's label is part of the label, so only the text of each span is hidden.
    local spans = {}
    local bare = line:gsub("`[^`]*`", function(span)
      spans[#spans + 1] = span
      return "\0"
    end)
    local at = 0
    return (replace_targets(bare, number, f):gsub("%z", function()
      at = at + 1
      return spans[at]
    end))
  end)
end

-- Returns the anchor that a heading gets: lower case, without punctuation, with hyphens for spaces.
local function anchor_of(heading)
  local plain = heading:gsub("%[(.-)%]%b()", "%1"):gsub("`", "")
  return (plain:lower():gsub("[^%w%s_\128-\255-]", ""):gsub("%s", "-"))
end

--- Returns a table { [anchor] = true } of the headings of a page. A repeated heading gets a number.
function M.anchors(text)
  local known, counts = {}, {}
  each_prose_line(text, function(line)
    local heading = line:match "^#+%s+(.-)%s*$"
    if not heading then return end
    local anchor = anchor_of(heading)
    local count = counts[anchor]
    counts[anchor] = (count or 0) + 1
    known[count and anchor .. "-" .. count or anchor] = true
  end)
  return known
end

--- Returns the fenced blocks of a page in order. Each has `language`, `info` (the words after the language), `text`,
-- and `line`, the number of its first line.
function M.blocks(text)
  local list, open, number = {}, nil, 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local indent, fence = line:match "^(%s*)```(.*)$"
    if fence and open then
      open.text = table.concat(open, "\n") .. "\n"
      list[#list + 1], open = open, nil
    elseif fence then
      local language, info = fence:match "^(%S*)%s*(.-)%s*$"
      open = { language = language, info = info, line = number + 1, indent = #indent }
    elseif open then
      -- A block in a list is indented with the list.
      open[#open + 1] = line:sub(open.indent + 1)
    end
  end
  return list
end

return M
