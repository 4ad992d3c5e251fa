//! The turns of tasks to read and to write on a stream. While one task waits in `recv` or `send`, other callers of it
//! queue; `lualib/lio/net/wait_queue.lua` keeps these queues. A `recv` that waits without others behind it
//! needs no entry in them.

/// The owner of the turn to read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum ReadTurn {
    #[default]
    Free,
    /// A task that is recorded in Lua's tables.
    Lua,
    /// A task in a `recv` that waits; its token is the stream itself.
    Native,
    /// Like `Native`, and other tasks queue for the turn, in Lua's tables.
    NativeQueued,
}

/// The turns of one stream.
#[derive(Default)]
pub(crate) struct Turns {
    pub(crate) read_turn: ReadTurn,
    /// Whether a task has the turn to write, according to Lua's tables.
    pub(crate) is_writing: bool,
    /// Whether Lua's tables have, or had, an entry for the stream.
    pub(crate) in_lua: bool,
    /// The longest wait of a `recv`.
    pub(crate) recv_timeout: Option<ReadTimeout>,
}

/// A time limit, and the timer that ends the wait. Lua owns the timer and frees it.
#[derive(Clone, Copy)]
pub(crate) struct ReadTimeout {
    pub(crate) nanos: u64,
    pub(crate) timer: u64,
}

impl Turns {
    /// Whether a task in a waiting `recv` has the turn to read.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self.read_turn, ReadTurn::Native | ReadTurn::NativeQueued)
    }
}
