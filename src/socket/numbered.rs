//! Sockets that all services of the process know by a number, as in skynet: any service may write to such a socket,
//! from its own thread and without waiting. `modules/skynet/sockets.rs` is the only user.
//!
//! A write goes through the connection's shared writer as long as the system accepts all bytes. Other bytes are queued
//! here, and the owner sends them. Invariant: bytes are in the order of the writes, because each write holds the lock
//! of its socket, and nothing is written directly while bytes are queued or being sent by the owner.
//!
//! Commands to the owner are recorded with the socket ([`Commands`]), so they are not lost if the owner is busy or
//! changes. Invariant: while commands are recorded, a notification is on its way to the owner, or the owner is moving
//! the socket.

use super::shared_writer::SharedWriter;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The number of queued bytes at which the owner is warned first. Later warnings come at twice the last number.
const WARNING: usize = 1 << 20;

/// The maximum size of what [`Holder::take`] joins to one piece.
const PIECE: usize = 256 << 10;

/// The largest number of a socket, as in skynet. Numbers start again at 1 after it.
const LARGEST: u32 = i32::MAX as u32;

/// The order of queued bytes: bytes of low priority are sent when no others are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Priority {
    High,
    Low,
}

/// The result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// There is no such socket, or it can no longer send.
    Missing,
    /// The system has accepted all bytes.
    Sent,
    /// Bytes are queued. `notify`: the owner, if it must be notified that it has commands.
    Queued { notify: Option<u32> },
}

/// How the owner must end a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum End {
    /// After the queued bytes are sent.
    Close,
    /// At once.
    Shutdown,
}

/// The actions that the owner of a socket must take.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Commands {
    /// Send the queued bytes.
    pub(crate) send: bool,
    /// Warn that this number of bytes is queued.
    pub(crate) warning: Option<usize>,
    pub(crate) end: Option<End>,
}

/// The result of [`Holder::take`].
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Bytes to send.
    Piece(Vec<u8>),
    /// All bytes are sent. `was_warned`: the owner was warned since the queue was last empty.
    Empty { was_warned: bool },
}

/// A line of [`list`].
pub(crate) struct Description {
    pub(crate) number: u32,
    pub(crate) owner: u32,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) written: u64,
    pub(crate) queued: usize,
}

struct Socket {
    owner: u32,
    /// Which holder removes the socket: the last one.
    holder: u64,
    kind: String,
    name: String,
    writer: Option<Arc<SharedWriter>>,
    high: VecDeque<Vec<u8>>,
    low: VecDeque<Vec<u8>>,
    queued: usize,
    /// The number of bytes that the owner is sending.
    in_flight: usize,
    is_draining: bool,
    is_over: bool,
    /// The number of queued bytes at which the owner is warned.
    warn_at: usize,
    written: u64,
    commands: Commands,
}

#[derive(Default)]
struct Sockets {
    last: u32,
    holders: u64,
    by_number: FxHashMap<u32, Arc<Mutex<Socket>>>,
}

static SOCKETS: LazyLock<Mutex<Sockets>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(number: u32) -> Option<Arc<Mutex<Socket>>> {
    lock(&SOCKETS).by_number.get(&number).cloned()
}

