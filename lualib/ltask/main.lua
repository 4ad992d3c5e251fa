-- The main function of every service. It is loaded into each VM, so it is small: messages, coroutines and answers are
-- handled by `ltask.core`, and `ltask` loads its rarely used functions from modules at first use.

local core = require "ltask.core"

if core.setup() then
  core.load_embedded "ltask.exclusive_loop"()
else
  while not core.loop_ended(pcall(core.loop)) do end
end
