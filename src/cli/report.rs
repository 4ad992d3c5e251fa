//! What the executable writes by itself: lines to standard output and error.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Writes a line to standard output; a failure, such as a full disk, is the exit code.
pub(super) fn print(line: impl Display) -> ExitCode {
    let mut out = std::io::stdout();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
/// Writes a message to standard error, in one piece; a failure cannot be reported any more.
pub(super) fn report(message: impl Display) {
    let line = format!("lio: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
