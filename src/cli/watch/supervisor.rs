//! The supervisor. When a file changes, the supervisor starts a new process, which gets the listening sockets when it
//! requests them. After the new process has called `listen`, the supervisor asks the previous process to end, and that
//! process finishes its requests. A process that does not listen is ended before the next one starts.
//!
//! Invariant: at most one process is running, and at most one is starting. All other processes were asked to end.

use super::child::{self, Child, Phase};
use super::event::{Event, forward_signals};
use super::files::Files;
use super::sockets::Sockets;
use crate::cli::report::report;
use crate::file::supervisor_link::Fingerprint;
use crate::file::supervisor_link::wire::{self, Frame};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// The supervisor handles changes when no further change has occurred for `DEBOUNCE`, but no later than `MAX_DEBOUNCE`
/// after the first change.
const DEBOUNCE: Duration = Duration::from_millis(60);
const MAX_DEBOUNCE: Duration = Duration::from_millis(500);
/// A process that does not listen counts as loaded after this time, if no other process is running.
const LOAD_TIME: Duration = Duration::from_millis(300);
/// A process that does not listen takes over from a running process after this time.
const REPLACEMENT_LOAD_TIME: Duration = Duration::from_secs(10);
/// After the new process has taken over, sockets that it does not request within this time are closed.
const SOCKET_REQUEST_TIME: Duration = Duration::from_secs(2);
/// How long a new process may keep trying to bind an address that the previous process uses.
const BIND_RETRY_TIME: Duration = Duration::from_secs(5);
/// How long a process may take to end: while it finishes its requests (`DRAIN_TIME`), while the next process waits for
/// it (`SHORT_DRAIN_TIME`), and after a second SIGINT (`LAST_DRAIN_TIME`).
const DRAIN_TIME: Duration = Duration::from_secs(30);
const SHORT_DRAIN_TIME: Duration = Duration::from_secs(5);
const LAST_DRAIN_TIME: Duration = Duration::from_secs(1);
/// The interval of file checks if folders cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The state of `lio --watch`.
pub(super) struct Supervisor {
    program: PathBuf,
    arguments: Vec<OsString>,
    name: String,
    sender: Sender<Event>,
    events: Receiver<Event>,
    files: Files,
    sockets: Sockets,
    children: Vec<Child>,
    newest: u32,
    /// Whether the next process starts when the process that was asked to end has ended.
    start_pending: bool,
    /// The time of the first disk event that has not been handled yet, and the time at which the files will be checked.
    pending_check: Option<(Instant, Instant)>,
    /// The time at which unused sockets are closed.
    close_unused_at: Option<Instant>,
    /// The process that is retrying to bind an address that the previous process was using, and the time at which it
    /// must give up.
    bind_retry: Option<(u32, Instant)>,
    /// The number of files in the last report.
    reported_files: usize,
    had_terminal: bool,
    /// Whether a signal has asked the supervisor to end.
    ending: bool,
    /// The process whose exit code the supervisor returns at the end: the process that was running, not one that has
    /// just started.
    exit_code_of: u32,
    exit_code: u8,
}

impl Supervisor {
    /// Creates a supervisor that runs the executable with these arguments. `name` is used in messages.
    pub(super) fn new(arguments: Vec<OsString>, name: String) -> io::Result<Supervisor> {
        let (sender, events) = mpsc::channel();
        forward_signals(sender.clone())?;
        Ok(Supervisor {
            program: std::env::current_exe()?,
            arguments,
            name,
            files: Files::new(sender.clone()),
            sender,
            events,
            sockets: Sockets::default(),
            children: Vec::new(),
            newest: 0,
            start_pending: false,
            pending_check: None,
            close_unused_at: None,
            bind_retry: None,
            reported_files: 0,
            had_terminal: has_terminal(),
            ending: false,
            exit_code_of: 0,
            exit_code: 0,
        })
    }

