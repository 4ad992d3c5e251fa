-- The default logger: writes each entry as `[time][LEVEL](id label) text`, information to standard output,
-- errors to standard error.

local ltask = require "ltask"
local core = require "ltask.core"
local write = require "ltask.log_output"

local function flush()
  local out = false
  while true do
    local time, id, label, pointer, size = core.poplog()
    if not time then break end
    out = true
    write(time, id, label, ltask.unpack_remove(pointer, size))
  end
  if out then io.stdout:flush() end
end

core.system_calls().log_ready = flush

local S = {}

function S.quit()
  flush()
end

core.log_reader()
flush()

return S
