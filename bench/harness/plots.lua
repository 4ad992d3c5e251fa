-- Draws bench/plots/*.svg from results.json with plot.py, which needs Python's matplotlib. If matplotlib is missing,
-- installs it in a virtual environment below target/. Called by results.lua. A failure is reported, and the run
-- continues.

local process = require "harness.process"
local quote = process.quote

local M = {}

local SKIPPED <const> = "bench: plots were skipped: "

local function say(text)
  io.stderr:write(text, "\n")
end

local function has_matplotlib(python)
  return process.succeeds(python .. " -c 'import matplotlib'")
end

-- Returns the command of a Python interpreter that has matplotlib, or nil and the reason if there is none.
local function interpreter()
  local own = os.getenv "PYTHON" or "python3"
  if not process.succeeds(own .. " -c pass") then return nil, own .. " is not installed" end
  if has_matplotlib(own) then return own end
  if own ~= "/usr/bin/python3" and has_matplotlib "/usr/bin/python3" then return "/usr/bin/python3" end
  local folder = process.here .. "../target/bench-python"
  local python = quote(folder .. "/bin/python")
  if has_matplotlib(python) then return python end
  say("bench: matplotlib is missing; installing it into " .. folder)
  local text, code = process.run(("%s -m venv %s && %s -m pip install --quiet --retries 1 matplotlib"):format(
    own, quote(folder), python), 300)
  if code == 0 then return python end
  os.execute("rm -rf " .. quote(folder))
  return nil, "matplotlib could not be installed: " .. (text:match "[^\n]*\n?$" or text)
end

-- Draws the plots that results.json defines for a suite.
function M.draw(suite)
  local python, why = interpreter()
  if not python then return say(SKIPPED .. why) end
  local text, code = process.run(("%s %s %s %s %s"):format(python, quote(process.here .. "plot.py"),
    quote(process.here .. "results.json"), quote(process.here .. "plots"), quote(suite)), 120)
  if code ~= 0 then return say(SKIPPED .. text) end
  say("bench: plots drawn: " .. text:gsub("%s+$", ""):gsub("\n", ", "))
end

return M
