-- A CGI module of main.lua: /clock, /clock/utc, /clock?format=%25H:%25M.

local M = {}

function M.get(path, query)
  local format = query.format or "%Y-%m-%d %H:%M:%S"
  if path == "utc" then format = "!" .. format end
  local ok, text = pcall(os.date, format)
  if not ok then return 400, "not a format\n" end
  return 200, text .. "\n", { ["Content-Type"] = "text/plain; charset=utf-8", ["Cache-Control"] = "no-store" }
end

return M
