-- Sends requests to a server with wrk, and measures requests per second, latencies, and the server's CPU time per
-- request. Used by suites of HTTP servers.

local process = require "harness.process"

local M = {}

-- Returns nil if wrk is installed; otherwise returns a message that says what is missing.
function M.missing()
  if not process.succeeds "command -v wrk" then return "needs wrk (Debian package: wrk)" end
end

-- Returns the command line of a load. The load has the fields `connections`, `seconds`, `url`, `cores` (a prefix
-- "taskset … ") and `threads` (default 1), and the options of wrk_script.lua: `pipeline` (the number of requests that
-- are sent together), `body` (bytes of a POST), `close` (true: one connection per request).
local function command(load)
  local words = {}
  for _, name in ipairs { "pipeline", "body", "close" } do
    if load[name] then words[#words + 1] = name .. "=" .. tostring(load[name]) end
  end
  return ("exec %swrk -t%d -c%d -d%ds --timeout 5s -s %s %s -- %s"):format(load.cores, load.threads or 1,
    load.connections, load.seconds, process.quote(process.here .. "harness/wrk_script.lua"), process.quote(load.url),
    table.concat(words, " "))
end

-- Runs a load. Returns the values that wrk_script.lua prints, by name: requests, rate, the latencies p50, p75, p90,
-- p99, p999 and max in milliseconds, and counts of errors. If wrk fails, raises an error with its output.
function M.drive(load)
  local text, code = process.run("ulimit -n $(ulimit -Hn); " .. command(load), load.seconds + 15)
  local figures = {}
  for name, value in text:gmatch "\n([%w_]+)\t([%d.e+-]+)" do figures[name] = tonumber(value) end
  if code ~= 0 or not figures.requests then error("wrk: " .. text, 0) end
  if figures.requests == 0 then error("wrk: no response was received", 0) end
  return figures
end

-- Returns the errors as a string, or nil if there were none. Read errors are ignored, because wrk aborts reads at the
-- end of a run and counts them as errors.
local function errors(figures)
  local words = {}
  for _, kind in ipairs { "connect", "write", "status", "timeout" } do
    local count = figures["errors_" .. kind]
    if count > 0 then words[#words + 1] = ("%d %s"):format(count, kind) end
  end
  return #words > 0 and table.concat(words, ", ") or nil
end

-- Runs a load on a program. Returns the results of `drive`, and also `cpu`, `user` and `system` (the server's
-- microseconds of CPU per request), `busy` (the server's CPU time divided by the elapsed time, which may exceed 1 with
-- several threads), and `errors`.
function M.measure(program, load)
  local user, system, figures = process.during(program, function() return M.drive(load) end)
  local requests = figures.requests
  local row = {
    cpu = (user + system) / requests * 1e6, user = user / requests * 1e6, system = system / requests * 1e6,
    busy = (user + system) / load.seconds, errors = errors(figures),
  }
  for name, value in pairs(figures) do
    if not name:find "^errors" then row[name] = value end
  end
  return row
end

return M
