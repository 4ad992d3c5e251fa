-- `testing.events(res)`: the server-sent events of a response whose body is streamed. Part of `lio.testing`.

local misuse = require "lio.misuse"

-- Parses the lines of one event. Returns nil if the event has no field, such as a comment.
local function parse(block)
  local event, data = nil, nil
  for line in block:gmatch "[^\n]+" do
    local name, value = line:match "^([^:]+): ?(.*)$"
    name, value = name or line:match "^[^:]+$", value or ""
    if name then event = event or {} end
    if name == "data" then
      data = data and data .. "\n" .. value or value
    elseif name == "retry" then
      event.retry = tonumber(value)
    elseif name == "event" or name == "id" then
      event[name] = value
    end
  end
  if event then event.data = data end
  return event
end

-- Returns an iterator over the events: tables with the fields `data`, `event`, `id` and `retry`, which are nil if the
-- server has not sent them. The iterator waits for the next event. Leaving the loop closes the response.
return function(res)
  if not res.piece then misuse.argument("events", 1, "response", res) end
  local text = ""
  local function next_event()
    while true do
      local first, last = text:find("\n\n", 1, true)
      while not first do
        local piece, message = res:piece()
        if not piece then
          if message then misuse.raise("testing.events: " .. message) end
          return nil
        end
        text = text .. piece:gsub("\r\n?", "\n")
        first, last = text:find("\n\n", 1, true)
      end
      local event = parse(text:sub(1, first))
      text = text:sub(last + 1)
      if event then return event end
    end
  end
  return next_event, nil, nil, res
end
