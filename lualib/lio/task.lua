-- The task core: coroutines that wait on tokens and are woken. `lio.loop` drives it; the scheduler's
-- service library drives the same core from Rust.
--
-- All of it is native (src/task), also what is rarely called: each service has this module, and functions
-- of Lua's would take more memory than the rest of it. This file gives it its place on `package.path`.

return require "lio.task.core"
