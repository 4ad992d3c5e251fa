//! Parses the command line.
//!
//! The options follow those of the stock `lua` program. Arguments after the script, or after the name of a subcommand,
//! belong to the script or the subcommand; this file does not read them.

use super::script::{Piece, Script};
use crate::codec::suggestion;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;

pub(super) const USAGE: &str = "\
usage: lio [options] [script [args]]
       lio COMMAND [arguments]

  script      run this Lua file; `arg` and `...` hold its arguments
  -           run standard input
  (nothing)   on a terminal: a prompt on a running loop; otherwise run standard input

options:
  -e CODE     run CODE, may be repeated; the script, if any, runs afterwards
  -i          show the prompt after the script and CODE
  --service   run the script inside the scheduler, in a service that owns a loop
  --watch     run the script, and restart it when a file that it has loaded changes
  -v          show the versions
  -h          show this help
  --          stop handling options

commands ('lio COMMAND --help' shows the arguments):
  new app|service|game DIR   write a small project with a test
  test [DIR|FILE ...]        run the tests in the files *_test.lua
  check [DIR|FILE ...]       report syntax errors and undefined globals
  serve DIR                  serve a folder's files over HTTP or HTTPS
  cert [NAME ...]            write a certificate for development, and its key

environment:
  LUA_PATH, LUA_CPATH        where `require` searches, after the script's folder
  LIO_TRACEBACK=full         show the library's own lines in tracebacks";

/// The subcommands, and the built-in modules that run them.
const SUBCOMMANDS: &[(&str, &str)] =
    &[("cert", "lio.cert"), ("check", "lio.check"), ("new", "lio.new"), ("serve", "lio.serve"), ("test", TEST)];

/// The module of the only subcommand that `--watch` can run, and may follow.
const TEST: &str = "lio.test";

/// The long forms of the options, for suggestions.
const LONG_OPTIONS: &[&str] = &["--help", "--service", "--version", "--watch"];

/// A parsed command line.
#[derive(Default)]
pub(super) struct Command {
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) mode: RunMode,
    pub(super) watch: bool,
    /// Whether the prompt follows.
    pub(super) interactive: bool,
    /// The socket to the supervisor that has started this process, and the supervisor's process ID.
    pub(super) supervisor: Option<(RawFd, Pid)>,
    chunks: Vec<Vec<u8>>,
    /// The position of the script, or of a subcommand's name, among the arguments.
    script: Option<usize>,
    arguments: Vec<CString>,
}

/// How to run the script.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RunMode {
    /// In the program's own VM.
    #[default]
    Script,
    /// In a service of the scheduler.
    Service,
    /// A subcommand, which this built-in module runs.
    Subcommand(&'static str),
}

/// The option that a supervisor passes to the program that it starts. It precedes all other options and is hidden from
/// scripts.
const SUPERVISED: &str = "--supervised=";

/// Returns the option that this process passes to a program: it contains the program's end of a socket pair, and this
/// process's ID.
pub(super) fn supervised(socket: RawFd) -> OsString {
    format!("{SUPERVISED}{socket},{}", std::process::id()).into()
}

/// Parses the option that [`supervised`] returns; `None` for any other argument.
fn supervisor(option: &CStr) -> Option<(RawFd, Pid)> {
    let value = option.to_str().ok()?.strip_prefix(SUPERVISED)?;
    let (socket, process) = value.split_once(',')?;
    Some((socket.parse().ok()?, Pid::from_raw(process.parse().ok()?)?))
}

