-- `lio.tasks()`: what each task of this VM is doing. For people who operate a program, not for the program's logic.

local debug <const> = debug or require "lio.debug"
local task = require "lio.task"

local function traceback(members)
  local lines = {}
  for at, co in ipairs(members) do
    local text = debug.traceback(co, at == 1 and "task:" or "resumed by:")
    lines[at] = text:gsub("stack traceback:\n?", "", 1):gsub("\n+$", "")
  end
  return table.concat(lines, "\n")
end

-- Describes the wait on a token. The loaded module to which the token belongs provides the description; for any other
-- token, the description contains the token's value.
local function describe(token, co)
  for _, name in ipairs { "lio.loop", "lio.thread" } do
    local module = package.loaded[name]
    local text = module and module.describe(token)
    if text then return text end
  end
  if token == co then return "a wakeup" end
  local ok, text = pcall(tostring, token)
  if type(token) == "string" then text = ("%q"):format(token) end
  return "token " .. (ok and text or "of type " .. type(token))
end

local function waits_for(co, kind, value)
  if kind == "token" then return describe(value, co) end
  if kind == "answer" then return ("an answer from service %d"):format(value) end
  if kind == "timer" then return "a timer" end
  if kind == "session" then return "a message" end
end

-- `lio.tasks()` returns a list of `{ thread = coroutine, age = seconds, status = "running" | "ready" | "waiting",
-- waits_for = string or nil, traceback = string }`, the oldest task first. If the task has resumed other coroutines,
-- the traceback begins with the innermost one.
return function()
  local list = {}
  for _, co in ipairs(task.list()) do
    local age, status, members, kind, value = task.look(co)
    if age then
      list[#list + 1] = {
        thread = co,
        age = age,
        status = status,
        waits_for = waits_for(members[1], kind, value),
        traceback = traceback(members),
      }
    end
  end
  table.sort(list, function(a, b) return a.age > b.age end)
  return list
end
