-- Drives a server with wrk: requests a second, latencies, and the server's CPU time for each request. For the suites
-- of servers that speak HTTP.

local process = require "frame.process"

local M = {}

-- Whether wrk is there; if not, what to say.
function M.missing()
  if not process.succeeds "command -v wrk" then return "needs wrk (Debian package: wrk)" end
end

-- The command line of a load: `connections`, `seconds`, `url`, `cores` (words of taskset), `threads` (1), and what
-- wrk_script.lua takes: `pipeline` (requests sent together), `body` (bytes of a POST), `close` (true: a
-- connection for each request).
local function command(load)
  local words = {}
  for _, name in ipairs { "pipeline", "body", "close" } do
    if load[name] then words[#words + 1] = name .. "=" .. tostring(load[name]) end
  end
  return ("exec %swrk -t%d -c%d -d%ds --timeout 5s -s %s %s -- %s"):format(load.cores, load.threads or 1,
    load.connections, load.seconds, process.quote(process.here .. "frame/wrk_script.lua"), process.quote(load.url),
    table.concat(words, " "))
end

-- Runs a load. Returns the figures that wrk_script.lua prints, by name: requests, rate, p50, p75, p90, p99, p999, max
-- (milliseconds), and counts of errors. Raises what wrk said when it failed.
function M.drive(load)
  local text, code = process.run("ulimit -n $(ulimit -Hn); " .. command(load), load.seconds + 15)
  local figures = {}
  for name, value in text:gmatch "\n([%w_]+)\t([%d.e+-]+)" do figures[name] = tonumber(value) end
  if code ~= 0 or not figures.requests then error("wrk: " .. text, 0) end
  if figures.requests == 0 then error("wrk: no request was answered", 0) end
  return figures
end

-- Errors as text; nil when there were none that matter. At the end of a run wrk breaks off reads, which it counts.
local function errors(figures)
  local words = {}
  for _, kind in ipairs { "connect", "write", "status", "timeout" } do
    local count = figures["errors_" .. kind]
    if count > 0 then words[#words + 1] = ("%d %s"):format(count, kind) end
  end
  return #words > 0 and table.concat(words, ", ") or nil
end

-- A load on a program: its figures with `cpu`, `user` and `system` (microseconds of the server for each request) and
-- `busy` (the share of the time in which the server had the processor; over 1 with several threads).
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
