//! The `lio` executable: a Lua interpreter with everything built in.
//!
//! Options and exit codes follow the stock `lua` program: 0 when the script ends, 1 after an error, whose
//! message and traceback go to standard error, or what `os.exit` says.
//!
//! - `command.rs`: what the command line asks for
//! - `lio::cli::script`: runs it in a VM
//! - `watch`: runs it in a process of its own, again when its files change

#![deny(unsafe_code)]

mod command;
#[allow(unsafe_code)]
mod watch;

use command::{Command, Program, USAGE};
use lio::cli::script;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

#[allow(unsafe_code)]
fn main() -> ExitCode {
    // Rust ignores SIGPIPE; a script's output into a closed pipe ends it, as with any Lua.
    // SAFETY: sets a disposition before any thread is started.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let command = match Command::parse(std::env::args_os().collect()) {
        Ok(command) => command,
        Err(message) => {
            complain(format_args!("lio: {message}\n{USAGE}"));
            return ExitCode::FAILURE;
        }
    };
    if command.help {
        return say(format_args!("{USAGE}"));
    }
    if command.version {
        let version = env!("CARGO_PKG_VERSION");
        let said = say(format_args!("lio {version} ({})\n", lua_version()));
        if said != ExitCode::SUCCESS {
            return said;
        }
    }
    if command.program == Program::Service && !command.names_script() {
        complain(format_args!("lio: '--service' needs a script\n{USAGE}"));
        return ExitCode::FAILURE;
    }
    if command.watch {
        if !command.names_script() {
            complain(format_args!("lio: '--watch' needs a script\n{USAGE}"));
            return ExitCode::FAILURE;
        }
        return watch::run(&command);
    }
    let idle = command.chunks.is_empty() && command.script.is_none();
    if idle && command.version {
        return ExitCode::SUCCESS;
    }
    if idle && std::io::stdin().is_terminal() {
        complain(format_args!("lio: no script given\n{USAGE}"));
        return ExitCode::FAILURE;
    }
    // SAFETY: there are no other threads yet.
    unsafe { lio::watched::join() };
    if let Some(script) = command.script
        && command.names_script()
    {
        lio::watched::loads(command.arguments[script].as_bytes());
    }
    match script::run(command.into_script()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Writes to standard output; a failure, such as a full disk, is the exit code.
fn say(text: std::fmt::Arguments<'_>) -> ExitCode {
    let mut out = std::io::stdout();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes to standard error; there is nobody left to tell of a failure.
pub(crate) fn complain(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

fn lua_version() -> &'static str {
    match cfg!(feature = "lua55") {
        true => "Lua 5.5",
        false => "Lua 5.4",
    }
}
