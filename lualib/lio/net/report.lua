-- `report(text)`: reports a failure for which no call can return an error: in a service of lio's scheduler in the log,
-- with the number and the label of the service; otherwise on standard error. Part of `lio.net`.

return function(text)
  local ltask = package.loaded["ltask.core"] and package.loaded.ltask
  -- `ltask.start` also loads the core, in a VM that is not a service.
  if ltask and ltask.call then return ltask.log.error(text) end
  io.stderr:write("lio: ", text, "\n")
end
