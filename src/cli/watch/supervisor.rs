//! What to do when. A change starts a new process, which gets the listening sockets as it asks for them; when
//! it has listened, the one before is asked to end, and serves what it has begun. A process that does not
//! listen ends before the next one starts.
//!
//! Invariant: at most one process runs and one starts; all others were told to end.

use super::child::{self, Child, Phase};
use super::event::{Event, forward_signals};
use super::files::Files;
use super::sockets::Sockets;
use crate::cli::report::report;
use crate::file::reload::Fingerprint;
use crate::file::reload::wire::{self, Frame};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// A change is acted upon when nothing has happened for so long, or at the latest after that.
const QUIET: Duration = Duration::from_millis(60);
const PATIENCE: Duration = Duration::from_millis(500);
/// One that does not listen has loaded by then, if nobody waits for it.
const LOADED: Duration = Duration::from_millis(300);
/// A process that does not listen takes the place of one that does after so long.
const SILENT: Duration = Duration::from_secs(10);
/// Sockets that the new process has not asked for by then are closed.
const UNUSED: Duration = Duration::from_secs(2);
/// How long a new process may try to bind an address that the one before has.
const LEAVING: Duration = Duration::from_secs(5);
/// The time to end: for one that serves what it has begun, for one that the next waits for, and after a
/// second signal.
const DRAIN: Duration = Duration::from_secs(30);
const BRIEF: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);
/// How often files are looked at when folders cannot be watched.
const POLL: Duration = Duration::from_secs(1);

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
    /// The next process starts when the one that was told to end has ended.
    waits: bool,
    /// When something happened on the disk first that was not looked at, and when it will be.
    disturbed: Option<(Instant, Instant)>,
    /// When sockets without a user are closed.
    tidy: Option<Instant>,
    /// Which process wants an address that the one before has, and until when it may try.
    leaving: Option<(u32, Instant)>,
    /// How many files were last reported.
    reported: usize,
    had_terminal: bool,
    /// A signal has come to end it all.
    ending: bool,
    /// Whose exit code counts then: the process that ran, and not one that has just begun to take its place.
    decides: u32,
    code: u8,
}

