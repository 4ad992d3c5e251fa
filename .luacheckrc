-- What `luacheck .` (make lint) holds every Lua file to.
std = "lua54"
max_line_length = 120
exclude_files = { "target", "build", "fuzz" }

-- A handler names the arguments it is given, used or not.
files["examples"] = { ignore = { "212" } }
-- So do callbacks in tests, where a loop over events may also be left at the first.
files["tests"] = { ignore = { "212", "512" } }
-- Definitions for the language server: functions without bodies.
files["lualib/meta"] = { ignore = { "211", "212", "241" } }
