//! `lio.coroutine`: Lua's coroutine library, with coroutines in which functions can wait, at any depth.
//!
//! `resume` and `wrap` behave like Lua's own functions and add one link on the C stack (see `task::nested`). `status`
//! and `close` also handle coroutines that wait. All other functions are the VM's own. In the executable and in
//! services, the functions of this file replace Lua's functions in the global table.
//!
//! Several designs can move a wait from the innermost coroutine to the scheduler. The table shows what a prototype of
//! each design costs, in instructions: for a resume/yield pair without a wait (Lua 5.4's own: 808), and for a wait with
//! its wakeup at depth 2, 10 and 50:
//!
//! | design | pair | waits |
//! |---|---|---|
//! | yield again through each resume, in Lua | 1,725 | 1,894, 12,030, 62,708 |
//! | yield again through each resume, in C by `lua_yieldk` | 869 | 1,097, 4,859, 23,661 |
//! | flattening: each resume yields to a trampoline that resumes the target | 1,230 | 684 at any depth |
//! | nested until a wait, flat afterwards | 889 | 668 at any depth |
//!
//! The first design misses the target for the pair (1.3 times Lua's own cost) by far, and its marker is visible among
//! the user's own values. The second design pays for each level at every wait. The third design misses the target too,
//! and cannot resume at all below a C function that cannot yield. The last design, which lio uses, has none of these
//! costs.

use super::task::{TASKS_OBJECT, push_tasks_object, tasks};
use crate::lua::{
    Argument, BoundFunctions, Call, Closure, Fault, Function, FunctionTable, Identity, Kind, NewThread, Next, Outcome,
    ResumeResult, Stack, Status, functions, then, upvalue,
};
use crate::task::{Tasks, resume_error_at};

/// Upvalue 2 of a function that `wrap` returns: the coroutine that the function resumes.
const WRAPPED: i32 = upvalue(2);

const LOST: &str = "the wait was lost: other code resumed the caller";

/// Returns the coroutine at argument 1.
fn coroutine(stack: &Stack) -> Result<Identity, Fault> {
    stack.coroutine(1).ok_or_else(|| Fault::expected(1, "coroutine"))
}

/// Resumes the coroutine at `index` with the topmost `count` values, unless the coroutine is waiting or belongs to a
/// running chain.
#[inline]
fn resume_if_idle(
    tasks: &Tasks, call: &mut Call<'_>, index: i32, count: i32, status_first: bool,
) -> Result<ResumeResult, &'static str> {
    if let Some(co) = call.coroutine(index)
        && let Some(id) = tasks.member_of(co)
    {
        return Err(match tasks.is_idle(id) {
            true => "cannot resume a coroutine that is waiting",
            // In a running chain, Lua reports the outer coroutines as suspended.
            false => "cannot resume non-suspended coroutine",
        });
    }
    tasks.threads.resume_at(call, index, count, status_first)
}

/// `resume(co, …)`: returns true and the values that the coroutine yields or returns, or false and the error. A
/// function inside the coroutine can wait. (Lua manual 6.2)
fn resume(call: &mut Call<'_>) -> Result<Next<(bool, &'static str)>, Fault> {
    let tasks = tasks(call)?;
    coroutine(call)?;
    let count = call.count() - 1;
    Ok(match resume_if_idle(&tasks, call, 1, count, true) {
        Ok(ResumeResult::Values(count)) => Next::pushed(count + 1),
        Ok(ResumeResult::Failed) => Next::pushed(2),
        Ok(ResumeResult::Waits) => {
            call.drop_to(1);
            Next::yields(0, then(resumed), 0)
        }
        Err(message) => Next::returns((false, message)),
    })
}

