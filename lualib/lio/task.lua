-- `lio.task`, the task core: coroutines that wait on tokens and are woken. `lio.loop` drives it; the scheduler's
-- service library drives the same core from Rust.
--
-- All of it is native (src/task), even the rarely called functions: each service has this module, and Lua functions
-- would take more memory than the rest of it. This file makes it a module on `package.path`.

return require "lio.task.core"
