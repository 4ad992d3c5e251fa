-- The service library: the main function of every service.
--
-- It is loaded into each VM, so it is next to nothing: messages, coroutines and answers are the business of
-- `ltask.core`, whose names come into `ltask` as they are used; what is rare is in `ltask.more`.

local core = require "ltask.core"

if core.setup() then
  core.chunk "ltask.exclusive_loop"()
else
  while not core.serve(pcall(core.loop)) do end
end