    /// Runs until a signal has asked the supervisor to end and all processes have ended. Returns the exit code.
    pub(super) fn run(mut self) -> io::Result<u8> {
        self.start();
        while !(self.ending && self.children.is_empty()) {
            let event = match self.next_deadline() {
                None => self.events.recv().ok(),
                Some(due) => self.events.recv_timeout(due.saturating_duration_since(Instant::now())).ok(),
            };
            match event {
                Some(Event::Message(number, frame)) => self.handle_message(number, frame),
                Some(Event::Ended(number)) => self.handle_ended(number)?,
                Some(Event::Signal(signal, from_terminal)) => self.handle_signal(signal, from_terminal),
                Some(Event::Disk) => self.schedule_check(),
                None => {}
            }
            self.run_due_actions(Instant::now());
        }
        self.sockets.close_all();
        Ok(self.exit_code)
    }

    /// Starts the next process.
    fn start(&mut self) {
        self.start_pending = false;
        self.newest += 1;
        self.files.begin_process();
        match Child::start(self.newest, &self.program, &self.arguments, &self.sender) {
            Ok(child) => self.children.push(child),
            Err(error) => {
                report(format_args!("cannot start {}: {error}", self.name));
                self.files.process_failed();
            }
        }
    }

    /// Schedules a check of the files. A further change postpones the check, see [`DEBOUNCE`].
    fn schedule_check(&mut self) {
        let now = Instant::now();
        let first = self.pending_check.map_or(now, |(first, _)| first);
        self.pending_check = Some((first, (first + MAX_DEBOUNCE).min(now + DEBOUNCE)));
    }

    /// Returns the time of the next action that does not depend on an event.
    fn next_deadline(&self) -> Option<Instant> {
        let check = self.pending_check.map(|(_, due)| due);
        let polls = self.files.must_poll().then(|| Instant::now() + POLL_INTERVAL);
        let load_time = self.load_time();
        let phases = self.children.iter().map(|child| child.deadline(load_time));
        let all = [check, polls, self.close_unused_at].into_iter().chain(phases);
        all.flatten().min()
    }

    /// Returns how long a process that does not listen counts as starting.
    fn load_time(&self) -> Duration {
        let active = self.children.iter().filter(|child| !child.is_ending());
        if active.count() > 1 { REPLACEMENT_LOAD_TIME } else { LOAD_TIME }
    }

    /// Performs all actions that are due.
    fn run_due_actions(&mut self, now: Instant) {
        let is_due = |due: Instant| due <= now;
        let load_time = self.load_time();
        for index in 0..self.children.len() {
            let child = &mut self.children[index];
            if !child.deadline(load_time).is_some_and(is_due) {
                continue;
            }
            if child.is_ending() {
                report("a process did not end in time; killing it");
                child.signal(Signal::KILL);
                child.phase = Phase::Ending(now + DRAIN_TIME);
            } else {
                self.take_over(index);
            }
        }
        if self.close_unused_at.is_some_and(is_due) {
            self.close_unused_at = None;
            self.sockets.close_unused(self.newest);
        }
        let check = match self.pending_check {
            Some((_, due)) => is_due(due),
            None => self.files.must_poll() && !self.ending,
        };
        if check {
            self.pending_check = None;
            let changed = self.files.changed();
            if !changed.is_empty() && !self.ending {
                report(format_args!("{}, restarting", describe(&changed)));
                self.restart();
            }
        }
    }

    /// Makes the process at `index` the running one. If it is the newest process, asks the other processes to end.
    fn take_over(&mut self, index: usize) {
        let number = self.children[index].number;
        self.children[index].phase = Phase::Running;
        if number != self.newest {
            // The next process is already starting, and will replace this one.
            return;
        }
        // The previous process still has these sockets open, so it accepts the connections that are queued there.
        self.sockets.close_surplus(number);
        self.retire_others(number);
        self.close_unused_at = Some(Instant::now() + SOCKET_REQUEST_TIME);
        self.files.process_runs();
        let count = self.files.count();
        if count != self.reported_files {
            self.reported_files = count;
            let plural = if count == 1 { "" } else { "s" };
            report(format_args!("watching {count} file{plural}"));
        }
    }

