-- Reads the command lines of net_remote.lua, and of the scripts run.lua and instructions.lua in the folders of suites.

local M = {}

-- Each word is `name=NUMBER`, which replaces that value in `options`, or the name of a case. Returns the named cases,
-- or all of `cases` if no word is a name. Raises an error for an unknown word.
function M.read(words, options, cases)
  local list = {}
  for _, word in ipairs(words) do
    local name, value = word:match "^(%w+)=(%d+)$"
    if name then
      if not options[name] then error("unknown option: " .. word, 0) end
      options[name] = tonumber(value)
    else
      local found
      for _, one in ipairs(cases) do found = found or one.name == word and one end
      if not found then error("no such case: " .. word, 0) end
      list[#list + 1] = found
    end
  end
  return #list > 0 and list or cases
end

return M
