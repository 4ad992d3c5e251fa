-- Finds the files of tests for `lio test`. Part of `lio.testing`.

local file = require "lio.file"

local M = {}

-- The maximum number of entries of a folder, and how deep folders are searched.
local MOST <const>, DEPTH <const> = 100000, 32

local function join(path, name)
  if path == "." then return name end
  return path:sub(-1) == "/" and path .. name or path .. "/" .. name
end

-- Adds the files of tests below a folder to the list. Hidden folders are skipped. Returns true; or nil and a message.
local function search(list, path, depth)
  local folder, message = file.folder(path)
  if not folder then return nil, message end
  local _ <close> = folder
  local entries, problem = folder:list(nil, MOST)
  if not entries then return nil, problem end
  for _, entry in ipairs(entries) do
    local found = join(path, entry.name)
    if entry.kind == "directory" then
      -- A folder that cannot be read contains no tests.
      if depth < DEPTH and entry.name:sub(1, 1) ~= "." then search(list, found, depth + 1) end
    elseif entry.name:find "_test%.lua$" then
      list[#list + 1] = found
    end
  end
  return true
end

-- `find(paths)` returns the sorted list of the files to run: those of the folders in `paths`, by default of the current
-- folder, and the files in `paths`. Returns nil and a message if a path does not exist, or if there is no file.
function M.find(paths)
  if not paths[1] then paths = { "." } end
  local list = {}
  for _, path in ipairs(paths) do
    local f, message = file.open(path)
    if not f then return nil, ("cannot open '%s': %s"):format(path, (message:gsub("^open: ", ""))) end
    local kind = f:kind()
    f:close()
    if kind == "file" then
      list[#list + 1] = path
    else
      local ok, problem = search(list, path, 1)
      if not ok then return nil, ("cannot read the folder '%s': %s"):format(path, problem) end
    end
  end
  if not list[1] then
    return nil, ("no file *_test.lua in '%s'"):format(table.concat(paths, "', '"))
  end
  table.sort(list)
  local unique = {}
  for _, path in ipairs(list) do
    if path ~= unique[#unique] then unique[#unique + 1] = path end
  end
  return unique
end

return M