/// Continues `resume` after a wait. Above the coroutine, the stack contains a boolean (false if the coroutine has
/// failed), and the values or the error from the coroutine.
fn resumed(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<(bool, &'static str)>, Fault> {
    if !tasks(call)?.is_resumed_here(call) {
        return Ok(Next::returns((false, LOST)));
    }
    Ok(match resume_error_at(call, outcome.first + 1) {
        Some(message) => Next::returns((false, message)),
        None => Next::rest(outcome.first),
    })
}

/// `wrap(f)`: returns a function that resumes a new coroutine with the body `f`, and raises the coroutine's errors.
/// (Lua manual 6.2)
fn wrap(call: &mut Call<'_>) -> Result<Closure<(Argument, NewThread)>, Fault> {
    match call.kind(1) {
        Kind::Function => Ok(Closure(CALL_WRAPPED, (Argument(TASKS_OBJECT), NewThread::new(call, 1)))),
        _ => Err(Fault::expected(1, "function")),
    }
}

/// The body of the functions that `wrap` returns: resumes the coroutine with the arguments.
fn call_wrapped(call: &mut Call<'_>) -> Result<Next, Fault> {
    let tasks = tasks(call)?;
    let count = call.count();
    match resume_if_idle(&tasks, call, WRAPPED, count, false) {
        Ok(ResumeResult::Values(count)) => Ok(Next::pushed(count)),
        Ok(ResumeResult::Failed) => raise(call, &tasks),
        Ok(ResumeResult::Waits) => Ok(Next::waits(then(called), 0)),
        Err(message) => {
            call.create(message)?;
            raise(call, &tasks)
        }
    }
}

/// Continues a function that `wrap` returned, after a wait. The stack contains a boolean (false if the coroutine has
/// failed), and the values or the error from the coroutine.
fn called(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let tasks = tasks(call)?;
    if !tasks.is_resumed_here(call) {
        return Err(Fault::message(LOST));
    }
    if !call.is_true(outcome.first) {
        if let Some(message) = resume_error_at(call, outcome.first + 1) {
            call.create(message)?;
        }
        return raise(call, &tasks);
    }
    Ok(Next::rest(outcome.first + 1))
}

/// Raises the error on top of the stack. If the coroutine has failed, it is closed first.
#[cold]
fn raise(call: &mut Call<'_>, tasks: &Tasks) -> Result<Next, Fault> {
    let status = call.error_status(WRAPPED);
    if status.failed {
        let close = tasks.threads.push_close(call)?;
        if call.kind(close) == Kind::Function {
            call.push(Argument(WRAPPED))?;
            return Ok(Next::call(1, then(closed), status.out_of_memory.into()));
        }
        call.drop_to(close - 1);
    }
    Err(error(call.count(), status.out_of_memory))
}

/// Continues after the failed coroutine was closed. The value above `false` is the coroutine's error, or an error that
/// a `__close` metamethod raised.
fn closed(call: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    call.drop_to(outcome.first + 1);
    Err(error(call.count(), outcome.kept != 0))
}

/// Returns the error at `index`. The position is added to its text, unless Lua is out of memory.
fn error(index: i32, out_of_memory: bool) -> Fault {
    if out_of_memory { Fault::value(index) } else { Fault::located(index) }
}

/// `status(co)`: returns "running", "suspended", "normal" or "dead" (Lua manual 6.2), or "waiting". A coroutine is
/// "waiting" if it is in a wait, resumes a coroutine that is in a wait, or belongs to a task that has not started. A
/// waiting coroutine cannot be resumed.
fn status(call: &mut Call<'_>) -> Result<&'static str, Fault> {
    let tasks = tasks(call)?;
    let co = coroutine(call)?;
    if co != call.running()
        && let Some(id) = tasks.member_of(co)
    {
        return Ok(if tasks.is_idle(id) { "waiting" } else { "normal" });
    }
    Ok(match call.status(1) {
        Some(Status::Running) => "running",
        Some(Status::Suspended) => "suspended",
        Some(Status::Normal) => "normal",
        Some(Status::Dead) | None => "dead",
    })
}

/// `close(co)`: returns true, or false and an error that one of its `<close>` variables raised (Lua manual 6.2). If the
/// coroutine waits, the wait is cancelled: the coroutines that it was resuming are closed, then the coroutine itself,
/// and the coroutine that was resuming it gets an error. If the coroutine is a task's own coroutine, the task is
/// killed.
fn close(call: &mut Call<'_>) -> Result<Next<(bool, Option<Argument>)>, Fault> {
    let tasks = tasks(call)?;
    // Without an argument, Lua 5.5 closes the running coroutine.
    if cfg!(feature = "lua54") || call.count() > 0 {
        let co = coroutine(call)?;
        call.drop_to(1);
        if co != call.running()
            && let Some(id) = tasks.member_of(co)
        {
            if !tasks.is_idle(id) {
                return Err(Fault::message("cannot close a normal coroutine"));
            }
            return Ok(match tasks.close_any(call, 1)? {
                true => {
                    call.push(true)?;
                    Next::pushed(1)
                }
                false => Next::returns((false, Some(Argument(call.count())))),
            });
        }
    }
    let count = call.count();
    tasks.threads.push_close(call)?;
    for index in 1..=count {
        call.push(Argument(index))?;
    }
    Ok(Next::call(count, then(return_results), 0))
}

/// Continues after Lua's own `close` has returned: returns its results.
fn return_results(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    Ok(Next::rest(outcome.first))
}

const RESUME: Function = Function::new(resume);
const CALL_WRAPPED: Function = Function::new(call_wrapped);

const FUNCTIONS: FunctionTable = functions! { resume: RESUME, wrap, status, close };

/// Replaces Lua's own functions with the functions of this file, if the VM has the coroutine library.
pub(crate) const INSTALL: Function = Function::new(|call: &mut Call<'_>| {
    let upvalue = push_tasks(call)?;
    let libraries = call.loaded_libraries()?;
    let library = call.raw_field(libraries, "coroutine")?;
    if call.kind(library) == Kind::Table {
        call.create(BoundFunctions { list: FUNCTIONS, upvalue, table: Some(library), copied: None })?;
        let name = call.create("lio.coroutine")?;
        call.create(crate::lua::StoredInTable::new(libraries, name, Argument(library)))?;
    }
    Ok(())
});

/// Pushes the object of the VM's tasks. Lets waits yield across `resume`.
fn push_tasks(call: &mut Call<'_>) -> Result<i32, Fault> {
    let tasks = Tasks::of(call)?;
    tasks.allow_yield_across(RESUME);
    tasks.allow_yield_across(CALL_WRAPPED);
    push_tasks_object(call)
}

/// Opens `lio.coroutine`: a table with all functions of the library.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let upvalue = push_tasks(call)?;
    let library = call.loaded("coroutine")?;
    if call.kind(library) != Kind::Table {
        return Err(Fault::message("lio.coroutine: the coroutine library is not open"));
    }
    Ok(Argument(call.create(BoundFunctions { list: FUNCTIONS, upvalue, table: None, copied: Some(library) })?))
});
