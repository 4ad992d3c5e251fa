//! `lio --watch`: a supervisor that runs the script in a process of its own and starts another one when a file changes
//! that it has loaded.
//!
//! - `supervisor.rs`: what to do when: the order of starts and ends; `event.rs`: what it reacts to
//! - `child.rs`: one process that runs the script
//! - `sockets.rs`: the listening sockets, which outlive the processes
//! - `files.rs`: the files, and which of them have changed
//!
//! One thread decides; others only wait for one thing each and send an event. Invariant: from the first `listen` on,
//! the supervisor has the sockets open, so that no connection is refused between two processes.

mod child;
mod event;
mod files;
mod sockets;
mod supervisor;

use super::arguments::Command;
use super::report::report;
use std::ffi::CStr;
use std::process::ExitCode;
use supervisor::Supervisor;

/// Runs the command, whose script has this name, under supervision until a signal ends that. The exit code is the
/// script's.
pub(super) fn run(command: &Command, script: &CStr) -> ExitCode {
    let name = script.to_string_lossy().into_owned();
    match Supervisor::new(command.unwatched(), name).and_then(Supervisor::run) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(format_args!("--watch: {error}"));
            ExitCode::FAILURE
        }
    }
}
