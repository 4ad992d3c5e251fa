-- The prompt of the executable: `lio` on a terminal, and `lio -i`. The executable runs this file.
--
-- The prompt runs in a task of `lio.loop`, so an input can wait, and other tasks and servers continue while the prompt
-- waits for an input. `lio.line_editor` edits the inputs on a separate thread; its events wake the loop. Each input
-- runs in a separate task, which Ctrl-C ends. Invariant: at most one input runs, and the editor does not read then.

local completion = require "lio.repl.completion"
local line_editor = require "lio.line_editor"
local loop = require "lio.loop"
local lio = require "lio"
local show = require "lio.repl.show"
local signal = require "lio.signal"
local traceback = require "lio.traceback"

local PROMPT <const> = "> "
-- An input that computes checks for Ctrl-C after this number of instructions of the VM.
local INSTRUCTIONS <const> = 10000
-- The maximum number of completions that are shown.
local MAX_COMPLETIONS <const> = 200

-- The modules that inputs can use without `require`, by the names of their globals.
local MODULES <const> = {
  http = "lio.http.client", json = "lio.json", lio = "lio", loop = "lio.loop", net = "lio.net", thread = "lio.thread",
  web = "lio.webserver",
}

local editor
local prompt_token = {} -- the token on which the prompt waits
local running -- the task of the current input
local interrupts -- a watcher of SIGINT, for inputs that compute

-- Output ----------------------------------------------------------------------------------------------

local function write(text)
  if editor:print(text) then return end
  io.stdout:write(text)
  io.stdout:flush()
end

-- `print` for inputs and background tasks: while the prompt is shown, the text is printed above it.
local function print_above(...)
  local list = table.pack(...)
  for index = 1, list.n do list[index] = tostring(list[index]) end
  write(table.concat(list, "\t", 1, list.n) .. "\n")
end

local function write_error(message)
  io.stdout:flush()
  io.stderr:write(message, "\n")
end

-- Inputs ----------------------------------------------------------------------------------------------

-- Returns an input as a function: expressions, or else statements; or nil and the error. The values of expressions are
-- arguments of a call, because a tail call would remove the input from tracebacks.
local function compile(text)
  if load("return " .. text, "=stdin", "t") then
    local f = load("local results = ... return results(" .. text .. "\n)", "=stdin", "t")
    if f then return f end
  end
  return load(text, "=stdin", "t")
end

-- The argument of a compiled input.
local function results_of(...) return ... end

-- Returns whether a text is a complete input. An input with a syntax error is complete, unless the error is its end,
-- as an expression or as statements.
local function is_complete(text)
  local f, message = compile(text)
  if f then return true end
  local _, problem = load("return " .. text, "=stdin", "t")
  return not message:find "<eof>'?$" and not (problem and problem:find "<eof>'?$")
end

-- The hook of an input. An error in the hook is an error in the input.
local function check_interrupt()
  if interrupts:take() then error("interrupted", 0) end
end

local function describe(message)
  if message == "interrupted" then return message end
  if type(message) ~= "string" then
    local meta = getmetatable(message)
    local text = meta and meta.__tostring and tostring(message)
    if text then return text end
    message = ("(error object is a %s value: %s)"):format(type(message), show.all(message))
  end
  return debug.traceback(message, 2)
end

-- Returns the frames of an input's traceback: without those of the library, and without the prompt's own.
local function without_prompt(message)
  return (traceback.shorten(message):gsub("\n\t%[C%]: in function 'xpcall'$", ""))
end

local function run_input(f)
  local done <close> = setmetatable({}, { __close = function()
    debug.sethook()
    running = nil
    loop.wakeup(prompt_token, "done")
  end })
  interrupts:take()
  debug.sethook(check_interrupt, "", INSTRUCTIONS)
  local results = table.pack(xpcall(f, describe, results_of))
  debug.sethook()
  if not results[1] then
    write_error(without_prompt(results[2]))
  elseif results.n > 1 then
    write(show.all(table.unpack(results, 2, results.n)) .. "\n")
  end
  return done
end

local function evaluate(text)
  if not text:find "%S" then return end
  local f, message = compile(text)
  if not f then return write_error(message) end
  running = loop.fork(run_input, f)
  loop.wait(prompt_token)
end

-- Ctrl-C while an input runs. An input that waits is ended by killing its task.
local function interrupt()
  interrupts:take()
  local task = running
  if not task then return end
  loop.kill(task)
  write_error "interrupted"
end

-- The editor ------------------------------------------------------------------------------------------

local answers = {}

function answers.complete(text, question)
  local start, words = completion.of(text, _G, MAX_COMPLETIONS)
  editor:complete(question, start, table.unpack(words))
end

function answers.check(text, question)
  editor:confirm(question, is_complete(text))
end

local hooks = {}

function hooks.before_wait() end

-- Handles the events of the editor after each wait of the loop.
function hooks.after_events()
  local kind, text, question = editor:event()
  while kind do
    local answer = answers[kind]
    if answer then answer(text, question) else loop.wakeup(prompt_token, kind, text) end
    kind, text, question = editor:event()
  end
end

-- Returns the path of the history; nil if the environment has no home.
local function history_path()
  local state, home = os.getenv "XDG_STATE_HOME", os.getenv "HOME"
  if state and state:sub(1, 1) == "/" then return state .. "/lio/history" end
  return home and home ~= "" and home .. "/.local/state/lio/history" or nil
end

local function open_editor()
  local driver = require "lio.net.driver".of(loop.net)
  editor = line_editor.open(assert(driver.selector:waker()), history_path())
  driver:add_hooks(hooks)
end

-- The prompt ------------------------------------------------------------------------------------------

local function set_globals()
  for name, module in pairs(MODULES) do
    if rawget(_G, name) == nil then rawset(_G, name, require(module)) end
  end
  rawset(_G, "print", print_above)
  local exit = os.exit
  rawset(os, "exit", function(...)
    editor:restore()
    exit(...)
  end)
end

local function banner()
  local names = {}
  for name in pairs(MODULES) do names[#names + 1] = name end
  table.sort(names)
  return ("lio %s (%s): %s are loaded; Ctrl-D ends\n"):format(lio.VERSION, _VERSION, table.concat(names, ", "))
end

-- Reads and runs inputs. Returns a message if the terminal fails.
local function prompt()
  while true do
    assert(editor:read(PROMPT))
    local kind, text = loop.wait(prompt_token)
    if kind == "entered" then
      evaluate(text)
    elseif kind == "failed" then
      return text
    elseif kind == "end" then
      return nil
    end
  end
end

local function main()
  loop.signal("SIGINT", interrupt)
  local problem = prompt()
  -- Ctrl-C ends the stop of servers at once.
  loop.signal("SIGINT", nil)
  loop.stop()
  return problem
end

open_editor()
set_globals()
interrupts = assert(signal.open "SIGINT")
write(banner())
local problem = loop.run(main)
editor:restore()
interrupts:close()
if problem then
  write_error("lio: " .. problem)
  os.exit(1, true)
end
