//! The `lio` executable: a Lua interpreter with all modules built in.
//!
//! Options and exit codes follow the stock `lua` program. The exit code is 0 if the script ends without an error. If
//! the script calls `os.exit`, the argument determines the exit code. If the script fails, its error message and a
//! traceback are written to standard error, and the exit code is 1.
//!
//! | file | topic |
//! |---|---|
//! | `arguments` | parses the command line |
//! | `script` | runs the code in a VM |
//! | `search_paths` | where `require` searches |
//! | `report` | writes messages to standard output and standard error |
//! | `watch` | runs the script in a child process, and starts a new process when the script's files change |

mod arguments;
mod report;
mod script;
mod search_paths;
mod watch;

use crate::event::signals;
use crate::file::supervisor_link;
use arguments::{Command, RunMode, USAGE};
use report::{print, report};
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

/// The executable's `main`.
pub fn main() -> ExitCode {
    // Rust ignores SIGPIPE. With the default action, output to a closed pipe ends a script, as in the stock
    // interpreter.
    signals::restore_default(libc::SIGPIPE);
    let run = Command::parse(std::env::args_os()).and_then(run);
    run.unwrap_or_else(|message| {
        report(format_args!("{message}; see lio --help"));
        ExitCode::FAILURE
    })
}

/// Executes the command line. The error describes a mistake in the command line.
fn run(mut command: Command) -> Result<ExitCode, String> {
    if command.help {
        return Ok(print(USAGE));
    }
    if command.version {
        let lua = if cfg!(feature = "lua55") { "5.5" } else { "5.4" };
        let printed = print(format_args!("lio {} (Lua {lua})", env!("CARGO_PKG_VERSION")));
        if printed != ExitCode::SUCCESS {
            return Ok(printed);
        }
    }
    command.interactive |= command.has_no_code() && !command.version && std::io::stdin().is_terminal();
    if command.interactive && (command.watch || command.mode != RunMode::Script) {
        return Err("'-i' works only with a script and with '-e'".into());
    }
    if command.mode == RunMode::Service && command.named_script().is_none() {
        return Err("'--service' needs a script".into());
    }
    if command.watch {
        let name = command.program().ok_or("'--watch' needs a script")?;
        return Ok(watch::run(&command, name));
    }
    if command.has_no_code() && command.version {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((socket, supervisor)) = command.supervisor
        && let Err(error) = supervisor_link::join(socket, supervisor)
    {
        report(format_args!("cannot reach the supervisor: {error}"));
        return Ok(ExitCode::FAILURE);
    }
    if let Some(script) = command.named_script() {
        let hint = Command::subcommand_hint(script);
        if !hint.is_empty() && !Path::new(OsStr::from_bytes(script.to_bytes())).exists() {
            let name = script.to_string_lossy();
            return Err(format!("cannot open {name}: No such file or directory{hint}"));
        }
        supervisor_link::report_load(script.to_bytes());
    }
    Ok(script::run(command.into_script()))
}
