//! Signals, which make a pipe readable. Used by loops that stop gracefully and by the supervisor of `lio --watch`.
//!
//! The handler only sets atomic bits and writes one byte, which is async-signal-safe (signal-safety(7)). The
//! disposition set by the host is restored when the last watcher of a signal is closed. The existing crates for signals
//! never remove their handlers, so none of them is used here.
#![allow(unsafe_code)]

use super::adopt;
use mio::unix::pipe::{Receiver, Sender};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::{c_int, c_void};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Each of up to 1024 workers of a web server has up to four watchers.
const MAX_WATCHERS: usize = 8192;

/// The highest signal number; the lowest is 1.
const HIGHEST: c_int = 64;

/// The signals that can be watched, by name.
const NAMES: &[(&str, c_int)] = &[
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGTERM", libc::SIGTERM),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGCHLD", libc::SIGCHLD),
    ("SIGWINCH", libc::SIGWINCH),
    ("SIGALRM", libc::SIGALRM),
    ("SIGCONT", libc::SIGCONT),
    ("SIGPIPE", libc::SIGPIPE),
];

/// The signals that a user sends from a terminal. If one of them is sent again before the program has handled it, the
/// program is terminated. SIGTERM and SIGHUP are not in the list, because a service manager may repeat them while the
/// program is only busy.
const USER_SIGNALS: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// A set of signals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Set(u64);

impl Set {
    /// Returns the set that contains the signal `number`.
    pub(crate) const fn of(number: c_int) -> Set {
        Set(1 << (number - 1))
    }

    /// Returns the set that contains the signal with this name; `None` if the signal cannot be watched.
    pub(crate) fn named(name: &[u8]) -> Option<Set> {
        let (_, number) = NAMES.iter().find(|(known, _)| known.as_bytes() == name)?;
        Some(Set::of(*number))
    }

    pub(crate) fn with(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, number: c_int) -> bool {
        self.0 & Set::of(number).0 != 0
    }

    /// Returns the signals of the set.
    pub(crate) fn signals(self) -> impl Iterator<Item = Signal> {
        self.numbers().filter_map(Signal::from_named_raw)
    }

    /// Returns the names of the signals.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let known = NAMES.iter().filter(move |(_, number)| self.has(*number));
        known.map(|(name, _)| *name)
    }

    /// Sends the signals to this process.
    pub(crate) fn send(self) -> io::Result<()> {
        Ok(self.signals().try_for_each(|signal| kill_process(getpid(), signal))?)
    }

    fn numbers(self) -> impl Iterator<Item = c_int> {
        (1..=HIGHEST).filter(move |&number| self.has(number))
    }
}

/// The purpose of a watcher.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The watcher handles the signals. If one of [`USER_SIGNALS`] arrives again before the watcher has taken the first
    /// signal, the program is considered to hang and is terminated.
    Take = 1,
    /// The watcher handles the signals, and none of them ends the process.
    Supervise,
    /// The watcher stores the signals for other watchers that are opened before this watcher is closed.
    Hold,
}

/// A watcher: a set of signals, and the pipe that is readable after one of these signals has arrived.
pub(crate) struct Signals {
    slot: &'static WatcherSlot,
    wanted: Set,
    reader: Receiver,
    _writer: Sender,
}

impl Signals {
    /// Watches the signals of a set, which must not be empty. The default actions of these signals are disabled. Fails
    /// with `EMFILE` if there are already [`MAX_WATCHERS`] watchers.
    pub(crate) fn open(wanted: Set, purpose: Purpose) -> io::Result<Signals> {
        let (writer, reader) = mio::unix::pipe::new()?;
        let mut dispositions = dispositions();
        let free = SLOTS.iter().find(|slot| slot.wanted.load(SeqCst) == 0);
        let slot = free.ok_or(Errno::MFILE)?;
        slot.pipe.store(writer.as_raw_fd(), SeqCst);
        slot.caught.store(0, SeqCst);
        slot.from_system.store(0, SeqCst);
        slot.purpose.store(purpose as u8, SeqCst);
        slot.wanted.store(wanted.0, SeqCst);
        for number in wanted.numbers() {
            dispositions.install(number);
        }
        let held = held_signals() & wanted.0;
        if held != 0 && purpose != Purpose::Hold {
            slot.caught.fetch_or(held, SeqCst);
            wake(writer.as_raw_fd());
        }
        Ok(Signals { slot, wanted, reader, _writer: writer })
    }

