--- Runs a command on a terminal, through terminal.py, and types and expects texts.

local t = require "tests.kit"
local json = require "lio.json"

local terminal = {}

--- Keys for `type`.
terminal.CTRL_C, terminal.CTRL_D, terminal.UP, terminal.TAB = "\3", "\4", "\27[A", "\t"

--- Runs the words of a shell command on a terminal. Each step is a table: `{ "expect", text }` waits for a text in the
-- output, `{ "send", text }` types a text, `{ "bytes", hex }` types bytes, `{ "signal", name }` sends a signal. Returns
-- the output without escape sequences, the exit code (or the negative number of the signal that ended the command),
-- and whether the terminal is
-- in its normal mode at the end. `environment`: arguments of env(1) (default: `TERM=xterm`). Raises if an expected text
-- does not arrive.
function terminal.run(words, steps, environment)
  local lines = {}
  for index, step in ipairs(steps) do lines[index] = json.encode(step) end
  local path = t.write(t.tmp() .. "/steps", table.concat(lines, "\n"))
  local result = t.run(("env %s python3 %s %s %s"):format(environment or "TERM=xterm",
    t.quote(t.root .. "tests/kit/terminal.py"), t.quote(path), words))
  local out, code, mode = result.out:match "^(.*)\n(-?%d+) (%l+)\n$"
  if result.code ~= 0 or not out then error(result.out .. result.err, 2) end
  return out, math.tointeger(code), mode == "plain"
end

return terminal
