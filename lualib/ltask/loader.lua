-- `require` for a coroutine that may wait while it loads. Each module loads once; who comes meanwhile waits
-- for it; who would wait for itself gets an error.

local task = require "lio.task"

local loading = {} -- name → { owner = coroutine, waiters… }
local wants = {} -- coroutine → the name that it waits for

local function search(name)
  local messages = {}
  for _, searcher in ipairs(package.searchers) do
    local loader, data = searcher(name)
    if type(loader) == "function" then return loader, data end
    if type(loader) == "string" then messages[#messages + 1] = loader end
  end
  error(("module '%s' not found:%s"):format(name, table.concat(messages, "")), 0)
end

-- Whether waiting for `entry` would be waiting for oneself.
local function is_cycle(entry, co)
  while entry do
    if entry.owner == co then return true end
    entry = loading[wants[entry.owner]]
  end
  return false
end

local function join(name, entry, co)
  if is_cycle(entry, co) then error(("loop in require: '%s' is being loaded by who asks"):format(name), 0) end
  wants[co] = name
  entry[#entry + 1] = co
  task.wait(entry[#entry])
  wants[co] = nil
  if entry.problem then error(entry.problem, 0) end
  return package.loaded[name]
end

return function(name)
  local co = coroutine.running()
  local entry = loading[name]
  if entry then return join(name, entry, co) end
  local loader, data = search(name)
  entry = { owner = co, problem = ("the coroutine that loaded '%s' was closed"):format(name) }
  loading[name] = entry
  local done <close> = setmetatable({}, {
    __close = function()
      loading[name] = nil
      for _, waiter in ipairs(entry) do task.wakeup(waiter) end
    end,
  })
  local ok, value = pcall(loader, name, data)
  entry.problem = not ok and value or nil
  if ok and value ~= nil then package.loaded[name] = value end
  if ok and package.loaded[name] == nil then package.loaded[name] = true end
  if not ok then error(value, 0) end
  return package.loaded[name], data, done
end
