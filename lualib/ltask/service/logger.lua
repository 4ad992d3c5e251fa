-- The default logger: writes each entry as `[time][LEVEL](id label) text`, errors to standard error, other entries to
-- standard output. The logger gets the system message `log_ready` when the log is no longer empty.

local ltask = require "ltask"
local core = require "ltask.core"
local write_all = require "ltask.log_output"

local function flush()
  write_all(core.poplog, ltask.unpack_remove)
end

core.system_calls().log_ready = flush

local S = {}

function S.quit()
  flush()
end

core.set_log_reader()
flush()

return S
