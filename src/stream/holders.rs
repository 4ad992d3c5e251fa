//! Which tasks hold a stream, for reading and for writing. While a task waits in `recv` or `send`, it holds the stream,
//! and further callers of the same function are queued; `lualib/lio/net/wait_queue.lua` keeps these queues. If a `recv`
//! waits and no other caller is queued, no queue is needed.

/// The task that holds the stream for reading.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Reader {
    #[default]
    None,
    /// A task that is recorded in a wait queue of Lua.
    Lua,
    /// A task in a `recv` that waits; its token is the stream itself.
    Native,
    /// Like `Native`, and other tasks are queued behind the task, in the wait queue.
    NativeQueued,
}

/// The tasks that hold one stream, and the time limit of its `recv`.
#[derive(Default)]
pub(crate) struct Holders {
    pub(crate) reader: Reader,
    /// Whether a task holds the stream for writing, as recorded by `wait_queue.lua`.
    pub(crate) has_writer: bool,
    /// The time limit of `recv`; `None` if there is no limit.
    pub(crate) recv_timeout: Option<ReadTimeout>,
}

/// A time limit, and the timer that ends the wait. Lua owns the timer and frees it.
#[derive(Clone, Copy)]
pub(crate) struct ReadTimeout {
    pub(crate) nanos: u64,
    pub(crate) timer: u64,
}

impl Holders {
    /// Returns whether a task in a waiting `recv` holds the stream for reading.
    pub(crate) fn has_native_reader(&self) -> bool {
        matches!(self.reader, Reader::Native | Reader::NativeQueued)
    }
}
