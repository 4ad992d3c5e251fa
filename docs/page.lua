-- Formats one module's definitions, as docs/definitions.lua reads them, as a page in Markdown. docs/build.lua writes
-- the pages, and tests/meta_test.lua compares them with the files.

local M = {}

local NOTE <const> = "<!-- Made by docs/build.lua of lualib/meta; change it there. -->"

local function code(text)
  return "`" .. text .. "`"
end

-- Returns a parameter as it is shown in a signature. A literal is shown as itself.
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

local function add_class(out, class, heading)
  out[#out + 1] = heading .. "\n"
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
  for _, f in ipairs(class.functions) do
    if not f.private then add_function(out, class, f) end
  end
end

-- Returns the text of a module's page, without private functions.
function M.of(module)
  local out = { NOTE .. "\n" }
  for index, class in ipairs(module.classes) do
    local heading = index == 1 and "# " .. code(module.name) or "## " .. code(class.name)
    add_class(out, class, heading)
  end
  if #module.aliases > 0 then out[#out + 1] = "## Types\n" end
  for _, alias in ipairs(module.aliases) do
    out[#out + 1] = code(alias.name) .. " is " .. code(alias.type) .. ".\n"
    if alias.text ~= "" then out[#out + 1] = alias.text .. "\n" end
  end
  return (table.concat(out, "\n"):gsub("%s+$", "") .. "\n")
end

-- Returns the text of the page that lists all other pages.
function M.index(modules)
  local out = { NOTE .. "\n", "# Reference\n" }
  for _, module in ipairs(modules) do
    local first = module.classes[1].text:gsub("\n", " "):match "^(.-%.)%f[%s\0]"
    out[#out + 1] = ("- [`%s`](%s.md): %s"):format(module.name, module.name, first)
  end
  return table.concat(out, "\n") .. "\n"
end

return M
