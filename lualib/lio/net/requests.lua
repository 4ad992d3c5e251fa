-- The requests that give services without a loop access to `lio.net`, by integer handles. lio/service.lua answers them.
-- The files in requests/ define the requests.
--
-- A handle belongs to the service that opened or accepted it, or to which it was given, and only that service may use
-- it; but every service may accept from a listener. Results are those of `lio.net`; misuse raises in the caller.

local accept = require "lio.net.requests.accept"
local handles = require "lio.net.requests.handles"
local move = require "lio.net.requests.move"
local open = require "lio.net.requests.open"
local use = require "lio.net.requests.use"

-- `requests(driver, ltask)` returns the functions by the names of the requests, and the set of internal tasks, which
-- belong to no request. The field `count` of the set is the number of these tasks.
return function(driver, ltask)
  local context = { driver = driver, net = driver.net, ltask = ltask, handles = handles.new(ltask) }
  local S = {}
  for _, part in ipairs { open, accept, use, move } do part.install(S, context) end
  return S, context.handles.owners.tasks
end
