-- Writes the definitions of a module or topic, as docs/definitions.lua reads them, as a page in Markdown. Used by
-- docs/build.lua, which writes the pages, and by tests/meta_test.lua, which compares them with the files.

local M = {}

local NOTE <const> = "<!-- Made by docs/build.lua of lualib/meta; change it there. -->"

local function code(text)
  return "`" .. text .. "`"
end

-- A parameter as a signature shows it: a literal as itself.
local function shown(param)
  if param.type and param.type:find '^"[^"|]*"$' then return param.type end
  return param.name == "..." and "…" or param.name
end

-- `a, b[, c]`
local function list_of(params)
  local out = ""
  for _, param in ipairs(params) do
    local comma = out ~= "" and ", " or ""
    if param.optional then
      out = out .. "[" .. comma .. shown(param) .. "]"
    elseif param.name ~= "self" then
      out = out .. comma .. shown(param)
    end
  end
  return out
end

local function name_of(class, f)
  if class.variable == nil then return f.name end
  return class.variable:lower() .. (f.is_method and ":" or ".") .. f.name
end

-- `- label type: text`
local function item(label, type, text)
  return "- " .. label .. " " .. code(type) .. (text ~= "" and ": " .. text or "")
end

local function add_function(out, class, f)
  local name = name_of(class, f)
  out[#out + 1] = "### " .. code(name .. "(" .. list_of(f.params) .. ")") .. "\n"
  for _, overload in ipairs(f.overloads) do
    out[#out + 1] = "Also " .. code(name .. "(" .. list_of(overload) .. ")") .. ".\n"
  end
  out[#out + 1] = f.text .. "\n"
  local any = #f.params + #f.returns > 0
  for _, param in ipairs(f.params) do
    local label = code(param.name == "..." and "…" or param.name) .. (param.optional and " (optional)" or "")
    out[#out + 1] = item(label, param.type, param.text)
  end
  for _, result in ipairs(f.returns) do
    local label = result.name and " " .. code(result.name == "..." and "…" or result.name) or ""
    out[#out + 1] = item("returns" .. label, result.type, result.text)
  end
  if any then out[#out + 1] = "" end
end

-- The text of a class, what it inherits from, and its fields.
local function add_about(out, class)
  if class.text ~= "" then out[#out + 1] = class.text .. "\n" end
  if #class.parents > 0 then
    local parents = {}
    for index, parent in ipairs(class.parents) do parents[index] = code(parent) end
    out[#out + 1] = "Has all that " .. table.concat(parents, " and ") .. " has.\n"
  end
  for _, field in ipairs(class.fields) do
    local label = code(field.name) .. (field.optional and " (optional)" or "")
    out[#out + 1] = item(label, field.type, field.text)
  end
  if #class.fields > 0 then out[#out + 1] = "" end
end

local function add_functions(out, class)
  for _, f in ipairs(class.functions) do
    if not f.private then add_function(out, class, f) end
  end
end

-- The first sentence of a module or topic.
local function summary(page)
  return (page.text or page.classes[1].text):gsub("\n", " "):match "^(.-%.)%f[%s\0]"
end

-- `[label](page)`
local function link(page, label)
  return ("[%s](%s.md)"):format(label, page.name)
end

local function add_topics(out, topics)
  if #topics == 0 then return end
  out[#out + 1] = "More of this module:\n"
  for _, topic in ipairs(topics) do
    out[#out + 1] = ("- %s: %s"):format(link(topic, topic.topic), summary(topic))
  end
  out[#out + 1] = ""
end

-- A topic's title leads back to its module.
local function title(page)
  if not page.topic then return "# " .. code(page.name) .. "\n" end
  return ("# [`%s`](%s.md): %s\n\n%s\n"):format(page.of, page.of, page.topic, page.text)
end

-- The page of a module or topic, as text. Private functions are left out. The module's own functions have no heading.
function M.of(page)
  local out = { NOTE .. "\n", title(page) }
  for _, class in ipairs(page.classes) do
    local is_module = class.name == (page.of or page.name)
    if not is_module then out[#out + 1] = "## " .. code(class.name) .. "\n" end
    add_about(out, class)
    if is_module then add_topics(out, page.topics) end
    add_functions(out, class)
  end
  if #page.aliases > 0 then out[#out + 1] = "## Types\n" end
  for _, alias in ipairs(page.aliases) do
    out[#out + 1] = code(alias.name) .. " is " .. code(alias.type) .. ".\n"
    if alias.text ~= "" then out[#out + 1] = alias.text .. "\n" end
  end
  return (table.concat(out, "\n"):gsub("%s+$", "") .. "\n")
end

-- The page that lists the others, as text.
function M.index(pages)
  local out = { NOTE .. "\n", "# Reference\n" }
  for _, page in ipairs(pages) do
    local bullet = page.topic and "  - " .. link(page, page.topic) or "- " .. link(page, code(page.name))
    out[#out + 1] = bullet .. ": " .. summary(page)
  end
  return table.concat(out, "\n") .. "\n"
end

return M
