-- The services whose files have not returned yet, and what their files wait for. Used only by the root service.
--
-- If a file has not returned after the time of the watchdog, a log line says what the file waits for. One timer serves
-- all services; it is set only while a service is loading.

local ltask = require "ltask"

-- The default of `watchdog`, in seconds.
local LIMIT <const> = 5

local M = {}

local limit = LIMIT
-- Maps an address to `{ label =, since =, waits_for =, target =, is_reported = }`. `waits_for` is the text of the
-- request to root for whose answer the file waits; `target` is the address of the service whose file must return first.
local loading = {}
local is_timer_set = false

-- `configure(watchdog)`: sets the number of seconds after which a file is reported; 0 and false disable the reports.
function M.configure(watchdog)
  if watchdog == nil then watchdog = LIMIT end
  limit = watchdog or 0
end

local function describe(id)
  local one = loading[id]
  return ("service %d (%s)"):format(id, one and one.label or "?")
end

-- Returns what the oldest task of a loading service waits for; the oldest task runs the file.
local function ask_service(id)
  local ok, tasks = pcall(ltask.syscall, id, "tasks")
  local text = ok and tasks[1] and tasks[1].waits_for
  if not text then return nil end
  local other = math.tointeger(text:match "^an answer from service (%d+)$")
  if not loading[other] then return text end
  return ("an answer from %s, whose file has not returned either"):format(describe(other))
end

local function report(id, one)
  local waits_for = one.waits_for or ask_service(id)
  -- The service may have answered late.
  if loading[id] ~= one then return end
  local shown_limit = math.tointeger(limit) or ("%.1f"):format(limit)
  local reason = waits_for and "; it waits for " .. waits_for or ""
  ltask.log.error(("%s has been loading for %s s%s"):format(describe(id), shown_limit, reason))
end

local set_timer

-- Reports the services that have been loading for too long, each once.
local function check()
  is_timer_set = false
  local now, next_check = ltask.counter(), math.huge
  for id, one in pairs(loading) do
    local left = one.since + limit - now
    if one.is_reported then
      left = math.huge
    elseif left <= 0 then
      one.is_reported = true
      ltask.fork(report, id, one)
      left = math.huge
    end
    next_check = math.min(next_check, left)
  end
  if next_check < math.huge then set_timer(next_check) end
end

function set_timer(seconds)
  is_timer_set = true
  ltask.timeout(math.ceil(seconds * 100), check)
end

-- `begin(id, label)`: called before a service runs its file.
function M.begin(id, label)
  loading[id] = { label = label, since = ltask.counter() }
  if limit > 0 and not is_timer_set then set_timer(limit) end
end

-- `finish(id)`: called when the file has returned or failed.
function M.finish(id)
  loading[id] = nil
end

-- `wait(id, call, name)`: called when the file of the service has sent root the request `call`, and waits for the
-- answer. Returns a to-be-closed value that ends the wait.
function M.wait(id, call, name)
  local one = loading[id]
  if not one then return nil end
  if type(name) == "table" then name = name.name end
  local what = call == "queryservice" and "the service '%s'" or "the file of the service '%s'"
  one.waits_for = what:format(tostring(name))
  return setmetatable({}, {
    __close = function()
      one.waits_for, one.target = nil, nil
    end,
  })
end

-- `set_target(id, target)`: the file of service `id` waits until the file of service `target` has returned. Does
-- nothing if the file of service `id` does not wait.
function M.set_target(id, target)
  local one = loading[id]
  if one and one.waits_for then one.target = target end
end

-- `circle(id, target)`: returns nil if the file of service `id` can wait for the file of service `target`. If that file
-- waits for service `id`, returns the labels of the services that would wait for each other, as "a → b → a".
function M.circle(id, target)
  if not (loading[id] and loading[id].waits_for) then return nil end
  local labels, at = { loading[id].label }, target
  while loading[at] do
    labels[#labels + 1] = loading[at].label
    if at == id then return table.concat(labels, " → ") end
    at = loading[at].target
  end
end

return M
