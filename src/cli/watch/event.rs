//! The events that the supervisor handles, and the thread that converts received signals to events.

use crate::event::signals::{Purpose, Set, Signals};
use crate::file::supervisor_link::wire::Frame;
use rustix::process::Signal;
use std::io::{self, IsTerminal};
use std::sync::mpsc::Sender;
use std::thread;

/// An event for the supervisor. The numbers identify child processes.
pub(super) enum Event {
    /// A process has sent a message.
    Message(u32, Frame),
    /// A process has ended and must be reaped.
    Ended(u32),
    /// A signal has arrived; the flag is true if the terminal has sent it to the child processes as well.
    Signal(Signal, bool),
    /// A folder with watched files has changed.
    Disk,
}

/// Starts the thread that sends an event for each received signal.
pub(super) fn forward_signals(events: Sender<Event>) -> io::Result<()> {
    let wanted = [Signal::HUP, Signal::INT, Signal::TERM].map(Signal::as_raw);
    let wanted = wanted.into_iter().map(Set::of).fold(Set::default(), Set::with);
    let mut signals = Signals::open(wanted, Purpose::Supervise)?;
    let forward = move || {
        while let Ok((caught, from_system)) = signals.wait() {
            for signal in caught.signals() {
                let from_terminal = match cfg!(target_os = "linux") {
                    true => from_system.has(signal.as_raw()),
                    // Other systems do not report the sender. Ctrl-C is the common case at a terminal.
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