    /// Asks all processes except `number` to end.
    fn retire_others(&mut self, number: u32) {
        for child in &mut self.children {
            if child.number != number && !child.is_ending() {
                child.replaced = true;
                child.end(DRAIN_TIME);
            }
        }
    }

    /// Starts a process with the changed files. If the current process does not listen, asks it to end; the new process
    /// then starts after the current one has ended.
    fn restart(&mut self) {
        if self.start_pending {
            return;
        }
        // The next process may fail, and then the sockets still belong to the current one.
        self.close_unused_at = None;
        let mut active = self.children.iter_mut().filter(|child| !child.is_ending());
        let listens = active.next().map(|old| {
            if !old.listens {
                old.end(SHORT_DRAIN_TIME);
            }
            old.listens
        });
        // If another process is running, a process that is still starting is no longer needed.
        for failed in active {
            failed.end(SHORT_DRAIN_TIME);
            self.sockets.return_to_previous(failed.number);
        }
        match listens {
            Some(false) => self.start_pending = true,
            _ => self.start(),
        }
    }

    fn child(&mut self, number: u32) -> Option<&mut Child> {
        self.children.iter_mut().find(|child| child.number == number)
    }

    /// Called when a process has started to listen.
    fn mark_listening(&mut self, number: u32) {
        let newest = number == self.newest;
        let Some(child) = self.child(number) else { return };
        child.listens = true;
        match child.phase {
            Phase::Ending(_) => {}
            // An older process stays in its phase. If the newest process loads slowly, it counts as running before it
            // listens. Since then, it has loaded more files, so it takes over again.
            Phase::Running if !newest => {}
            _ => child.phase = Phase::Listening(Instant::now()),
        }
    }

    fn handle_message(&mut self, number: u32, frame: Frame) {
        match frame.kind {
            wire::FILE_LOAD if number == self.newest => {
                if let Some((fingerprint, path)) = Fingerprint::decode(&frame.text) {
                    let path = PathBuf::from(OsStr::from_bytes(path));
                    self.files.add(path, fingerprint);
                    // The file may have changed before its folder was watched.
                    self.schedule_check();
                }
            }
            wire::SOCKET_REQUEST => self.handle_socket_request(number, &frame.text),
            wire::NEW_SOCKET => {
                if let Some(socket) = frame.descriptor {
                    self.sockets.add(number, frame.text, socket);
                    self.mark_listening(number);
                }
            }
            wire::CLOSED_SOCKET => self.handle_closed(number, &frame.text),
            wire::ADDRESS_IN_USE => self.handle_address_in_use(number, &frame.text),
            wire::IS_REPLACED => {
                if let Some(child) = self.child(number) {
                    child.reply_yes_or_no(child.replaced);
                }
            }
            _ => {}
        }
    }

    /// Answers a process that requests a socket of an earlier process.
    fn handle_socket_request(&mut self, number: u32, key: &[u8]) {
        let mut children = self.children.iter();
        let Some(child) = children.find(|child| child.number == number) else { return };
        let wanted = number == self.newest && !child.is_ending();
        match wanted.then(|| self.sockets.take(number, key)).flatten() {
            Some(socket) => {
                child.reply(wire::REQUESTED_SOCKET, Some(socket));
                self.mark_listening(number);
            }
            None => child.reply_yes_or_no(false),
        }
    }

    /// Called when a process has closed a socket. If the process continues, it no longer needs the socket. If the
    /// process is ending, the next one may take over the socket.
    fn handle_closed(&mut self, number: u32, key: &[u8]) {
        let mut active = self.children.iter().filter(|child| !child.is_ending());
        let only = active.next().is_none_or(|child| child.number == number);
        let forget = only && active.next().is_none();
        let ends = self.child(number).is_none_or(|child| child.is_ending());
        self.sockets.closed(number, key, self.ending || forget && !ends);
    }

