-- `lio.net` as requests with integer handles, for services that have no loop. lio/service.lua answers them. The files
-- in requests/ have the requests.
--
-- A handle belongs to the service that made it, accepted it, or was given it, and only that service may use it. Every
-- service may accept from a listener. Results are those of `lio.net`; misuse raises in the caller.

local accept = require "lio.net.requests.accept"
local handles = require "lio.net.requests.handles"
local move = require "lio.net.requests.move"
local open = require "lio.net.requests.open"
local use = require "lio.net.requests.use"

-- `requests(driver, ltask)` returns the functions by the names of the requests, and the set of tasks that are not
-- a request's, with their number in `count`.
return function(driver, ltask)
  local context = { driver = driver, net = driver.net, ltask = ltask, handles = handles.new(ltask) }
  local S = {}
  for _, part in ipairs { open, accept, use, move } do part.install(S, context) end
  return S, context.handles.owners.tasks
end