    /// Returns the descriptor that is readable after a signal has arrived.
    pub(crate) fn number(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Returns the signals that have arrived since the last call.
    pub(crate) fn take(&mut self) -> Set {
        let mut sink = [0u8; 64];
        while matches!(self.reader.read(&mut sink), Ok(count) if count > 0) {}
        Set(self.slot.caught.swap(0, SeqCst))
    }

    /// Waits for signals. Returns the signals that have arrived, and the subset that was sent by the system. A signal
    /// from the terminal, for instance, is sent by the system.
    pub(crate) fn wait(&mut self) -> io::Result<(Set, Set)> {
        let readable = PollFd::new(&self.reader, PollFlags::IN);
        retry_on_intr(|| poll(&mut [readable.clone()], None))?;
        let caught = self.take();
        let from_system = self.slot.from_system.fetch_and(!caught.0, SeqCst);
        Ok((caught, Set(from_system & caught.0)))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut dispositions = dispositions();
        for number in self.wanted.numbers() {
            dispositions.restore(number);
        }
        self.slot.pipe.store(-1, SeqCst);
        self.slot.wanted.store(0, SeqCst);
        while RUNNING.load(SeqCst) != 0 {
            std::hint::spin_loop();
        }
    }
}

/// Restores the default action of a signal.
pub(crate) fn restore_default(number: c_int) {
    // SAFETY: `SIG_DFL` needs no function, and signal(2) is async-signal-safe.
    unsafe { libc::signal(number, libc::SIG_DFL) };
}

/// The part of a watcher that the handler accesses. The slot is free if `wanted` is 0.
struct WatcherSlot {
    wanted: AtomicU64,
    caught: AtomicU64,
    /// The caught signals that were sent by the system and not by a process.
    from_system: AtomicU64,
    /// The write end of the pipe; -1 if the watcher was closed.
    pipe: AtomicI32,
    purpose: AtomicU8,
}

static SLOTS: [WatcherSlot; MAX_WATCHERS] = [const {
    WatcherSlot {
        wanted: AtomicU64::new(0),
        caught: AtomicU64::new(0),
        from_system: AtomicU64::new(0),
        // All bytes are 0, so that the slots take no room in the executable.
        pipe: AtomicI32::new(0),
        purpose: AtomicU8::new(0),
    }
}; MAX_WATCHERS];

impl WatcherSlot {
    fn is_for(&self, purpose: Purpose) -> bool {
        self.purpose.load(SeqCst) == purpose as u8
    }
}

/// The number of handlers that are running on all threads. A pipe is closed only while this number is 0.
static RUNNING: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(number: c_int, information: *mut libc::siginfo_t, _: *mut c_void) {
    RUNNING.fetch_add(1, SeqCst);
    let errno = errno::errno();
    // SAFETY: for a handler with `SA_SIGINFO` the system passes a pointer that is valid until the handler returns.
    let from_system = unsafe { (*information).si_code } > 0;
    for slot in &SLOTS {
        if !Set(slot.wanted.load(SeqCst)).has(number) {
            continue;
        }
        if from_system {
            slot.from_system.fetch_or(Set::of(number).0, SeqCst);
        }
        let before = Set(slot.caught.fetch_or(Set::of(number).0, SeqCst));
        if slot.is_for(Purpose::Hold) {
            continue;
        }
        if before.has(number) && USER_SIGNALS.contains(&number) && slot.is_for(Purpose::Take) {
            // The loop has not taken the first signal, so it hangs. The second signal terminates the process.
            restore_default(number);
            let _ = Set::of(number).send();
        }
        wake(slot.pipe.load(SeqCst));
    }
    // Restore the errno of the interrupted code.
    errno::set_errno(errno);
    RUNNING.fetch_sub(1, SeqCst);
}

/// Makes the other end of a pipe readable. A full pipe is already readable. The pipe is open, because its watcher
/// closes it only while no handler runs.
fn wake(pipe: RawFd) {
    let _ = adopt::borrowed(pipe, |pipe| rustix::io::write(pipe, b"!"));
}

/// Returns the signals that watchers with [`Purpose::Hold`] store.
fn held_signals() -> u64 {
    let is_holding = |slot: &&WatcherSlot| slot.is_for(Purpose::Hold) && slot.wanted.load(SeqCst) != 0;
    let holding = SLOTS.iter().filter(is_holding);
    holding.fold(0, |all, slot| all | slot.caught.load(SeqCst))
}

/// The number of watchers of each signal, and the disposition to restore.
struct Dispositions {
    watchers: [u32; HIGHEST as usize + 1],
    previous: [Option<libc::sigaction>; HIGHEST as usize + 1],
}

static DISPOSITIONS: Mutex<Dispositions> =
    Mutex::new(Dispositions { watchers: [0; HIGHEST as usize + 1], previous: [const { None }; HIGHEST as usize + 1] });

fn dispositions() -> MutexGuard<'static, Dispositions> {
    DISPOSITIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dispositions {
    fn install(&mut self, number: c_int) {
        let index = number as usize;
        self.watchers[index] += 1;
        if self.watchers[index] > 1 {
            return;
        }
        // SAFETY: a zeroed sigaction is valid, and `on_signal` is async-signal-safe. If the call succeeds, the previous
        // action is written completely.
        self.previous[index] = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut previous = action;
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            (libc::sigaction(number, &action, &mut previous) == 0).then_some(previous)
        };
    }

    fn restore(&mut self, number: c_int) {
        let index = number as usize;
        self.watchers[index] -= 1;
        if self.watchers[index] == 0
            && let Some(previous) = self.previous[index].take()
        {
            // SAFETY: `previous` is the action that the system returned for this signal.
            unsafe { libc::sigaction(number, &previous, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_gets_signals_and_whether_the_system_sent_them() {
        let (interrupt, child) = (Set::of(libc::SIGINT), Set::of(libc::SIGCHLD));
        let wanted = interrupt.with(child);
        let mut signals = Signals::open(wanted, Purpose::Supervise).unwrap();
        // Without `Supervise`, a second signal would terminate a process that has not handled the first signal.
        interrupt.send().unwrap();
        interrupt.send().unwrap();
        let (caught, from_system) = signals.wait().unwrap();
        assert!(caught.has(libc::SIGINT) && !from_system.has(libc::SIGINT));
        std::process::Command::new("true").status().unwrap();
        let (mut caught, mut from_system) = signals.wait().unwrap();
        while !caught.has(libc::SIGCHLD) {
            (caught, from_system) = signals.wait().unwrap();
        }
        assert!(from_system.has(libc::SIGCHLD));
    }
}
