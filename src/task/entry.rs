//! One task: what it is doing, what it waits for, whose it is.

use super::token::Token;
use crate::lua::Coroutine;

/// Names a task, while it lives. The number is used again.
pub(crate) type TaskId = u32;

/// What a host attaches to a task: where its result goes. Session 0: nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tag {
    /// The service that asked.
    pub(crate) from: u32,
    /// Its request.
    pub(crate) session: i64,
}

/// What a wait on a session is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Reason {
    /// Not known.
    #[default]
    Other,
    /// The answer of a service.
    Call(u32),
    /// A timer of the host's, by its id.
    Timer(u64),
}

/// What a task is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// There is no task, and no coroutine.
    Vacant,
    /// The coroutine is free for the next task.
    Pooled,
    /// Taken from the pool and not started, or just ended.
    Acquired,
    /// Queued: function and arguments lie on the stack.
    Ready { arguments: i32 },
    /// Queued: the wait's values lie on the stack, or the error that it raises.
    Woken { values: i32, raises: bool },
    /// Queued after a plain yield.
    Yielded,
    /// Runs now. `raises`: so does the wait that it was resumed in.
    Running { raises: bool },
    /// Suspended in a wait since that cycle of the collector. `weak`: which may take its coroutines, see `orphan`.
    Waiting { cycle: u32, weak: bool },
    /// Queued: nothing can end its wait any more.
    Orphaned,
    /// The same, while it is reported.
    Reported,
    /// Taken from its wait and not yet resumed or queued.
    Taken,
    /// Queued: a program has closed or resumed a coroutine of its chain; the one that resumed it gets an error.
    Severed,
    /// Queued: a program has closed or resumed its own coroutine.
    Stale,
    /// Queued: it was killed, and is vacant when its turn comes.
    Dead,
}

impl Phase {
    pub(super) fn is_living(self) -> bool {
        use Phase::{Acquired, Dead, Pooled, Stale, Vacant};
        !matches!(self, Vacant | Pooled | Acquired | Stale | Dead)
    }

    pub(super) fn is_queued(self) -> bool {
        use Phase::{Dead, Orphaned, Ready, Severed, Stale, Woken, Yielded};
        matches!(self, Ready { .. } | Woken { .. } | Yielded | Severed | Orphaned | Stale | Dead)
    }
}

/// One task, or a free coroutine.
pub(super) struct Task {
    /// Its own coroutine, unless it is vacant or dead.
    pub(super) own: Coroutine,
    /// If others run inside of it: all that resume each other, from its own inwards; see `nested`.
    pub(super) chain: Vec<Coroutine>,
    /// So many of its coroutines are as they were left: a program has resumed the next one.
    pub(super) untouched: u32,
    pub(super) phase: Phase,
    /// What it waits on; also while `Woken`, what it waited on.
    pub(super) token: Token,
    pub(super) reason: Reason,
    pub(super) tag: Tag,
    /// The function of `on_end` is called when it ends.
    pub(super) watched: bool,
    /// When it began, in nanoseconds of the monotonic clock.
    pub(super) born: u64,
    /// While `metering`: CPU nanoseconds that its resumes took, and the thread's when the present one began. What former
    /// tasks of this number took is in it.
    pub(super) spent: u64,
    pub(super) since: u64,
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
            born: 0,
            spent: 0,
            since: 0,
        }
    }

    /// What runs or waits: the innermost of the chain, or its own coroutine.
    #[inline]
    pub(super) fn front(&self) -> Coroutine {
        self.chain.last().copied().unwrap_or(self.own)
    }

    /// Its coroutines, from its own inwards.
    #[inline]
    pub(super) fn members(&self) -> &[Coroutine] {
        match self.chain.is_empty() {
            true => std::slice::from_ref(&self.own),
            false => &self.chain,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }
}
