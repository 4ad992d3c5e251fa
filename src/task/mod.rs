//! Tasks: functions that run in coroutines of a pool, wait on tokens and are woken. Each VM has one [`Tasks`].
//! `lio.loop` uses this module through `lio.task`; the scheduler's service library uses it from Rust.
//!
//! - The coroutine of a finished task is reused for the next one. The coroutine of a task that failed or was killed is
//!   closed, together with its `<close>` variables, and released.
//! - A wakeup only puts the task into the ready queue; the task never runs inside the call that wakes it. Tasks run in
//!   the order of their wakeups. The queue contains only task ids; the values for the resume are already on the
//!   coroutine's own stack.
//! - A wait leaves its token in the first stack slot of its frame, which keeps the token alive.
//! - Lua code can close or resume any coroutine that it has as a value. Therefore each use checks the coroutine's
//!   status first, and the step after a wait checks that this module has resumed the task. If a program has resumed a
//!   coroutine of a task, the coroutine no longer belongs to the task.
//! - `Tasks::table` is borrowed only briefly, and never while Lua code runs: a task, a handler or a finalizer may call
//!   any function here.
//!
//! | file | topic |
//! |---|---|
//! | `token` | the value that a task waits on |
//! | `entry` | one task |
//! | `waiters`, `pool` | the waiting task of each token; free coroutines |
//! | `table` | the task table and the ready queue; whether a program has closed or resumed a task's coroutine |
//! | `acquire` | coroutines for tasks |
//! | `wait` | the beginning and the end of a wait |
//! | `wake` | wakeups |
//! | `run` | resuming tasks, and handling how they stop |
//! | `nested` | coroutines that a task's own coroutine is resuming |
//! | `kill` | killing tasks |
//! | `notify` | notifications when tasks end |
//! | `orphan` | waits that no code can end |
//! | `run_time` | how long a task runs without waiting |
//! | `inspect` | the state of a task, for programs |
//! | `refuse` | the message of a refused wait |

mod acquire;
mod entry;
mod inspect;
mod kill;
mod nested;
mod notify;
mod orphan;
mod pool;
mod refuse;
mod run;
mod run_time;
mod table;
#[cfg(all(test, feature = "vendored"))]
mod tests;
mod token;
mod wait;
mod waiters;
mod wake;

pub(crate) use entry::{Reason, Tag, TaskId};
pub(crate) use inspect::WaitingOn;
pub(crate) use kill::KillResult;
pub(crate) use nested::resume_error_at;
pub(crate) use notify::{Host, ON_ERROR};
pub(crate) use run_time::{Overrun, RunTime};
pub(crate) use token::Token;
pub(crate) use wait::{WaitError, WaitPath};
pub(crate) use wake::Ending;

use crate::lua::{Call, Coroutine, Fault, Function, Identity, Threads};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use table::TaskTable;

/// The tasks of a VM.
pub(crate) struct Tasks {
    pub(crate) threads: Rc<Threads>,
    table: RefCell<TaskTable>,
    /// The running task, and the coroutine that was resumed for it.
    current: Cell<Option<(TaskId, Coroutine)>>,
    /// The approximate time, in nanoseconds of the monotonic clock.
    now: Cell<u64>,
    /// How long the running task has run.
    pub(crate) run_time: RunTime,
    /// The number of nested calls to `spawn`.
    depth: Cell<u32>,
    /// Whether the tasks' CPU time is measured.
    metering: Cell<bool>,
    host: OnceCell<Box<dyn Host>>,
    /// The C functions across which a wait can yield, in addition to Lua's own.
    yieldable_functions: RefCell<Vec<Function>>,
    /// Whether the VM is ending, so that tasks can no longer wait.
    is_ending: Cell<bool>,
}

impl Default for Tasks {
    fn default() -> Self {
        let table = TaskTable::default();
        let run_time = RunTime::new(table.threads.work.clone());
        Tasks {
            threads: table.threads.clone(),
            table: RefCell::new(table),
            current: Cell::new(None),
            now: Cell::new(crate::event::clock::monotonic_nanos()),
            run_time,
            depth: Cell::new(0),
            metering: Cell::new(false),
            host: OnceCell::new(),
            yieldable_functions: RefCell::default(),
            is_ending: Cell::new(false),
        }
    }
}

