//! The task core: a pool of coroutines, a queue of those that can run, and waiting on tokens. One core
//! per VM. `lio.loop` drives it through `lio.task`, the scheduler's service library from Rust.
//!
//! - A *task* is a function that runs in a coroutine of the core's. A *slot* is the coroutine's number.
//!   A finished task's coroutine is used again for the next one; one that raised or was killed is closed
//!   (its `<close>` variables run) and let go.
//! - A wakeup queues, it never runs inside the waker; the order of wakeups is the order of runs. The
//!   queue holds slots; the values that a resume passes lie on the coroutine's own stack already.
//! - A wait leaves its token in the first stack slot of its frame, which keeps it alive.
//! - Lua code can close or resume any coroutine it gets hold of. So each resume asks the coroutine's
//!   status first, and a wait's end asks whether the core resumed it. What was taken over in that way is
//!   no task any more.
//! - An allocation raises on the running state only, and before the books are touched. Nothing is ever
//!   allocated on a coroutine that does not run: an error there has no handler.
//! - Lua runs finalizers inside allocations, and those may call the core: no reference into it is held
//!   across a call of Lua's that allocates or runs code. Hence the raw pointers.
//! - A panic would be a defect of the core; it is not caught here, and ends the process.
//!
//! Files: `token.rs` what is waited on; `core.rs` the books; `pool.rs` the coroutines; `run.rs` resumes;
//! `chain.rs` coroutines inside of a task's own; `coroutine.rs` the coroutine library; `ends.rs` kills and
//! closes; `hooks.rs` who is told of ends; `lost.rs` waits that nothing can end; `lua.rs` the module that
//! Lua sees, `calls.rs` and `look.rs` its functions; `refuse.rs` why a wait is refused.

mod calls;
mod chain;
mod core;
pub(crate) mod coroutine;
mod ends;
mod hooks;
mod look;
mod lost;
pub(crate) mod lua;
mod pool;
mod refuse;
mod run;
mod token;

pub(crate) use self::core::{Core, Errand, Host, How, Slot, Tag};
pub(crate) use look::TASKS;
pub(crate) use lua::this;
pub(crate) use refuse::raise_cannot_wait;
pub(crate) use token::Token;

#[cfg(all(test, feature = "vendored"))]
mod tests;
