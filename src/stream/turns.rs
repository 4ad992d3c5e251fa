//! Who has a turn to read or to write on a stream. Whoever calls `recv` or `send` while another task waits in one queues up,
//! in books that `lualib/lio/net/wait_queue.lua` keeps; a `recv` that waits and has nobody behind it needs no book.

/// Who has the turn to read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Reading {
    #[default]
    Free,
    /// A task has it, by Lua's books.
    Booked,
    /// A task has it, in a `recv` that waits; its token is the stream itself.
    Here,
    /// The same, and others queue for it, by Lua's books.
    HereQueued,
}

/// The turns of one stream.
#[derive(Default)]
pub(crate) struct Turns {
    pub(crate) reading: Reading,
    /// A task has the turn to write, by Lua's books.
    pub(crate) writes: bool,
    /// Lua's books have, or had, an entry for the stream.
    pub(crate) booked: bool,
    /// How long a `recv` waits at most.
    pub(crate) limit: Option<Alarm>,
}

/// A time limit, and the timer that ends the wait. The timer is Lua's, which frees it.
#[derive(Clone, Copy)]
pub(crate) struct Alarm {
    pub(crate) nanos: u64,
    pub(crate) timer: u64,
}

impl Turns {
    /// Whether a `recv` that waits has the turn to read.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.reading, Reading::Here | Reading::HereQueued)
    }
}
