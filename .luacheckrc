-- The rules of `luacheck .` (make lint) for all Lua files.
std = "lua54"
max_line_length = 120
exclude_files = { "target", "build", "fuzz" }

-- Handlers name all their arguments, also unused ones.
files["examples"] = { ignore = { "212" } }
-- So do callbacks in tests. Tests may also leave a loop in its first iteration.
files["tests"] = { ignore = { "212", "512" } }
-- Definitions for the language server are functions without bodies.
files["lualib/meta"] = { ignore = { "211", "212", "241" } }
