//! `lio --watch`: a supervisor that runs the script in a child process, and starts a new process when a file that the
//! script has loaded changes.
//!
//! | file | topic |
//! |---|---|
//! | `supervisor` | when processes are started and ended |
//! | `event` | the events that the supervisor handles |
//! | `child` | a process that runs the script |
//! | `sockets` | the listening sockets, which outlive the processes |
//! | `files` | the loaded files, and which of them have changed |
//!
//! One thread makes all decisions. Each other thread only waits for one thing and sends an event. Invariant: after the
//! first `listen`, the supervisor keeps the sockets open, so that no connection is refused between two processes.

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

/// Runs the command under supervision until a signal ends it. `script` is the name of the command's script. Returns the
/// script's exit code.
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