impl Command {
    /// Parses a command line, which begins with the program's name.
    ///
    /// # Errors
    /// Returns an error that describes the mistake in the command line.
    pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, String> {
        let mut command = Command::default();
        // The system passes NUL-terminated strings, so they contain no NUL.
        let texts = arguments.map(|text| CString::new(text.into_vec()).unwrap_or_default());
        command.arguments = texts.collect();
        command.supervisor = command.arguments.get(1).and_then(|first| supervisor(first));
        if command.supervisor.is_some() {
            command.arguments.remove(1);
        }
        let mut index = 1;
        while let Some(argument) = command.arguments.get(index) {
            let argument = argument.to_bytes();
            index += 1;
            match argument {
                b"-h" | b"--help" => command.help = true,
                b"-v" | b"--version" => command.version = true,
                b"-i" => command.interactive = true,
                b"--watch" => command.watch = true,
                b"--service" => command.mode = RunMode::Service,
                b"--" => {
                    command.script = (index < command.arguments.len()).then_some(index);
                    break;
                }
                b"-e" => {
                    let code = command.arguments.get(index);
                    let code = code.ok_or("'-e' needs an argument")?;
                    command.chunks.push(code.to_bytes().to_vec());
                    index += 1;
                }
                [b'-', b'e', code @ ..] => command.chunks.push(code.to_vec()),
                [b'-', _, ..] => {
                    let shown = String::from_utf8_lossy(argument);
                    let hint = suggestion::hint(&shown, LONG_OPTIONS);
                    return Err(format!("unknown option '{shown}'{hint}"));
                }
                word => {
                    // A script with the name of a subcommand can be run with `lio ./serve` or `lio -- serve`.
                    let known = SUBCOMMANDS.iter().find(|(name, _)| name.as_bytes() == word);
                    if let (Some((_, module)), RunMode::Script) = (known, command.mode)
                        && (!command.watch || *module == TEST)
                    {
                        command.mode = RunMode::Subcommand(module);
                        let mut rest = command.arguments[index..].iter();
                        command.watch |= *module == TEST && rest.any(|text| text.as_c_str() == c"--watch");
                    }
                    command.script = Some(index - 1);
                    break;
                }
            }
        }
        Ok(command)
    }

    /// Whether there is nothing to run except standard input.
    pub(super) fn has_no_code(&self) -> bool {
        self.chunks.is_empty() && self.script.is_none()
    }

    /// Returns the script, if there is one and it is not standard input.
    pub(super) fn named_script(&self) -> Option<&CStr> {
        self.program().filter(|_| !matches!(self.mode, RunMode::Subcommand(_)))
    }

    /// Returns the name of the script or of the subcommand; `None` for standard input.
    pub(super) fn program(&self) -> Option<&CStr> {
        let name = self.arguments[self.script?].as_c_str();
        (name != c"-").then_some(name)
    }

    /// Returns a hint for a script that does not exist: the subcommand that the user may have meant.
    pub(super) fn subcommand_hint(script: &CStr) -> String {
        let names: Vec<&str> = SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
        suggestion::hint(&script.to_string_lossy(), &names)
    }

    /// Returns the arguments for a process that runs the script: the arguments of this process, without `--watch`
    /// before the script. Of the arguments of `test`, no `--watch` remains.
    pub(super) fn unwatched(&self) -> Vec<OsString> {
        let script = self.script.unwrap_or(usize::MAX);
        let is_test = self.mode == RunMode::Subcommand(TEST);
        let arguments = self.arguments.iter().enumerate().skip(1);
        arguments
            .filter(|(index, text)| *index >= script && !is_test || text.as_c_str() != c"--watch")
            .map(|(_, text)| OsString::from_vec(text.to_bytes().to_vec()))
            .collect()
    }

    /// Converts the command line to the code to run.
    pub(super) fn into_script(self) -> Script {
        let file = self.named_script().map(CStr::to_owned);
        let mut pieces: VecDeque<Piece> = self.chunks.into_iter().map(Piece::Text).collect();
        // The scheduler gets the script itself as its first argument.
        let own = usize::from(self.mode != RunMode::Service);
        let first = self.script.map_or(self.arguments.len(), |index| index + own);
        match self.mode {
            RunMode::Service => pieces.push_back(Piece::Embedded("lio.service.boot", first)),
            RunMode::Subcommand(module) => pieces.push_back(Piece::Embedded(module, first)),
            RunMode::Script if self.script.is_some() || pieces.is_empty() && !self.interactive => {
                let name = self.script.map(|index| self.arguments[index].clone());
                let name = name.filter(|name| name.as_c_str() != c"-");
                pieces.push_back(Piece::File(name, first));
            }
            RunMode::Script => {}
        }
        if self.interactive {
            pieces.push_back(Piece::Embedded("lio.repl", self.arguments.len()));
        }
        Script { position: self.script.unwrap_or(0), arguments: self.arguments, pieces, file, failed: false }
    }
}
