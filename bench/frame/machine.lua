-- What the figures were measured on: the machine, the programs' versions, the command. For results.json and for the
-- line above a suite's tables.

local process = require "frame.process"

local M = {}

local function first_line(command)
  return (process.run(command .. " | head -n 1"):gsub("%s+$", ""))
end

-- Today, as 2026-01-31.
function M.date()
  return os.date "!%Y-%m-%d"
end

-- The command line of this run, with the paths that the project's documentation uses.
function M.command()
  return "lio bench/run.lua" .. (#arg > 0 and " " .. table.concat(arg, " ") or "")
end

-- The cores in use, as text: server first.
function M.pinned()
  local server, client, shared = process.pinning()
  local function cores(words) return words:match "%-c (%S+)" end
  if shared then return cores(server) .. " (shared: the machine has too few)" end
  return cores(server) .. " and " .. cores(client)
end

-- The machine as a table.
function M.describe()
  local memory = process.text "/proc/meminfo":match "MemTotal:%s+(%d+)"
  return {
    processor = process.text "/proc/cpuinfo":match "model name%s*:%s*([^\n]+)" or first_line "uname -m",
    cores = #process.cores,
    system = first_line "uname -sr",
    memory_mib = tonumber(memory) and tonumber(memory) // 1024,
  }
end

-- The versions of what is measured and of what measures. `more` is a table of name to a shell command whose
-- first line is a version.
function M.versions(more)
  local versions = { lio = first_line(process.quote(process.lio) .. " -v") }
  for name, command in pairs(more or {}) do versions[name] = first_line(command) end
  return versions
end

return M
