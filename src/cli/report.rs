//! Output of the executable itself: lines on standard output and standard error.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Writes a line to standard output. Returns `ExitCode::FAILURE` if it cannot be written, for example because the disk
/// is full.
pub(super) fn print(line: impl Display) -> ExitCode {
    let mut out = std::io::stdout();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes a message to standard error in one call. A failure is ignored, because it cannot be reported.
pub(super) fn report(message: impl Display) {
    let line = format!("lio: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
