//! The `lio` executable: a Lua interpreter with everything built in.
//!
//! Options and exit codes follow the stock `lua` program: 0 when the script ends, 1 after an error, whose message and
//! traceback go to standard error, or what `os.exit` says.
//!
//! - `arguments.rs`: what the command line asks for
//! - `script.rs`: runs it in a VM
//! - `report.rs`: what is written to the terminal
//! - `watch/`: runs it in a process of its own, again when its files change

mod arguments;
mod report;
mod script;
mod watch;

use crate::event::signals;
use crate::file::reload;
use arguments::{Command, Program, USAGE};
use report::{print, report};
use std::io::IsTerminal;
use std::process::ExitCode;

/// The executable's `main`.
pub fn main() -> ExitCode {
    // Rust ignores SIGPIPE; a script's output into a closed pipe ends it, as with any Lua.
    signals::restore_default(libc::SIGPIPE);
    let run = Command::parse(std::env::args_os()).and_then(run);
    run.unwrap_or_else(|message| {
        report(format_args!("{message}\n{USAGE}"));
        ExitCode::FAILURE
    })
}

/// Does what the command line asks for. The error is a mistake in it.
fn run(command: Command) -> Result<ExitCode, String> {
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
    let script = command.named_script();
    if command.program == Program::Service && script.is_none() {
        return Err("'--service' needs a script".into());
    }
    if command.watch {
        let name = script.ok_or("'--watch' needs a script")?;
        return Ok(watch::run(&command, name));
    }
    if command.is_idle() && command.version {
        return Ok(ExitCode::SUCCESS);
    }
    if command.is_idle() && std::io::stdin().is_terminal() {
        return Err("no script given".into());
    }
    if let Some((socket, supervisor)) = command.supervisor
        && let Err(error) = reload::join(socket, supervisor)
    {
        report(format_args!("the supervisor is gone: {error}"));
        return Ok(ExitCode::FAILURE);
    }
    if let Some(script) = script {
        reload::report_load(script.to_bytes());
    }
    Ok(script::run(command.into_script()))
}
