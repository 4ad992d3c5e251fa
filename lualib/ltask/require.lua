-- `require` in a service, for modules that may wait while they load. A module is loaded once: other coroutines that
-- require it meanwhile wait for it. If a coroutine would wait for itself, `require` raises.

local core = require "ltask.core"
local task = require "lio.task"

-- Maps the name of a module that is being loaded to { owner = coroutine, problem = error, waiter, … }.
local loading = {}
-- Maps a coroutine to the name of the module that it waits for.
local awaited = {}
-- Maps a coroutine to the names of the modules that it is loading, outermost first.
local stacks = setmetatable({}, { __mode = "k" })

-- Raises an error at the line that has called `require`.
local function raise(message)
  core.require_now "lio.misuse".raise(message)
end

-- Returns the loader of a module, and the second argument for the loader.
local function search(name)
  local messages = {}
  for _, searcher in ipairs(package.searchers) do
    local loader, data = searcher(name)
    if type(loader) == "function" then return loader, data end
    -- Each message is on a separate line, as in the standard `require`.
    if type(loader) == "string" then messages[#messages + 1] = "\n\t" .. loader:gsub("^\n\t", "") end
  end
  raise(("module '%s' not found:%s"):format(name, table.concat(messages)))
end

-- Reports whether the coroutine would wait for itself if it waited for the module of `entry`.
local function is_circular(entry, co)
  while entry do
    if entry.owner == co then return true end
    entry = loading[awaited[entry.owner]]
  end
  return false
end

-- Returns the names of the modules that wait for each other, as "a → b → a": from `name` to the module that the
-- coroutine requires, and `name` again.
local function describe_circle(name, co)
  local path, at = {}, name
  while at do
    local owner, inside = loading[at].owner, false
    for _, one in ipairs(stacks[owner]) do
      inside = inside or one == at
      if inside then path[#path + 1] = one end
    end
    at = owner ~= co and awaited[owner]
  end
  path[#path + 1] = name
  return table.concat(path, " → ")
end

-- Waits until another coroutine has loaded the module.
local function await(name, entry, co)
  if is_circular(entry, co) then
    raise(("circular require of '%s' (%s)"):format(name, describe_circle(name, co)))
  end
  awaited[co] = name
  entry[#entry + 1] = co
  task.wait(entry[#entry])
  awaited[co] = nil
  if entry.problem then error(entry.problem, 0) end
  return package.loaded[name]
end

-- Marks the module as being loaded by the coroutine. Returns its entry, and a to-be-closed value that removes the mark
-- and wakes the waiting coroutines.
local function begin_loading(name, co)
  local entry = { owner = co, problem = ("the coroutine that was loading '%s' was closed"):format(name) }
  loading[name] = entry
  local stack = stacks[co] or {}
  stacks[co] = stack
  stack[#stack + 1] = name
  return entry, setmetatable({}, {
    __close = function()
      loading[name] = nil
      stack[#stack] = nil
      for _, waiter in ipairs(entry) do task.wakeup(waiter) end
    end,
  })
end

return function(name)
  local co = coroutine.running()
  local entry = loading[name]
  if entry then return await(name, entry, co) end
  local loader, data = search(name)
  local new_entry, _ <close> = begin_loading(name, co)
  local ok, value = pcall(loader, name, data)
  new_entry.problem = not ok and value or nil
  if ok and value ~= nil then package.loaded[name] = value end
  if ok and package.loaded[name] == nil then package.loaded[name] = true end
  if not ok then error(value, 0) end
  return package.loaded[name], data
end
