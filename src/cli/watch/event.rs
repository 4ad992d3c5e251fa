//! What the supervisor reacts to; signals to it become such events.

use crate::event::signals::{Purpose, Set, Signals};
use crate::file::reload::wire::Frame;
use rustix::process::Signal;
use std::io::{self, IsTerminal};
use std::sync::mpsc::Sender;
use std::thread;

/// What the supervisor reacts to.
pub(super) enum Event {
    /// A message of a process.
    Message(u32, Frame),
    /// A process has ended, and is to be reaped.
    Ended(u32),
    /// A signal; whether the processes have got it as well, from the terminal.
    Signal(Signal, bool),
    /// Something happened in a folder with watched files.
    Disk,
}

/// Starts the thread that sends signals as events.
pub(super) fn forward_signals(events: Sender<Event>) -> io::Result<()> {
    let wanted = [Signal::HUP, Signal::INT, Signal::TERM].map(Signal::as_raw);
    let wanted = wanted.into_iter().map(Set::of).fold(Set::default(), Set::with);
    let mut signals = Signals::open(wanted, Purpose::Supervise)?;
    let forward = move || {
        while let Ok((caught, from_system)) = signals.wait() {
            for signal in caught.signals() {
                let from_terminal = match cfg!(target_os = "linux") {
                    true => from_system.has(signal.as_raw()),
                    // Other systems do not tell; Ctrl-C is the common case at a terminal.
                    false => signal == Signal::INT && io::stdin().is_terminal(),
                };
                if events.send(Event::Signal(signal, from_terminal)).is_err() {
                    return;
                }
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(forward)?;
    Ok(())
}