impl Supervisor {
    /// A supervisor of the executable with these arguments; `name` is for messages.
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
            waits: false,
            disturbed: None,
            tidy: None,
            leaving: None,
            reported: 0,
            had_terminal: has_terminal(),
            ending: false,
            decides: 0,
            code: 0,
        })
    }

    /// Runs until a signal has ended it and all processes are gone. The exit code.
    pub(super) fn run(mut self) -> io::Result<u8> {
        self.start();
        while !(self.ending && self.children.is_empty()) {
            let event = match self.next_deadline() {
                None => self.events.recv().ok(),
                Some(due) => self.events.recv_timeout(due.saturating_duration_since(Instant::now())).ok(),
            };
            match event {
                Some(Event::Message(number, frame)) => self.message(number, frame),
                Some(Event::Ended(number)) => self.ended(number)?,
                Some(Event::Signal(signal, from_terminal)) => self.signal(signal, from_terminal),
                Some(Event::Disk) => self.disturb(),
                None => {}
            }
            self.act(Instant::now());
        }
        self.sockets.close_all();
        Ok(self.code)
    }

    fn start(&mut self) {
        self.waits = false;
        self.newest += 1;
        self.files.begin();
        match Child::start(self.newest, &self.program, &self.arguments, &self.sender) {
            Ok(child) => self.children.push(child),
            Err(error) => {
                report(format_args!("cannot start {}: {error}", self.name));
                self.files.fail();
            }
        }
    }

    fn disturb(&mut self) {
        let now = Instant::now();
        let first = self.disturbed.map_or(now, |(first, _)| first);
        self.disturbed = Some((first, (first + PATIENCE).min(now + QUIET)));
    }

    /// When there is something to do although nothing happens.
    fn next_deadline(&self) -> Option<Instant> {
        let looks = self.disturbed.map(|(_, due)| due);
        let polls = self.files.must_poll().then(|| Instant::now() + POLL);
        let load_time = self.load_time();
        let phases = self.children.iter().map(|child| child.due(load_time));
        let all = [looks, polls, self.tidy].into_iter().chain(phases);
        all.flatten().min()
    }

    /// How long a process that does not listen counts as starting.
    fn load_time(&self) -> Duration {
        let active = self.children.iter().filter(|child| !child.is_ending());
        if active.count() > 1 { SILENT } else { LOADED }
    }

    /// Does what is due.
    fn act(&mut self, now: Instant) {
        let is_due = |due: Instant| due <= now;
        let load_time = self.load_time();
        for index in 0..self.children.len() {
            let child = &mut self.children[index];
            if !child.due(load_time).is_some_and(is_due) {
                continue;
            }
            if child.is_ending() {
                report("a process does not end, killing it");
                child.signal(Signal::KILL);
                child.phase = Phase::Ending(now + DRAIN);
            } else {
                self.take_over(index);
            }
        }
        if self.tidy.is_some_and(is_due) {
            self.tidy = None;
            self.sockets.close_unused(self.newest);
        }
        let looks = match self.disturbed {
            Some((_, due)) => is_due(due),
            None => self.files.must_poll() && !self.ending,
        };
        if looks {
            self.disturbed = None;
            let changed = self.files.changed();
            if !changed.is_empty() && !self.ending {
                report(format_args!("{}, restarting", describe(&changed)));
                self.restart();
            }
        }
    }

    /// A process runs: those before it are asked to end.
    fn take_over(&mut self, index: usize) {
        let number = self.children[index].number;
        self.children[index].phase = Phase::Running;
        if number != self.newest {
            // The next one starts already, and is what decides.
            return;
        }
        // While the one before still has them open, so that it answers who waits there.
        self.sockets.close_surplus(number);
        self.retire_others(number);
        self.tidy = Some(Instant::now() + UNUSED);
        self.files.settle();
        let count = self.files.count();
        if count != self.reported {
            self.reported = count;
            let plural = if count == 1 { "" } else { "s" };
            report(format_args!("watching {count} file{plural}"));
        }
    }

    fn retire_others(&mut self, number: u32) {
        for child in &mut self.children {
            if child.number != number && !child.is_ending() {
                child.replaced = true;
                child.end(DRAIN);
            }
        }
    }

    fn restart(&mut self) {
        if self.waits {
            return;
        }
        let mut active = self.children.iter_mut().filter(|child| !child.is_ending());
        let listens = active.next().map(|old| {
            if !old.listens {
                old.end(BRIEF);
            }
            old.listens
        });
        // One that starts while another runs is not needed any more.
        for failed in active {
            failed.end(BRIEF);
            self.sockets.give_back(failed.number);
        }
        match listens {
            Some(false) => self.waits = true,
            _ => self.start(),
        }
    }

    fn child(&mut self, number: u32) -> Option<&mut Child> {
        self.children.iter_mut().find(|child| child.number == number)
    }

    fn listens(&mut self, number: u32) {
        let newest = number == self.newest;
        let Some(child) = self.child(number) else {
            return;
        };
        child.listens = true;
        match child.phase {
            Phase::Ending(_) => {}
            // Of an older one no more is to be decided; one that loads slowly counts as running before it listens, and
            // has loaded more files by now.
            Phase::Running if !newest => {}
            _ => child.phase = Phase::Listening(Instant::now()),
        }
    }

    fn message(&mut self, number: u32, frame: Frame) {
        match frame.kind {
            wire::LOADS if number == self.newest => {
                if let Some((fingerprint, path)) = Fingerprint::decode(&frame.text) {
                    let path = PathBuf::from(OsStr::from_bytes(path));
                    self.files.add(path, fingerprint);
                    // It may have changed before its folder was watched.
                    self.disturb();
                }
            }
            wire::WANTS => self.wants(number, &frame.text),
            wire::MADE => {
                if let Some(socket) = frame.descriptor {
                    self.sockets.add(number, frame.text, socket);
                    self.listens(number);
                }
            }
            wire::CLOSED => self.closed(number, &frame.text),
            wire::TAKEN => self.taken(number, &frame.text),
            wire::REPLACED => {
                if let Some(child) = self.child(number) {
                    child.confirm(child.replaced);
                }
            }
            _ => {}
        }
    }

    fn wants(&mut self, number: u32, key: &[u8]) {
        let mut children = self.children.iter();
        let Some(child) = children.find(|child| child.number == number) else {
            return;
        };
        let wanted = number == self.newest && !child.is_ending();
        match wanted.then(|| self.sockets.take(number, key)).flatten() {
            Some(socket) => {
                child.answer(wire::HERE, Some(socket));
                self.listens(number);
            }
            None => child.confirm(false),
        }
    }

    /// A process closes a socket: one that stays does not want it any more, one that ends has to.
    fn closed(&mut self, number: u32, key: &[u8]) {
        let mut active = self.children.iter().filter(|child| !child.is_ending());
        let only = active.next().is_none_or(|child| child.number == number);
        let forget = only && active.next().is_none();
        let ends = self.child(number).is_none_or(|child| child.is_ending());
        self.sockets.closed(number, key, self.ending || forget && !ends);
    }

    /// A new process cannot bind an address. When the one before is what stands in the way, it has to go first.
    fn taken(&mut self, number: u32, key: &[u8]) {
        let now = Instant::now();
        if number == self.newest && self.sockets.stand_in_the_way(number, key) {
            self.sockets.make_way(number, key);
            self.retire_others(number);
            self.leaving = Some((number, now + LEAVING));
        }
        let leaving = self.leaving.filter(|(wants, _)| *wants == number);
        let again = leaving.is_some_and(|(_, due)| now < due);
        if let Some(child) = self.child(number) {
            child.confirm(again);
        }
    }

    fn ended(&mut self, number: u32) -> io::Result<()> {
        let mut ended = self.children.extract_if(.., |child| child.number == number);
        let Some(mut child) = ended.next() else {
            return Ok(());
        };
        drop(ended);
        let status = child.reap()?;
        if self.ending {
            if number == self.decides {
                self.code = child::exit_code(status);
            }
        } else if !child.is_ending() {
            self.failed(&child, status);
        } else if self.waits && !self.children.iter().any(|child| !child.replaced) {
            self.start();
        }
        Ok(())
    }

    /// A process has ended by itself.
    fn failed(&mut self, child: &Child, status: ExitStatus) {
        let what = child::describe(status);
        if child.number != self.newest {
            return report(format_args!("the {} before {what}", self.name));
        }
        self.code = child::exit_code(status);
        self.files.fail();
        self.reported = 0;
        if self.children.iter().any(|other| !other.is_ending()) {
            self.sockets.give_back(child.number);
            report(format_args!("{} {what}; the one before goes on", self.name));
        } else {
            report(format_args!("{} {what}; waiting for a change", self.name));
        }
    }

    fn signal(&mut self, signal: Signal, from_terminal: bool) {
        if signal == Signal::HUP && (!self.had_terminal || has_terminal()) {
            if !self.ending {
                report("SIGHUP, restarting");
                self.restart();
            }
            return;
        }
        let now = Instant::now();
        // A person's second signal; others may repeat SIGTERM while what was begun is served.
        let again = self.ending && signal == Signal::INT;
        if !std::mem::replace(&mut self.ending, true) {
            let mut children = self.children.iter();
            let running = children.find(|child| matches!(child.phase, Phase::Running));
            self.decides = running.map_or(self.newest, |child| child.number);
        }
        self.waits = false;
        for child in &mut self.children {
            if child.is_ending() && !again {
                continue;
            }
            if !from_terminal {
                child.signal(signal);
            }
            child.phase = Phase::Ending(now + if again { SECOND } else { DRAIN });
        }
    }
}

/// Whether the process has a terminal that controls it. One that had and has none any more was hung up.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// The changed files for a message.
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
