//! Tasks: functions that run in coroutines of a pool, wait on tokens and are woken. Each VM has one [`Tasks`]. `lio.loop`
//! drives it through `lio.task`, the scheduler's service library from Rust.
//!
//! - A finished task's coroutine is used again for the next one; one that raised or was killed is closed (its `<close>`
//!   variables run) and let go.
//! - A wakeup queues, it never runs inside the waker; the order of wakeups is the order of runs. The queue holds tasks;
//!   the values that a resume passes lie on the coroutine's own stack already.
//! - A wait leaves its token in the first stack slot of its frame, which keeps it alive.
//! - Lua code can close or resume any coroutine that it gets hold of. So each use asks the coroutine's status first, and
//!   a wait's end asks whether the task was resumed from here. What was taken over in that way is no task any more.
//! - `books` is borrowed for a moment each, never while Lua code runs: a task, a handler or a finalizer may call anything.
//!
//! | file | topic |
//! |---|---|
//! | `token` | what is waited on |
//! | `entry` | one task |
//! | `waiters`, `pool` | who waits on which token; free coroutines |
//! | `books` | which tasks there are, the run queue |
//! | `acquire` | coroutines for tasks |
//! | `wait` | how a wait begins and ends |
//! | `wake` | wakeups |
//! | `run` | resumes, and how they come back |
//! | `nested` | coroutines inside of a task's own |
//! | `kill` | ends that are no return |
//! | `notify` | who is told of ends |
//! | `orphan` | waits that nothing can end |
//! | `inspect` | what a task is doing |
//! | `refuse` | why a wait is refused |

mod acquire;
mod books;
mod entry;
mod inspect;
mod kill;
mod nested;
mod notify;
mod orphan;
mod pool;
mod refuse;
mod run;
#[cfg(all(test, feature = "vendored"))]
mod tests;
mod token;
mod wait;
mod waiters;
mod wake;

pub(crate) use entry::{Reason, Tag, TaskId};
pub(crate) use inspect::Waits;
pub(crate) use kill::Ended;
pub(crate) use nested::refusal_at;
pub(crate) use notify::{Host, ON_ERROR};
pub(crate) use token::Token;
pub(crate) use wait::{Denied, Way};
pub(crate) use wake::Ending;

use crate::lua::{Call, Coroutine, Fault, Function, Identity, Threads};
use books::Books;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// A VM's tasks.
pub(crate) struct Tasks {
    pub(crate) threads: Rc<Threads>,
    books: RefCell<Books>,
    /// The task that runs, and the coroutine that was resumed for it.
    current: Cell<Option<(TaskId, Coroutine)>>,
    /// About what time it is, in nanoseconds of the monotonic clock.
    now: Cell<u64>,
    /// How many `spawn`s are inside each other.
    depth: Cell<u32>,
    /// Whether the tasks' CPU time is measured.
    metering: Cell<bool>,
    host: OnceCell<Box<dyn Host>>,
    /// Functions of C across which a wait may go, besides Lua's.
    permeable: RefCell<Vec<Function>>,
}

impl Default for Tasks {
    fn default() -> Self {
        let threads: Rc<Threads> = Rc::default();
        Tasks {
            books: RefCell::new(Books::new(threads.clone())),
            threads,
            current: Cell::new(None),
            now: Cell::new(crate::event::clock::monotonic_nanos()),
            depth: Cell::new(0),
            metering: Cell::new(false),
            host: OnceCell::new(),
            permeable: RefCell::default(),
        }
    }
}

impl Tasks {
    /// The VM's tasks, made at first use. An error when memory is short, and once the VM closes.
    pub(crate) fn of(call: &mut Call<'_>) -> Result<Rc<Tasks>, Fault> {
        let tasks: Rc<Tasks> = call.shared().map_err(|_| closed())?;
        tasks.threads.set_up(call)?;
        tasks.check_open()?;
        Ok(tasks)
    }

    /// An error once the VM closes.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        match self.threads.are_open() {
            true => Ok(()),
            false => Err(closed()),
        }
    }

    /// A wait may go across this function, which calls or resumes by a step.
    pub(crate) fn let_through(&self, function: Function) {
        self.permeable.borrow_mut().push(function);
    }

    /// Sets who is told of the tasks' ends, once.
    pub(crate) fn set_host(&self, host: Box<dyn Host>) {
        // A second one would be a defect of the caller's.
        let _ = self.host.set(host);
    }

    fn host(&self) -> Option<&dyn Host> {
        self.host.get().map(|host| &**host)
    }

    /// The task that runs now.
    #[inline]
    pub(crate) fn current(&self) -> Option<TaskId> {
        self.current.get().map(|(id, _)| id)
    }

    /// Sets what time it is, in nanoseconds of the monotonic clock.
    #[inline]
    pub(crate) fn set_now(&self, nanos: u64) {
        self.now.set(nanos);
    }

    /// The tag of a living task.
    pub(crate) fn tag(&self, id: TaskId) -> Tag {
        self.books.borrow().task(id).tag
    }

    /// Sets the tag of a living task, for instance once it has answered.
    pub(crate) fn set_tag(&self, id: TaskId, tag: Tag) {
        self.books.borrow_mut().task_mut(id).tag = tag;
    }

    /// How many tasks wait on a session.
    pub(crate) fn sessions(&self) -> usize {
        self.books.borrow().waiting.sessions()
    }

    /// Whether a task can run.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.books.borrow().queue.is_empty()
    }

    /// Whether all that is queued has yielded by itself, and so asked for nothing before the next message.
    pub(crate) fn only_yielded(&self) -> bool {
        self.books.borrow().only_yielded()
    }

    /// For the end of a slice: whether a task can run, and how many coroutines were ever created for tasks.
    #[inline]
    pub(crate) fn at_rest(&self) -> (bool, u64) {
        let books = self.books.borrow();
        (!books.queue.is_empty(), books.pool.created)
    }

    /// How many tasks have not ended.
    pub(crate) fn count(&self) -> usize {
        self.books.borrow().count
    }

    /// How many living tasks a service asked for.
    pub(crate) fn requests(&self) -> usize {
        self.books.borrow().requests
    }

    /// The task whose own coroutine this is, living or not.
    pub(crate) fn task_of(&self, co: Identity) -> Option<TaskId> {
        self.books.borrow().task_of(co)
    }

    /// The living task whose own coroutine this is.
    pub(crate) fn living(&self, co: Identity) -> Option<TaskId> {
        self.books.borrow_mut().living(co)
    }

    /// The task in whose chain this coroutine is, its own included.
    #[inline]
    pub(crate) fn member_of(&self, co: Identity) -> Option<TaskId> {
        self.books.borrow_mut().member_of(co)
    }

    /// Whether a living task neither runs nor is in the middle of a call.
    pub(crate) fn is_idle(&self, id: TaskId) -> bool {
        !self.books.borrow().task(id).is_running()
    }
}

/// The error of what needs tasks once there are none.
pub(crate) fn closed() -> Fault {
    Fault::message("the VM is closing: there are no tasks any more")
}
