//! Signals as readiness of a pipe, for loops that end gracefully and for the supervisor of `lio --watch`.
//!
//! The handler only sets atomic bits and writes one byte, all async-signal-safe (signal-safety(7)). The disposition that
//! the host had is put back when the last watcher of a signal closes, which is why this is not built on a crate that
//! keeps its handler.
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

const WATCHERS: usize = 64;

/// Signals are numbered from 1 to this.
const LAST: c_int = 64;

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

/// Signals whose repetition ends a program that does not react: those of a person at a terminal. A service manager may
/// repeat SIGTERM and SIGHUP while the program is merely busy.
const ENDS: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Some signals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Set(u64);

impl Set {
    /// One signal, by its number.
    pub(crate) const fn of(number: c_int) -> Set {
        Set(1 << (number - 1))
    }

    /// The signal of this name; `None` for one that cannot be watched.
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

    fn numbers(self) -> impl Iterator<Item = c_int> {
        (1..=LAST).filter(move |&number| self.has(number))
    }

    /// The signals.
    pub(crate) fn signals(self) -> impl Iterator<Item = Signal> {
        self.numbers().filter_map(Signal::from_named_raw)
    }

    /// Their names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let known = NAMES.iter().filter(move |(_, number)| self.has(*number));
        known.map(|(name, _)| *name)
    }

    /// Sends them to this process.
    pub(crate) fn send(self) -> io::Result<()> {
        Ok(self.signals().try_for_each(|signal| kill_process(getpid(), signal))?)
    }
}

/// What a watcher does with what is caught.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It takes the signals. One of [`ENDS`] that comes again before it has taken the first ends the process: it hangs.
    Take = 1,
    /// It takes the signals, and none ends the process.
    Supervise,
    /// It keeps them for the watchers that are opened before it goes.
    Hold,
}

/// What the handler sees of one watcher. `wanted` 0 = the place is free.
struct Place {
    wanted: AtomicU64,
    caught: AtomicU64,
    /// Which of the signals that were caught the system has sent, not a process.
    from_system: AtomicU64,
    /// The end of the pipe to write to; -1 = none.
    pipe: AtomicI32,
    purpose: AtomicU8,
}

static PLACES: [Place; WATCHERS] = [const {
    Place {
        wanted: AtomicU64::new(0),
        caught: AtomicU64::new(0),
        from_system: AtomicU64::new(0),
        pipe: AtomicI32::new(-1),
        purpose: AtomicU8::new(0),
    }
}; WATCHERS];

impl Place {
    fn is_for(&self, purpose: Purpose) -> bool {
        self.purpose.load(SeqCst) == purpose as u8
    }
}

/// Handlers that run at this moment, on any thread; a pipe is closed when there is none.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// How many watchers each signal has, and the disposition to put back.
struct Dispositions {
    watchers: [u32; LAST as usize + 1],
    previous: [Option<libc::sigaction>; LAST as usize + 1],
}

static DISPOSITIONS: Mutex<Dispositions> =
    Mutex::new(Dispositions { watchers: [0; LAST as usize + 1], previous: [const { None }; LAST as usize + 1] });

fn dispositions() -> MutexGuard<'static, Dispositions> {
    DISPOSITIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn on_signal(number: c_int, information: *mut libc::siginfo_t, _: *mut c_void) {
    RUNNING.fetch_add(1, SeqCst);
    let errno = errno::errno();
    // SAFETY: the system passes a handler that was set with `SA_SIGINFO` a pointer that holds until it returns.
    let from_system = unsafe { (*information).si_code } > 0;
    for place in &PLACES {
        if !Set(place.wanted.load(SeqCst)).has(number) {
            continue;
        }
        if from_system {
            place.from_system.fetch_or(Set::of(number).0, SeqCst);
        }
        let before = Set(place.caught.fetch_or(Set::of(number).0, SeqCst));
        if place.is_for(Purpose::Hold) {
            continue;
        }
        if before.has(number) && ENDS.contains(&number) && place.is_for(Purpose::Take) {
            // The loop has not even taken the first one: it hangs. Let the second one end it.
            restore_default(number);
            let _ = Set::of(number).send();
        }
        wake(place.pipe.load(SeqCst));
    }
    // The code that was interrupted finds its errno as it was.
    errno::set_errno(errno);
    RUNNING.fetch_sub(1, SeqCst);
}