impl Tasks {
    /// Records that the VM is ending. Errors for waits then say so.
    pub(crate) fn set_ending(&self) {
        self.is_ending.set(true);
    }

    /// Returns the VM's tasks, which are created on first use. Fails if there is not enough memory, or if the VM is
    /// closing.
    pub(crate) fn of(call: &mut Call<'_>) -> Result<Rc<Tasks>, Fault> {
        let tasks: Rc<Tasks> = call.shared().map_err(|_| closed())?;
        tasks.threads.create_anchors(call)?;
        tasks.check_open()?;
        Ok(tasks)
    }

    /// Fails if the VM is closing.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        if self.threads.are_open() { Ok(()) } else { Err(closed()) }
    }

    /// Allows waits to yield across `function`, whose steps can continue after a yield.
    pub(crate) fn allow_yield_across(&self, function: Function) {
        self.yieldable_functions.borrow_mut().push(function);
    }

    /// Sets the host, which is notified when a task ends. Call this only once.
    pub(crate) fn set_host(&self, host: Box<dyn Host>) {
        // A second call is a bug in the caller. It has no effect.
        let _ = self.host.set(host);
    }

    fn host(&self) -> Option<&dyn Host> {
        self.host.get().map(|host| &**host)
    }

    /// Returns the running task.
    #[inline]
    pub(crate) fn current(&self) -> Option<TaskId> {
        self.current.get().map(|(id, _)| id)
    }

    /// Sets the time, in nanoseconds of the monotonic clock. Called by the main function in each round.
    #[inline]
    pub(crate) fn set_now(&self, nanos: u64) {
        self.run_time.work.begin();
        self.now.set(nanos);
    }

    /// Returns the tag of a task that has not ended.
    pub(crate) fn tag(&self, id: TaskId) -> Tag {
        self.table.borrow().task(id).tag
    }

    /// Sets the tag of a task that has not ended, for instance after its request was answered.
    pub(crate) fn set_tag(&self, id: TaskId, tag: Tag) {
        self.table.borrow_mut().task_mut(id).tag = tag;
    }

    /// Returns how many tasks wait on a session.
    pub(crate) fn sessions(&self) -> usize {
        self.table.borrow().waiting.sessions()
    }

    /// Whether the ready queue contains a task.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.table.borrow().ready_queue.is_empty()
    }

    /// Whether all tasks in the ready queue have yielded without a wait, so that none needs to run before the next
    /// message.
    pub(crate) fn only_yielded(&self) -> bool {
        self.table.borrow().only_yielded()
    }

    /// Called at the end of a slice. Returns whether a task is ready, and how many coroutines were ever created for
    /// tasks.
    #[inline]
    pub(crate) fn slice_status(&self) -> (bool, u64) {
        let table = self.table.borrow();
        (!table.ready_queue.is_empty(), table.pool.created)
    }

    /// Returns how many tasks have not ended.
    pub(crate) fn count(&self) -> usize {
        self.table.borrow().count
    }

    /// Returns how many requests are being handled: the number of tasks that have a sender and have not ended.
    pub(crate) fn requests(&self) -> usize {
        self.table.borrow().requests
    }

    /// Returns the task whose own coroutine is `co`, whether or not the task has ended.
    pub(crate) fn task_of(&self, co: Identity) -> Option<TaskId> {
        self.table.borrow().task_of(co)
    }

    /// Returns the task whose own coroutine is `co`, if the task has not ended.
    pub(crate) fn alive_task(&self, co: Identity) -> Option<TaskId> {
        self.table.borrow_mut().alive_task(co)
    }

    /// Returns the task that has `co` as its own coroutine or in its chain, if the task has not ended.
    #[inline]
    pub(crate) fn member_of(&self, co: Identity) -> Option<TaskId> {
        self.table.borrow_mut().member_of(co)
    }

    /// Whether a task that has not ended is neither running nor in the middle of a call.
    pub(crate) fn is_idle(&self, id: TaskId) -> bool {
        !self.table.borrow().task(id).is_running()
    }
}

/// Returns the error for a function that needs tasks while the VM is closing.
pub(crate) fn closed() -> Fault {
    Fault::message("the VM is closing: it has no tasks")
}
