//! A process that runs the script. The supervisor has two threads for each process: one receives the messages of the
//! process, the other waits until the process ends. Only the supervisor's main thread reaps the process, so the process
//! ID cannot be reused before a signal is sent.

use super::event::Event;
use crate::cli::arguments::supervised;
use crate::file::supervisor_link::wire;
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

/// How long a process must keep running after its last call to `listen` before it takes over.
const TAKEOVER_DELAY: Duration = Duration::from_millis(50);

/// The phase of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The process has been loading since this time.
    Starting(Instant),
    /// The process has called `listen`, most recently at this time. It takes over after [`TAKEOVER_DELAY`].
    Listening(Instant),
    /// The process is running.
    Running,
    /// The process was asked to end, and is killed at this time.
    Ending(Instant),
}

/// A process that runs the script.
pub(super) struct Child {
    /// The number of the process. The first process has the number 1.
    pub(super) number: u32,
    pub(super) phase: Phase,
    /// Whether another process has taken over.
    pub(super) replaced: bool,
    /// Whether the process has called `listen`.
    pub(super) listens: bool,
    pub(super) process: Process,
    socket: UnixStream,
}

impl Child {
    /// Starts the executable at `program` with `arguments`. Sends an event for each message of the process, and when
    /// the process ends. Only one thread may call this function, so that no other process inherits the socket. This
    /// thread must run as long as the supervisor, because the process ends when the thread ends.
    pub(super) fn start(
        number: u32, program: &Path, arguments: &[OsString], events: &Sender<Event>,
    ) -> io::Result<Child> {
        let (socket, child_end) = UnixStream::pair()?;
        // Descriptors 0 to 2 belong to the standard streams, even if the supervisor has closed them.
        let child_end = fcntl_dupfd_cloexec(&child_end, 3)?;
        fcntl_setfd(&child_end, FdFlags::empty())?;
        let mut command = Command::new(program);
        command.arg(supervised(child_end.as_raw_fd())).args(arguments);
        let process = command.spawn()?;
        drop(child_end);
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

    /// Sends an answer to a question of the process.
    pub(super) fn reply(&self, kind: u8, descriptor: Option<BorrowedFd<'_>>) {
        // A process that has died gets no answer.
        let _ = wire::send(&self.socket, kind, b"", descriptor);
    }

    /// Answers a question with yes or no.
    pub(super) fn reply_yes_or_no(&self, yes: bool) {
        self.reply(if yes { wire::YES } else { wire::NO }, None);
    }

    /// Sends a signal to the process.
    pub(super) fn signal(&self, signal: Signal) {
        // The process has not been reaped, so its ID cannot have been reused.
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }

    /// Asks the process to end, and sets the time until it is killed.
    pub(super) fn end(&mut self, time: Duration) {
        self.phase = Phase::Ending(Instant::now() + time);
        self.signal(Signal::TERM);
    }

    /// Returns the time at which the process must take over or be killed; `None` if it is running. A process that does
    /// not listen counts as starting for `load_time`.
    pub(super) fn deadline(&self, load_time: Duration) -> Option<Instant> {
        match self.phase {
            Phase::Starting(since) => Some(since + load_time),
            Phase::Listening(since) => Some(since + TAKEOVER_DELAY),
            Phase::Running => None,
            Phase::Ending(due) => Some(due),
        }
    }

    /// Whether the process was asked to end.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending(_))
    }
}

/// Converts `status` to an exit code, as shells do.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(by_signal) as u8
}

/// Describes `status` in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if code != 0 => format!("has ended with exit code {code}"),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "has ended".into(),
    }
}
