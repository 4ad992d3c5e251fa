//! `lio --watch`: a supervisor that runs the script in a process of its own and starts another one when a
//! file changes that it has loaded. Called by `main`.
//!
//! - `supervisor.rs`: what to do when: the order of starts and ends
//! - `child.rs`: one process that runs the script
//! - `sockets.rs`: the listening sockets, which outlive the processes
//! - `files.rs`: the files, and which of them have changed
//! - `signals.rs`: signals to the supervisor
//!
//! One thread decides; others only wait for one thing each and send an [`Event`]. Invariant: from the first
//! `listen` on, the supervisor has the sockets open, so that no connection is refused between two processes.

mod child;
mod files;
mod signals;
mod sockets;
mod supervisor;

use crate::command::Command;
use crate::complain;
use lio::watched::wire::Frame;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// What the supervisor is told.
enum Event {
    /// A process says something.
    Said(u32, Frame),
    /// A process has ended, and is to be reaped.
    Ended(u32),
    /// A signal; whether the processes have got it as well, from the terminal.
    Signal(i32, bool),
    /// Something happened in a folder with watched files.
    Disk,
}

/// Runs the command under supervision until a signal ends that. The exit code is the script's.
pub(crate) fn run(command: &Command) -> ExitCode {
    let arguments = command.arguments.iter().enumerate().skip(1);
    // The script has everything but the option that brought us here, which stands before it.
    let script = command.script.unwrap_or(usize::MAX);
    let arguments = arguments
        .filter(|(index, text)| *index >= script || text.as_c_str() != c"--watch")
        .map(|(_, text)| OsString::from_vec(text.to_bytes().to_vec()))
        .collect();
    let name = command.arguments.get(script).map_or_else(
        || "the script".into(),
        |text| text.to_string_lossy().into_owned(),
    );
    match supervisor::Supervisor::new(arguments, name).and_then(supervisor::Supervisor::run) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(format_args!("lio: --watch: {error}\n"));
            ExitCode::FAILURE
        }
    }
}