/// Makes the other end of a pipe readable. A full one is already. The pipe is open: its watcher closes it when no handler
/// runs any more.
fn wake(pipe: RawFd) {
    let _ = adopt::borrowed(pipe, |pipe| rustix::io::write(pipe, b"!"));
}

/// Gives a signal its default action.
pub(crate) fn restore_default(number: c_int) {
    // SAFETY: no handler is set, and the call is async-signal-safe.
    unsafe { libc::signal(number, libc::SIG_DFL) };
}

/// One watcher: a set of signals, and the pipe that is readable when one of them came.
pub(crate) struct Signals {
    place: &'static Place,
    wanted: Set,
    reader: Receiver,
    _writer: Sender,
}

impl Signals {
    /// Watches the signals of a set that is not empty: their default action no longer runs.
    pub(crate) fn open(wanted: Set, purpose: Purpose) -> io::Result<Signals> {
        let (writer, reader) = mio::unix::pipe::new()?;
        let mut dispositions = dispositions();
        let free = PLACES.iter().find(|place| place.wanted.load(SeqCst) == 0);
        let place = free.ok_or(Errno::MFILE)?;
        place.pipe.store(writer.as_raw_fd(), SeqCst);
        place.caught.store(0, SeqCst);
        place.from_system.store(0, SeqCst);
        place.purpose.store(purpose as u8, SeqCst);
        place.wanted.store(wanted.0, SeqCst);
        for number in wanted.numbers() {
            dispositions.install(number);
        }
        let held = held() & wanted.0;
        if held != 0 && purpose != Purpose::Hold {
            place.caught.fetch_or(held, SeqCst);
            wake(writer.as_raw_fd());
        }
        Ok(Signals { place, wanted, reader, _writer: writer })
    }

    /// The descriptor that is readable when a signal came.
    pub(crate) fn number(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// The signals that came since the last call.
    pub(crate) fn take(&mut self) -> Set {
        let mut sink = [0u8; 64];
        while matches!(self.reader.read(&mut sink), Ok(count) if count > 0) {}
        Set(self.place.caught.swap(0, SeqCst))
    }

    /// Waits for signals. → those that came, and which of them the system has sent: a terminal, for instance, to all of
    /// its processes.
    pub(crate) fn wait(&mut self) -> io::Result<(Set, Set)> {
        let readable = PollFd::new(&self.reader, PollFlags::IN);
        retry_on_intr(|| poll(&mut [readable.clone()], None))?;
        let caught = self.take();
        let from_system = self.place.from_system.fetch_and(!caught.0, SeqCst);
        Ok((caught, Set(from_system & caught.0)))
    }
}

/// The signals that watchers hold.
fn held() -> u64 {
    let is_holding = |place: &&Place| place.is_for(Purpose::Hold) && place.wanted.load(SeqCst) != 0;
    let holding = PLACES.iter().filter(is_holding);
    holding.fold(0, |all, place| all | place.caught.load(SeqCst))
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut dispositions = dispositions();
        for number in self.wanted.numbers() {
            dispositions.restore(number);
        }
        self.place.pipe.store(-1, SeqCst);
        self.place.wanted.store(0, SeqCst);
        while RUNNING.load(SeqCst) != 0 {
            std::hint::spin_loop();
        }
    }
}

impl Dispositions {
    fn install(&mut self, number: c_int) {
        let index = number as usize;
        self.watchers[index] += 1;
        if self.watchers[index] > 1 {
            return;
        }
        // SAFETY: a zeroed sigaction is valid, and `on_signal` is async-signal-safe; what was set before is written whole
        // when the call succeeds.
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
            // SAFETY: the system gave it.
            unsafe { libc::sigaction(number, &previous, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_gets_signals_and_whether_the_system_has_sent_them() {
        let (interrupt, child) = (Set::of(libc::SIGINT), Set::of(libc::SIGCHLD));
        let wanted = interrupt.with(child);
        let mut signals = Signals::open(wanted, Purpose::Supervise).unwrap();
        // A second one would end a process that does not react to the first.
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
