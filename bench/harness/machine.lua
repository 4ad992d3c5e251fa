-- Describes how the results were measured: the machine, the versions of the programs, the command. Used for
-- results.json and for the line above a suite's tables.

local process = require "harness.process"

local M = {}

local function first_line(command)
  return (process.run(command .. " | head -n 1"):gsub("%s+$", ""))
end

-- Returns today's date (UTC), as in 2026-01-31.
function M.date()
  return os.date "!%Y-%m-%d"
end

-- Returns the command line of this run, with the paths that the documentation uses.
function M.command()
  return "lio bench/run.lua" .. (#arg > 0 and " " .. table.concat(arg, " ") or "")
end

-- Returns the cores of the servers and of the clients, as a string.
function M.pinned()
  local server, client, shared = process.pinning()
  local function cores(words) return words:match "%-c (%S+)" end
  if shared then return cores(server) .. " (shared, because the machine has too few)" end
  return cores(server) .. " and " .. cores(client)
end

-- Returns a description of the machine, as a table.
function M.describe()
  local memory = process.text "/proc/meminfo":match "MemTotal:%s+(%d+)"
  return {
    processor = process.text "/proc/cpuinfo":match "model name%s*:%s*([^\n]+)" or first_line "uname -m",
    cores = #process.cores,
    system = first_line "uname -sr",
    memory_mib = tonumber(memory) and tonumber(memory) // 1024,
  }
end

-- Returns the versions of lio and of other programs, by name. `commands` has a shell command for each of these
-- programs, by name; the first line of its output is the version.
function M.versions(commands)
  local versions = { lio = first_line(process.quote(process.lio) .. " -v") }
  for name, command in pairs(commands or {}) do versions[name] = first_line(command) end
  return versions
end

return M
