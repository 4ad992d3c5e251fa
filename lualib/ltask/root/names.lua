-- The names of services. Used only by the root service.

local ltask = require "ltask"
local loading = require "ltask.root.loading"
local services = require "ltask.root.services"

local M = {}

local ids = {} -- name: the address
local names_of = {} -- address: the list of names
-- name: the token on which requests for a starting unique service wait; its field `id` is the service's address
local starting = {}
local queried = {} -- name: the token on which requests wait until a service has the name

-- `find(name)`: returns the address of the service with that name, or nil.
function M.find(name)
  return ids[name]
end

-- `set(name, id)`: gives a service a name, and answers the requests that wait for the name.
function M.set(name, id)
  ids[name] = id
  local list = names_of[id] or {}
  names_of[id] = list
  list[#list + 1] = name
  local token = queried[name]
  queried[name] = nil
  if token then ltask.multi_wakeup(token, id) end
end

-- `remove_all(id)`: removes the names of a dead service.
function M.remove_all(id)
  for _, name in ipairs(names_of[id] or {}) do ids[name] = nil end
  names_of[id] = nil
end

-- `wait_for(name)`: waits until a service has that name, and returns its address.
function M.wait_for(name)
  if ids[name] then return ids[name] end
  queried[name] = queried[name] or {}
  return ltask.multi_wait(queried[name])
end

-- Waits until a unique service has started.
local function wait_for_start(name, token)
  local from = ltask.current_session().from
  local circle = loading.circle(from, token.id)
  if circle then
    error(("the file of the service '%s' cannot return: the files wait for each other (%s)"):format(name, circle), 0)
  end
  loading.set_target(from, token.id)
  return ltask.multi_wait(token)
end

-- `unique_service(name, t)`: returns the address of the unique service of that name. If there is none, creates it as
-- `t` describes. While the service starts, further requests for it wait. If the service fails to start, these requests
-- get the same error.
function M.unique_service(name, t)
  if ids[name] then return ids[name] end
  if starting[name] then return wait_for_start(name, starting[name]) end
  local token = {}
  starting[name] = token
  local ok, id = pcall(services.spawn, t, function(new) token.id = new end)
  starting[name] = nil
  if not ok then
    ltask.multi_interrupt(token, id)
    error(id, 0)
  end
  M.set(name, id)
  ltask.multi_wakeup(token, id)
  return id
end

return M
