//! One process that runs the script. Two threads belong to it: one receives its messages, one waits for its end; it is
//! reaped by the supervisor alone, so that its id cannot become another's before a signal.

use super::event::Event;
use crate::cli::arguments::supervised;
use crate::file::reload::wire;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, retry_on_intr};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child as Process, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

/// A process that has listened goes on for so long before it takes the place of another.
const PROVEN: Duration = Duration::from_millis(50);

/// How far a process has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It loads, since then.
    Starting(Instant),
    /// It has listened, last at that time: it goes on if nothing else happens.
    Listening(Instant),
    /// It runs.
    Running,
    /// It was told to end, and is killed at that time.
    Ending(Instant),
}

/// One process.
pub(super) struct Child {
    /// The first has 1.
    pub(super) number: u32,
    pub(super) phase: Phase,
    /// Whether another one has its place.
    pub(super) replaced: bool,
    /// Whether it has listened.
    pub(super) listens: bool,
    process: Process,
    socket: UnixStream,
}

impl Child {
    /// Starts the executable at `program` with `arguments`; its messages and its end become events. Called by one thread
    /// only, which lives as long as the supervisor: the process ends with it, and no other process inherits the socket.
    pub(super) fn start(
        number: u32, program: &Path, arguments: &[OsString], events: &Sender<Event>,
    ) -> io::Result<Child> {
        let (socket, theirs) = UnixStream::pair()?;
        // Standard input, output and error are not passed by number, whatever the supervisor has closed.
        let theirs = fcntl_dupfd_cloexec(&theirs, 3)?;
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let mut command = Command::new(program);
        command.arg(supervised(theirs.as_raw_fd())).args(arguments);
        let process = command.spawn()?;
        drop(theirs);
        let reader = socket.try_clone()?;
        let id = Pid::from_child(&process);
        let (messages, ends) = (events.clone(), events.clone());
        thread::Builder::new().spawn(move || {
            while let Ok(Some(frame)) = wire::receive(&reader) {
                if messages.send(Event::Message(number, frame)).is_err() {
                    return;
                }
            }
        })?;
        thread::Builder::new().spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::Pid(id), options));
            let _ = ends.send(Event::Ended(number));
        })?;
        Ok(Child { number, phase: Phase::Starting(Instant::now()), replaced: false, listens: false, process, socket })
    }

    /// Answers a question.
    pub(super) fn answer(&self, kind: u8, descriptor: Option<BorrowedFd<'_>>) {
        // One that has died gets no answer.
        let _ = wire::send(&self.socket, kind, b"", descriptor);
    }

    /// Answers a question with yes or no.
    pub(super) fn confirm(&self, yes: bool) {
        self.answer(if yes { wire::YES } else { wire::NO }, None);
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) {
        // It has not been reaped, so the id is its own.
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }

    /// Asks it to end, and gives it that much time.
    pub(super) fn end(&mut self, time: Duration) {
        self.phase = Phase::Ending(Instant::now() + time);
        self.signal(Signal::TERM);
    }

    /// When something is to be decided about it; a process that does not listen counts as starting for `load_time`.
    pub(super) fn due(&self, load_time: Duration) -> Option<Instant> {
        match self.phase {
            Phase::Starting(since) => Some(since + load_time),
            Phase::Listening(since) => Some(since + PROVEN),
            Phase::Running => None,
            Phase::Ending(due) => Some(due),
        }
    }

    /// Whether it was told to end.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending(_))
    }

    /// How it ended.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }
}

/// An exit code for `status`, as shells have them.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(by_signal) as u8
}

/// `status` in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if code != 0 => format!("has ended with exit code {code}"),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "has ended".into(),
    }
}
