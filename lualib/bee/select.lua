-- `require "bee.select"`: lio's selector under bee's name. The difference is the unit of `wait`:
-- milliseconds here, seconds in `lio`.

local lio = require "lio"

local Select = {}
Select.__index = Select
Select.__name = "bee.select"

-- `s:event_add(fd, events [, udata = fd])` → true, or nil and a message.
function Select:event_add(fd, events, udata)
  return self.selector:event_add(fd, events, udata)
end

-- `s:event_mod(fd, events [, udata])` → true, or nil and a message.
function Select:event_mod(fd, events, udata)
  return self.selector:event_mod(fd, events, udata)
end

-- `s:event_del(fd)` → true, or nil and a message.
function Select:event_del(fd)
  return self.selector:event_del(fd)
end

-- `for udata, events in s:wait([milliseconds]) do`: absent or negative waits for ever.
function Select:wait(milliseconds)
  return self.selector:wait(milliseconds and milliseconds / 1000)
end

-- `s:close()` → true. Idempotent.
function Select:close()
  return self.selector:close()
end

Select.__close = Select.close

local M = {
  SELECT_READ = lio.SELECT_READ,
  SELECT_WRITE = lio.SELECT_WRITE,
}

-- `select.create([max_events])` → a selector, or nil and a message.
function M.create(max_events)
  local selector, message, code = lio.create(max_events)
  if not selector then return nil, message, code end
  return setmetatable({ selector = selector }, Select)
end

return M
