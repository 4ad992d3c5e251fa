-- The default logger: writes each entry as `[time][LEVEL](id label) text`, errors to standard error, other entries to
-- standard output. With the name of a file as its argument, it appends all entries to the file. The logger gets the
-- system message `log_ready` when the log is no longer empty.

local ltask = require "ltask"
local core = require "ltask.core"
local write_all = require "ltask.log_output"

local path = ...
local file = path and assert(io.open(path, "a"))

local function flush()
  write_all(core.poplog, ltask.unpack_remove, file)
end

core.system_calls().log_ready = flush

local S = {}

function S.quit()
  flush()
end

core.set_log_reader()
flush()

return S
