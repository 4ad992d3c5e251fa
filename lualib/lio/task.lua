-- `lio.task`, the task core: coroutines that wait on tokens and are woken. `lio.loop` drives it; the scheduler's
-- service library drives the same core from Rust.
--
-- The whole core is native (src/task), even the rarely called functions: every service loads it, and Lua functions
-- would use more memory than the rest of the core. This file makes the core a module on `package.path`.

return require "lio.task.core"
