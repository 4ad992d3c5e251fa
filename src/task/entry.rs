//! One task: its phase, what it waits for, and where its result goes.

use super::token::Token;
use crate::lua::Coroutine;

/// The number of a task, as long as it has not ended. Numbers are reused.
pub(crate) type TaskId = u32;

/// A host's data about a task: where its result goes. With session 0 it goes nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tag {
    /// The service that has sent the request.
    pub(crate) from: u32,
    /// The session of the request.
    pub(crate) session: i64,
}

/// The purpose of a wait on a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Reason {
    /// Unknown.
    #[default]
    Other,
    /// The response of this service.
    Call(u32),
    /// The host's timer with this ID.
    Timer(u64),
}

/// The phase of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// There is neither a task nor a coroutine.
    Vacant,
    /// The coroutine is free for the next task.
    Pooled,
    /// The task was taken from the pool and has not started, or it has just ended.
    Acquired,
    /// Queued: function and arguments are on the stack.
    Ready { arguments: i32 },
    /// Queued: the values of the wait are on the stack, or the error that it raises.
    Woken { values: i32, raises: bool },
    /// Queued after a plain yield.
    Yielded,
    /// Running. `raises`: the wait in which the task was resumed raises.
    Running { raises: bool },
    /// Suspended in a wait since this cycle of the collector. `weak`: the collector may free its coroutines, see
    /// `orphan`.
    Waiting { cycle: u32, weak: bool },
    /// Queued: no code can end its wait.
    Orphaned,
    /// An orphan that is being reported.
    Reported,
    /// Taken from its wait, and not yet resumed or queued.
    Taken,
    /// Queued: a program has closed or resumed a coroutine of its chain. The coroutine that was resuming that one gets
    /// an error.
    Severed,
    /// Queued: a program has closed or resumed its own coroutine.
    Stale,
    /// Queued: it was killed. The number is vacant when its turn comes.
    Dead,
}

impl Phase {
    /// Whether a task in this phase has started or is queued to start, and has not ended.
    pub(super) fn is_alive(self) -> bool {
        use Phase::{Acquired, Dead, Pooled, Stale, Vacant};
        !matches!(self, Vacant | Pooled | Acquired | Stale | Dead)
    }

    /// Whether a task in this phase is in the ready queue.
    pub(super) fn is_queued(self) -> bool {
        use Phase::{Dead, Orphaned, Ready, Severed, Stale, Woken, Yielded};
        matches!(self, Ready { .. } | Woken { .. } | Yielded | Severed | Orphaned | Stale | Dead)
    }
}

/// One task, or a free coroutine.
pub(super) struct Task {
    /// The task's own coroutine, unless the task is vacant or dead.
    pub(super) own: Coroutine,
    /// If others run inside it: all coroutines that resume each other, from its own inwards; see `nested`.
    pub(super) chain: Vec<Coroutine>,
    /// How many of its coroutines are as they were left. A program has resumed the next one.
    pub(super) untouched: u32,
    pub(super) phase: Phase,
    /// The token that it waits on; while `Woken`, the token that it waited on.
    pub(super) token: Token,
    pub(super) reason: Reason,
    pub(super) tag: Tag,
    /// Whether the function of `on_end` is called when the task ends.
    pub(super) watched: bool,
    /// The start of the task, in nanoseconds of the monotonic clock.
    pub(super) started_at: u64,
    /// While `metering`: the CPU time of its resumes, in nanoseconds, and the thread's CPU time when the present resume
    /// began. Includes the time of former tasks with this number.
    pub(super) cpu_nanos: u64,
    pub(super) resumed_at: u64,
}

impl Task {
    pub(super) fn new(own: Coroutine) -> Task {
        Task {
            own,
            chain: Vec::new(),
            untouched: u32::MAX,
            phase: Phase::Acquired,
            token: Token::Session(0),
            reason: Reason::Other,
            tag: Tag::default(),
            watched: false,
            started_at: 0,
            cpu_nanos: 0,
            resumed_at: 0,
        }
    }

    /// Returns the coroutine that runs or waits: the innermost of the chain, or its own.
    #[inline]
    pub(super) fn front(&self) -> Coroutine {
        self.chain.last().copied().unwrap_or(self.own)
    }

    /// Returns its coroutines, from its own inwards.
    #[inline]
    pub(super) fn members(&self) -> &[Coroutine] {
        if self.chain.is_empty() { std::slice::from_ref(&self.own) } else { &self.chain }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }
}
