//! One task: its phase, the token it waits on, and the receiver of its result.

use super::token::Token;
use crate::lua::Coroutine;

/// The id of a task: its index in the task table. Ids of ended tasks are reused.
pub(crate) type TaskId = u32;

/// The request that a task handles: where the host sends the task's result. If the session is 0, no result is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tag {
    /// The service that sent the request.
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
    /// A wait for a response from this service.
    Call(u32),
    /// A wait for the host's timer with this id.
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
    /// Queued to start: its function and `arguments` arguments are on its stack.
    Ready { arguments: i32 },
    /// Queued after a wait: `values` values are on its stack. If `raises` is true, the wait raises the last one as an
    /// error.
    Woken { values: i32, raises: bool },
    /// Queued after a plain yield.
    Yielded,
    /// Running. If `raises` is true, the wait that the task was resumed from raises an error.
    Running { raises: bool },
    /// Suspended in a wait, which began in the collector's cycle `cycle`. If `weak` is true, the task's coroutines stay
    /// alive only as long as other code refers to its token, see `orphan`.
    Waiting { cycle: u32, weak: bool },
    /// Queued, because no code can end its wait.
    Orphaned,
    /// An orphan that is being reported.
    Reported,
    /// Taken from its wait, and not yet resumed or queued.
    Taken,
    /// Queued, because a program has closed or resumed a coroutine of its chain. The coroutine that was resuming that
    /// coroutine gets an error.
    Severed,
    /// Queued, because a program has closed or resumed its own coroutine.
    Stale,
    /// Killed while it was queued. Its id becomes vacant when the task is taken from the queue.
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
    /// The task's chain, from its own coroutine to the innermost one; empty if the task has no nested coroutines. See
    /// `nested`.
    pub(super) chain: Vec<Coroutine>,
    /// The position in the chain of the first coroutine that a program has resumed; `u32::MAX` if there is none.
    pub(super) untouched: u32,
    pub(super) phase: Phase,
    /// The token that the task waits on; while `Woken`, the token that it waited on.
    pub(super) token: Token,
    pub(super) reason: Reason,
    pub(super) tag: Tag,
    /// Whether lio calls the `on_end` callback when the task ends.
    pub(super) watched: bool,
    /// The time at which the task started, in nanoseconds of the monotonic clock.
    pub(super) started_at: u64,
    /// The CPU time of the task's resumes since `metering` was set, in nanoseconds. Includes the time of earlier tasks
    /// on the same coroutine.
    pub(super) cpu_nanos: u64,
    /// The thread's CPU time when `cpu_nanos` was last updated or the current resume began, in nanoseconds; 0 if it was
    /// not measured.
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

    /// Returns the coroutine that runs or waits: the innermost one of the chain, or the task's own if there is no
    /// chain.
    #[inline]
    pub(super) fn front(&self) -> Coroutine {
        self.chain.last().copied().unwrap_or(self.own)
    }

    /// Returns the task's coroutines, from its own to the innermost.
    #[inline]
    pub(super) fn members(&self) -> &[Coroutine] {
        if self.chain.is_empty() { std::slice::from_ref(&self.own) } else { &self.chain }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }
}
