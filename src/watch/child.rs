//! One process that runs the script. Two threads belong to it: one reads what it says, one waits for its
//! end; it is reaped by the supervisor alone, so that its id cannot become another's before a signal.

use super::{Event, signals};
use lio::watched::wire::{self, VARIABLE};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child as Process, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

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
    /// Starts the executable at `program` with `arguments`; what it says and its end become events.
    pub(super) fn start(
        number: u32,
        program: &Path,
        arguments: &[OsString],
        events: &Sender<Event>,
    ) -> io::Result<Child> {
        let (socket, theirs) = UnixStream::pair()?;
        let theirs = above_standard(theirs.into())?;
        let inherited = theirs.as_raw_fd();
        let supervisor = std::process::id();
        let mut command = Command::new(program);
        command.args(arguments).env(VARIABLE, inherited.to_string());
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                end_with_parent(supervisor)?;
                signals::unblock();
                match libc::fcntl(inherited, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        let process = command.spawn()?;
        drop(theirs);
        let reader = socket.try_clone()?;
        let id = Pid::from_child(&process);
        let (said, ended) = (events.clone(), events.clone());
        thread::Builder::new().spawn(move || {
            while let Ok(Some(frame)) = wire::receive(&reader) {
                if said.send(Event::Said(number, frame)).is_err() {
                    return;
                }
            }
        })?;
        thread::Builder::new().spawn(move || {
            wait(id);
            let _ = ended.send(Event::Ended(number));
        })?;
        Ok(Child {
            number,
            phase: Phase::Starting(Instant::now()),
            replaced: false,
            listens: false,
            process,
            socket,
        })
    }

    /// Answers a question.
    pub(super) fn answer(&self, kind: u8, descriptor: Option<BorrowedFd<'_>>) {
        // One that has died gets no answer.
        let _ = wire::send(&self.socket, kind, b"", descriptor);
    }

    /// Sends a signal.
    pub(super) fn signal(&self, number: i32) {
        // It has not been reaped, so the id is its own.
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process(Pid::from_child(&self.process), signal);
        }
    }

    /// Asks it to end, and gives it that much time.
    pub(super) fn end(&mut self, time: Duration) {
        self.phase = Phase::Ending(Instant::now() + time);
        self.signal(libc::SIGTERM);
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
    let number = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    number as u8
}

/// `status` in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "has ended".into(),
        (Some(code), _) => format!("has ended with exit code {code}"),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "has ended".into(),
    }
}

/// Standard input, output and error are not passed by number, whatever the supervisor has closed.
fn above_standard(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    // `try_clone` gives numbers from 3 on.
    match descriptor.as_raw_fd() {
        0..=2 => descriptor.try_clone(),
        _ => Ok(descriptor),
    }
}

/// In the new process: it ends with the supervisor, also when that is killed.
#[cfg(target_os = "linux")]
fn end_with_parent(supervisor: u32) -> io::Result<()> {
    // SAFETY: plain system calls.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
            return Err(io::Error::last_os_error());
        }
        // It may have died before.
        match libc::getppid() as u32 == supervisor {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_: u32) -> io::Result<()> {
    Ok(())
}

/// Waits until the process has ended, and leaves it to be reaped.
fn wait(id: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(id), options) {}
}
