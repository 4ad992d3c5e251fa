-- `require` for a coroutine that may wait while it loads. Each module loads once; who comes meanwhile waits
-- for it; who would wait for itself gets an error.

local task = require "lio.task"

local loading = {} -- name → { owner = coroutine, waiters… }
local wants = {} -- coroutine → the name that it waits for
local stacks = setmetatable({}, { __mode = "k" }) -- coroutine → the names that it loads, the outermost first

-- An error at the line that called `require`.
local function raise(message)
  require("lio.misuse").raise(message)
end

local function search(name)
  local messages = {}
  for _, searcher in ipairs(package.searchers) do
    local loader, data = searcher(name)
    if type(loader) == "function" then return loader, data end
    -- As Lua's own `require` shows them, one below the other.
    if type(loader) == "string" then messages[#messages + 1] = "\n\t" .. loader:gsub("^\n\t", "") end
  end
  raise(("module '%s' not found:%s"):format(name, table.concat(messages)))
end

-- Whether waiting for `entry` would be waiting for oneself.
local function is_cycle(entry, co)
  while entry do
    if entry.owner == co then return true end
    entry = loading[wants[entry.owner]]
  end
  return false
end

-- The modules from `name` on that each wait for the next one, up to the request of `co`.
local function cycle(name, co)
  local path, at = {}, name
  while at do
    local owner, inside = loading[at].owner, false
    for _, one in ipairs(stacks[owner]) do
      inside = inside or one == at
      if inside then path[#path + 1] = one end
    end
    at = owner ~= co and wants[owner]
  end
  path[#path + 1] = name
  return table.concat(path, " → ")
end

local function join(name, entry, co)
  if is_cycle(entry, co) then raise(("circular require of '%s' (%s)"):format(name, cycle(name, co))) end
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
  local stack = stacks[co] or {}
  stacks[co] = stack
  stack[#stack + 1] = name
  local done <close> = setmetatable({}, {
    __close = function()
      loading[name] = nil
      stack[#stack] = nil
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