    /// Called when a new process cannot bind an address. If the previous process uses the address, the previous process
    /// must end first.
    fn handle_address_in_use(&mut self, number: u32, key: &[u8]) {
        let now = Instant::now();
        if number == self.newest && self.sockets.is_address_blocked(number, key) {
            self.sockets.close_blocking(number, key);
            self.retire_others(number);
            self.bind_retry = Some((number, now + BIND_RETRY_TIME));
        }
        let retry = self.bind_retry.filter(|(process, _)| *process == number);
        let again = retry.is_some_and(|(_, due)| now < due);
        if let Some(child) = self.child(number) {
            child.reply_yes_or_no(again);
        }
    }

    /// Called when a process has ended.
    fn handle_ended(&mut self, number: u32) -> io::Result<()> {
        let mut ended = self.children.extract_if(.., |child| child.number == number);
        let Some(mut child) = ended.next() else { return Ok(()) };
        drop(ended);
        let status = child.process.wait()?;
        if self.ending {
            if number == self.exit_code_of {
                self.exit_code = child::exit_code(status);
            }
        } else if !child.is_ending() {
            self.handle_failed(&child, status);
        } else if self.start_pending && !self.children.iter().any(|child| !child.replaced) {
            self.start();
        }
        Ok(())
    }

    /// Called when a process that was not asked to end has ended.
    fn handle_failed(&mut self, child: &Child, status: ExitStatus) {
        let what = child::describe(status);
        if child.number != self.newest {
            return report(format_args!("the previous {} {what}", self.name));
        }
        self.exit_code = child::exit_code(status);
        self.files.process_failed();
        self.reported_files = 0;
        if self.children.iter().any(|other| !other.is_ending()) {
            self.sockets.return_to_previous(child.number);
            report(format_args!("{} {what}; the previous process continues", self.name));
        } else {
            report(format_args!("{} {what}; waiting for a change", self.name));
        }
    }

    /// Handles a signal. SIGHUP restarts the script. Every other signal, and SIGHUP after the controlling terminal was
    /// closed, ends the script.
    fn handle_signal(&mut self, signal: Signal, from_terminal: bool) {
        if signal == Signal::HUP && (!self.had_terminal || has_terminal()) {
            if !self.ending {
                report("SIGHUP, restarting");
                self.restart();
            }
            return;
        }
        let now = Instant::now();
        // Only SIGINT, which a person sends, shortens the time. Other senders may repeat SIGTERM while requests are
        // being finished.
        let again = self.ending && signal == Signal::INT;
        if !std::mem::replace(&mut self.ending, true) {
            let mut children = self.children.iter();
            let running = children.find(|child| matches!(child.phase, Phase::Running));
            self.exit_code_of = running.map_or(self.newest, |child| child.number);
        }
        self.start_pending = false;
        for child in &mut self.children {
            if child.is_ending() && !again {
                continue;
            }
            if !from_terminal {
                child.signal(signal);
            }
            let due = now + if again { LAST_DRAIN_TIME } else { DRAIN_TIME };
            child.phase = match child.phase {
                // A further SIGINT must not postpone the end.
                Phase::Ending(earlier) => Phase::Ending(due.min(earlier)),
                _ => Phase::Ending(due),
            };
        }
    }
}

/// Whether the process has a controlling terminal. If it had a terminal before and has none now, the terminal was
/// closed.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Lists the changed files for a message.
fn describe(changed: &[PathBuf]) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let short = |path: &PathBuf| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    match changed {
        [] => String::new(),
        [one] => format!("{} changed", short(one)),
        [one, other] => format!("{} and {} changed", short(one), short(other)),
        [one, rest @ ..] => format!("{} and {} others changed", short(one), rest.len()),
    }
}
