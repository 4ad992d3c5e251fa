//! What the command line asks for. Called by `main`.
//!
//! Options follow the stock `lua` program. What stands behind the script, or behind a
//! subcommand's name, is that one's alone: nothing here reads it.

use lio::cli::script::{Piece, Script};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;

pub(crate) const USAGE: &str = "\
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
  --        stop handling options
";

/// What the command line asks for.
#[derive(Default)]
pub(crate) struct Command {
    pub(crate) help: bool,
    pub(crate) version: bool,
    pub(crate) program: Program,
    pub(crate) watch: bool,
    pub(crate) chunks: Vec<Vec<u8>>,
    /// Where the script, or the name of a subcommand, stands among the arguments.
    pub(crate) script: Option<usize>,
    pub(crate) arguments: Vec<CString>,
}

/// What is made of the script.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Program {
    /// It is run as it is.
    #[default]
    Script,
    /// It runs in a service of the scheduler.
    Service,
    /// It is the subcommand `serve`, and no script at all.
    Serve,
}

impl Program {
    /// The embedded Lua file that runs in the place of the script.
    pub(crate) fn module(self) -> Option<&'static CStr> {
        match self {
            Program::Script => None,
            Program::Service => Some(c"lio.system"),
            Program::Serve => Some(c"lio.serve"),
        }
    }
}

impl Command {
    /// What is to be run.
    pub(crate) fn into_script(self) -> Script {
        let mut pieces: VecDeque<Piece> = self.chunks.into_iter().map(Piece::Text).collect();
        // The scheduler's first argument is the script itself.
        let own = usize::from(self.program != Program::Service);
        let first = self
            .script
            .map_or(self.arguments.len(), |index| index + own);
        let name = self.script.map(|index| self.arguments[index].clone());
        match self.program.module() {
            Some(module) => pieces.push_back(Piece::Embedded(module, first)),
            None if self.script.is_some() || pieces.is_empty() => {
                let name = name.filter(|name| name.as_c_str() != c"-");
                pieces.push_back(Piece::File(name, first));
            }
            None => {}
        }
        Script {
            position: self.script.unwrap_or(0),
            arguments: self.arguments,
            pieces,
        }
    }

    /// Whether there is a script, and not standard input.
    pub(crate) fn names_script(&self) -> bool {
        self.script
            .is_some_and(|index| self.arguments[index].as_c_str() != c"-")
    }

    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(raw: Vec<OsString>) -> Result<Command, String> {
        let mut command = Command::default();
        for argument in raw {
            let bytes = argument.into_vec();
            // The system hands over NUL-terminated strings, so there is none inside.
            command
                .arguments
                .push(CString::new(bytes).unwrap_or_default());
        }
        let count = command.arguments.len();
        let mut index = 1;
        while index < count {
            let argument = command.arguments[index].to_bytes().to_vec();
            index += 1;
            match argument.as_slice() {
                b"-h" | b"--help" => command.help = true,
                b"-v" | b"--version" => command.version = true,
                b"--watch" => command.watch = true,
                b"--service" => command.program = Program::Service,
                b"--" => {
                    command.script = (index < count).then_some(index);
                    return Ok(command);
                }
                b"-e" => {
                    let Some(code) = command.arguments.get(index) else {
                        return Err("'-e' needs an argument".into());
                    };
                    command.chunks.push(code.to_bytes().to_vec());
                    index += 1;
                }
                [b'-', b'e', code @ ..] => command.chunks.push(code.to_vec()),
                [b'-', _, ..] => {
                    let shown = String::from_utf8_lossy(&argument);
                    return Err(format!("unrecognized option '{shown}'"));
                }
                word => {
                    // A script of that name is run by `lio ./serve` or `lio -- serve`.
                    if word == b"serve" && command.program == Program::Script && !command.watch {
                        command.program = Program::Serve;
                    }
                    command.script = Some(index - 1);
                    return Ok(command);
                }
            }
        }
        Ok(command)
    }
}
