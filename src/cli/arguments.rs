//! What the command line asks for.
//!
//! Options follow the stock `lua` program. What stands behind the script, or behind a subcommand's name, is that one's
//! alone: nothing here reads it.

use super::script::{Piece, Script};
use rustix::process::Pid;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;

pub(super) const USAGE: &str = "\
usage: lio [options] [script [args]]
       lio serve DIR [options]
  script    run this Lua file; `arg` and `...` hold its arguments
  -         run standard input
  serve DIR serve a folder's files by HTTP; 'lio serve --help' tells the options
  -e CODE   run CODE, may be repeated; a script given as well runs after it
  --service run the script inside the scheduler, in a service that owns a loop
  --watch   run the script, and restart it when a file that it has loaded changes
  -v        show the versions
  -h        show this help
  --        stop handling options";

/// What the command line asks for.
#[derive(Default)]
pub(super) struct Command {
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) program: Program,
    pub(super) watch: bool,
    /// The socket to the supervisor that has started this process, and its process id.
    pub(super) supervisor: Option<(RawFd, Pid)>,
    chunks: Vec<Vec<u8>>,
    /// Where the script, or the name of a subcommand, stands among the arguments.
    script: Option<usize>,
    arguments: Vec<CString>,
}

/// What is made of the script.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Program {
    /// It is run as it is.
    #[default]
    Script,
    /// It runs in a service of the scheduler.
    Service,
    /// It is the subcommand `serve`, and no script at all.
    Serve,
}

/// How a supervisor starts a program: this option comes before all others, and no script sees it.
const SUPERVISED: &str = "--supervised=";

/// The option by which this process passes a program its end of a pair of sockets.
pub(super) fn supervised(socket: RawFd) -> OsString {
    format!("{SUPERVISED}{socket},{}", std::process::id()).into()
}

fn supervisor(option: &CStr) -> Option<(RawFd, Pid)> {
    let value = option.to_str().ok()?.strip_prefix(SUPERVISED)?;
    let (socket, process) = value.split_once(',')?;
    Some((socket.parse().ok()?, Pid::from_raw(process.parse().ok()?)?))
}

impl Command {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, String> {
        let mut command = Command::default();
        // The system hands over NUL-terminated strings, so there is none inside.
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
                b"--watch" => command.watch = true,
                b"--service" => command.program = Program::Service,
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
                    return Err(format!("unrecognized option '{shown}'"));
                }
                word => {
                    // A script of that name is run by `lio ./serve` or `lio -- serve`.
                    if word == b"serve" && command.program == Program::Script && !command.watch {
                        command.program = Program::Serve;
                    }
                    command.script = Some(index - 1);
                    break;
                }
            }
        }
        Ok(command)
    }

    /// Whether there is nothing to run but standard input.
    pub(super) fn is_idle(&self) -> bool {
        self.chunks.is_empty() && self.script.is_none()
    }

    /// The script, if there is one, and not standard input.
    pub(super) fn named_script(&self) -> Option<&CStr> {
        let name = self.arguments[self.script?].as_c_str();
        (name != c"-").then_some(name)
    }

    /// The arguments of a process that runs the script without `--watch`, which stands before it.
    pub(super) fn unwatched(&self) -> Vec<OsString> {
        let script = self.script.unwrap_or(usize::MAX);
        let arguments = self.arguments.iter().enumerate().skip(1);
        arguments
            .filter(|(index, text)| *index >= script || text.as_c_str() != c"--watch")
            .map(|(_, text)| OsString::from_vec(text.to_bytes().to_vec()))
            .collect()
    }

    /// What is to be run.
    pub(super) fn into_script(self) -> Script {
        let mut pieces: VecDeque<Piece> = self.chunks.into_iter().map(Piece::Text).collect();
        // The scheduler's first argument is the script itself.
        let own = usize::from(self.program != Program::Service);
        let first = self.script.map_or(self.arguments.len(), |index| index + own);
        match self.program {
            Program::Service => pieces.push_back(Piece::Embedded("lio.service.boot", first)),
            Program::Serve => pieces.push_back(Piece::Embedded("lio.serve", first)),
            Program::Script if self.script.is_some() || pieces.is_empty() => {
                let name = self.script.map(|index| self.arguments[index].clone());
                let name = name.filter(|name| name.as_c_str() != c"-");
                pieces.push_back(Piece::File(name, first));
            }
            Program::Script => {}
        }
        Script { position: self.script.unwrap_or(0), arguments: self.arguments, pieces, failed: false }
    }
}
