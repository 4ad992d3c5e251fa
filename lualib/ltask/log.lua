-- `ltask.log`: adds entries to the log.

local core = require "ltask.core"

local function entry_of(level)
  return function(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    core.log(level, table.concat(list, "\t", 1, list.n))
  end
end

-- `log.info(…)`, `log.error(…)`: add an entry that consists of the values, as `print` shows them.
return { log = { info = entry_of "info", error = entry_of "error" } }
