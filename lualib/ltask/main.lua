-- The main function of every service. It is loaded into each VM, so it is small: messages, coroutines and answers are
-- handled by `ltask.core`, and `ltask` loads its rarely used functions from modules at first use:
--   callbacks        errors, requests without a handler, requests to the service library itself
--   concurrent       `async`, `request`, `parallel`
--   coroutines       several coroutines that wait on one token; rarely used functions of coroutines
--   errors           error objects
--   exclusive_loop   the main loop of an exclusive service
--   log              `ltask.log`; log_output writes the entries
--   main_thread      `mainthread_run`
--   quit_handler     the end of a service
--   require          `require` for modules that may wait while they load
--   root_client      requests to root: create, find, name and end services
--   sessions         the current request, and requests that wait for an answer
-- Programs call start.lua outside of services. The folder service/ contains the services that every system has, and
-- root/ the parts of the root service.

local core = require "ltask.core"

if core.setup() then
  core.load_embedded "ltask.exclusive_loop"()
else
  while not core.loop_ended(pcall(core.loop)) do end
end