/// The right of the owner to a socket. Dropping the last holder of a socket removes the socket.
pub(crate) struct Holder {
    number: u32,
    holder: u64,
    socket: Arc<Mutex<Socket>>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Holder {
    /// Returns a new socket of the service `owner`.
    pub(crate) fn new(owner: u32, kind: String, name: String) -> Holder {
        let mut all = lock(&SOCKETS);
        all.holders += 1;
        let holder = all.holders;
        let mut number = all.last;
        loop {
            number = if number == LARGEST { 1 } else { number + 1 };
            if !all.by_number.contains_key(&number) {
                break;
            }
        }
        all.last = number;
        let socket = Arc::new(Mutex::new(Socket {
            owner,
            holder,
            kind,
            name,
            writer: None,
            high: VecDeque::new(),
            low: VecDeque::new(),
            queued: 0,
            in_flight: 0,
            is_draining: false,
            is_over: false,
            warn_at: WARNING,
            written: 0,
            commands: Commands::default(),
        }));
        all.by_number.insert(number, socket.clone());
        Holder { number, holder, socket }
    }

    /// Makes the service `owner` the owner of a socket, which must then take the socket's commands. The previous holder
    /// no longer has a right.
    pub(crate) fn adopt(number: u32, owner: u32) -> Option<Holder> {
        let mut all = lock(&SOCKETS);
        let socket = all.by_number.get(&number)?.clone();
        all.holders += 1;
        let holder = all.holders;
        let mut state = lock(&socket);
        (state.owner, state.holder) = (owner, holder);
        state.writer = None;
        drop(state);
        Some(Holder { number, holder, socket })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Sets the shared writer of the connection. Without one, all bytes are queued for the owner.
    pub(crate) fn set_writer(&self, number: u64) {
        lock(&self.socket).writer = SharedWriter::find(number);
    }

    /// Removes the socket, unless it has another holder by now. Its number is free again.
    pub(crate) fn remove(&self) {
        let mut all = lock(&SOCKETS);
        let is_own = all.by_number.get(&self.number).is_some_and(|socket| Arc::ptr_eq(socket, &self.socket));
        if is_own && lock(&self.socket).holder == self.holder {
            all.by_number.remove(&self.number);
        }
    }

    /// Refuses further writes. Queued bytes can still be taken.
    pub(crate) fn end(&self) {
        lock(&self.socket).is_over = true;
    }

    /// Takes the commands for the owner. There are none if the socket has another holder by now.
    pub(crate) fn take_commands(&self) -> Commands {
        let mut socket = lock(&self.socket);
        match socket.holder == self.holder {
            true => std::mem::take(&mut socket.commands),
            false => Commands::default(),
        }
    }

    /// Returns the next bytes for the owner to send. The previous piece counts as sent.
    pub(crate) fn take(&self) -> Taken {
        let mut socket = lock(&self.socket);
        socket.queued -= socket.in_flight;
        socket.written += socket.in_flight as u64;
        socket.in_flight = 0;
        let Some(mut piece) = socket.high.pop_front().or_else(|| socket.low.pop_front()) else {
            socket.is_draining = false;
            let was_warned = socket.warn_at > WARNING;
            socket.warn_at = WARNING;
            return Taken::Empty { was_warned };
        };
        while socket.high.front().is_some_and(|next| piece.len() + next.len() <= PIECE) {
            piece.extend_from_slice(&socket.high.pop_front().unwrap_or_default());
        }
        socket.in_flight = piece.len();
        Taken::Piece(piece)
    }
}

impl Socket {
    /// Sends the pieces as far as the system accepts them. Returns the number of sent bytes.
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> usize {
        if self.is_draining {
            return 0;
        }
        let Some(writer) = &self.writer else { return 0 };
        match writer.send(pieces) {
            Ok(Some(count)) => {
                self.written += count as u64;
                count
            }
            // The connection is moving to another service, or is closed: then the owner drops the bytes.
            Ok(None) => {
                self.writer = None;
                0
            }
            // The owner tries again, and reports the failure if that fails too.
            Err(_) => 0,
        }
    }

    /// Adds commands. Returns the owner if it must be notified, because there were none.
    fn command(&mut self, add: impl FnOnce(&mut Commands)) -> Option<u32> {
        let had_none = self.commands == Commands::default();
        add(&mut self.commands);
        (had_none && self.commands != Commands::default()).then_some(self.owner)
    }

    /// Queues the bytes behind the first `sent` ones.
    fn queue(&mut self, pieces: &[IoSlice<'_>], sent: usize, total: usize, priority: Priority) -> Written {
        let mut rest = Vec::with_capacity(total - sent);
        let mut skip = sent;
        for piece in pieces {
            rest.extend_from_slice(&piece[skip.min(piece.len())..]);
            skip = skip.saturating_sub(piece.len());
        }
        self.queued += rest.len();
        // The rest of a message must follow its beginning.
        match priority {
            Priority::Low if sent == 0 => self.low.push_back(rest),
            _ => self.high.push_back(rest),
        }
        let warning = (self.queued >= self.warn_at).then_some(self.queued);
        while self.queued >= self.warn_at {
            self.warn_at *= 2;
        }
        let is_first = !self.is_draining;
        self.is_draining = true;
        let notify = self.command(|commands| {
            commands.send |= is_first;
            commands.warning = warning.or(commands.warning);
        });
        Written::Queued { notify }
    }
}

/// Writes to the socket `number`, without waiting.
pub(crate) fn write(number: u32, pieces: &[IoSlice<'_>], priority: Priority) -> Written {
    let Some(socket) = find(number) else { return Written::Missing };
    let mut socket = lock(&socket);
    if socket.is_over {
        return Written::Missing;
    }
    let total = pieces.iter().map(|piece| piece.len()).sum();
    match socket.send(pieces) {
        sent if sent == total => Written::Sent,
        sent => socket.queue(pieces, sent, total, priority),
    }
}

/// Makes the owner of the socket `number` end it. Returns the owner if it must be notified.
pub(crate) fn end(number: u32, end: End) -> Option<u32> {
    let socket = find(number)?;
    lock(&socket).command(|commands| commands.end = commands.end.max(Some(end)))
}

/// Returns the owner of the socket `number`.
pub(crate) fn owner(number: u32) -> Option<u32> {
    find(number).map(|socket| lock(&socket).owner)
}

/// Describes all sockets, in the order of their numbers.
pub(crate) fn list() -> Vec<Description> {
    let all: Vec<_> = lock(&SOCKETS).by_number.iter().map(|(number, socket)| (*number, socket.clone())).collect();
    let mut list: Vec<_> = all.iter().map(|(number, socket)| lock(socket).describe(*number)).collect();
    list.sort_by_key(|description| description.number);
    list
}

impl Socket {
    fn describe(&self, number: u32) -> Description {
        Description {
            number,
            owner: self.owner,
            kind: self.kind.clone(),
            name: self.name.clone(),
            written: self.written,
            queued: self.queued,
        }
    }
}

#[cfg(test)]
mod tests;
