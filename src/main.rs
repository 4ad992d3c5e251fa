//! The `lio` executable: a Lua interpreter with everything built in.
//!
//! Options and exit codes follow the stock `lua` program: 0 when the script ends, 1 after an error, whose
//! message and traceback go to standard error, or what `os.exit` says.

use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, CString, OsString};
use std::io::{IsTerminal, Write};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

const USAGE: &str = "\
usage: lio [options] [script [args]]
  script    run this Lua file; `arg` and `...` hold its arguments
  -         run standard input
  -e CODE   run CODE, may be repeated; a script given as well runs after it
  --service run the script inside the scheduler, in a service that owns a loop
  -v        show the versions
  -h        show this help
  --        stop handling options
";

/// What the command line asks for.
#[derive(Default)]
struct Command {
    help: bool,
    version: bool,
    service: bool,
    chunks: Vec<Vec<u8>>,
    /// Where the script stands among the arguments.
    script: Option<usize>,
    arguments: Vec<CString>,
}

impl Command {
    /// Whether there is a script, and not standard input.
    fn names_script(&self) -> bool {
        self.script
            .is_some_and(|index| self.arguments[index].as_c_str() != c"-")
    }

    fn parse(raw: Vec<OsString>) -> Result<Command, String> {
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
                b"--service" => command.service = true,
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
                _ => {
                    command.script = Some(index - 1);
                    return Ok(command);
                }
            }
        }
        Ok(command)
    }
}

fn main() -> ExitCode {
    // Rust ignores SIGPIPE; a script's output into a closed pipe ends it, as with any Lua.
    // SAFETY: sets a disposition before any thread is started.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut command = match Command::parse(std::env::args_os().collect()) {
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
    if command.service && !command.names_script() {
        complain(format_args!("lio: '--service' needs a script\n{USAGE}"));
        return ExitCode::FAILURE;
    }
    let idle = command.chunks.is_empty() && command.script.is_none();
    if idle && command.version {
        return ExitCode::SUCCESS;
    }
    if idle && std::io::stdin().is_terminal() {
        complain(format_args!("lio: no script given\n{USAGE}"));
        return ExitCode::FAILURE;
    }
    match run(&mut command) {
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
fn complain(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

fn lua_version() -> String {
    // SAFETY: a fresh state, used and closed here.
    unsafe {
        let state = ffi::luaL_newstate();
        if state.is_null() {
            return "Lua".into();
        }
        ffi::luaL_openlibs(state);
        ffi::lua_getglobal(state, c"_VERSION".as_ptr());
        let version = CStr::from_ptr(ffi::lua_tostring(state, -1))
            .to_string_lossy()
            .into_owned();
        ffi::lua_close(state);
        version
    }
}

/// Runs the command in a new VM; false after an error, which was reported.
fn run(command: &mut Command) -> bool {
    // SAFETY: everything that may raise runs inside `lua_pcall`; `command` outlives the state.
    unsafe {
        let state = ffi::luaL_newstate();
        if state.is_null() {
            complain(format_args!("lio: not enough memory for a Lua state\n"));
            return false;
        }
        ffi::lua_pushcfunction(state, protected);
        ffi::lua_pushlightuserdata(state, std::ptr::from_mut(command).cast());
        let status = ffi::lua_pcall(state, 1, 1, 0);
        if status != ffi::LUA_OK {
            report(state);
        }
        let done = status == ffi::LUA_OK && ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_close(state);
        done
    }
}

/// Opens the libraries, sets `arg`, runs chunks and script. Returns whether all went well.
unsafe extern "C-unwind" fn protected(state: *mut lua_State) -> c_int {
    // SAFETY: the argument is the `Command` of `run`; nothing here owns a value that needs `Drop`.
    unsafe {
        let command = &*ffi::lua_touserdata(state, 1).cast::<Command>();
        ffi::luaL_openlibs(state);
        lio::install(state);
        push_arguments(state, command);
        ffi::lua_setglobal(state, c"arg".as_ptr());
        let mut done = true;
        for chunk in &command.chunks {
            let name = c"=(command line)".as_ptr();
            let data = chunk.as_ptr().cast::<c_char>();
            let loaded = ffi::luaL_loadbufferx(state, data, chunk.len(), name, std::ptr::null());
            done = done && finish(state, loaded, 0);
        }
        let piped = command.script.is_none() && command.chunks.is_empty();
        if done && (piped || command.script.is_some()) {
            done = run_script(state, command);
        }
        ffi::lua_pushboolean(state, done.into());
        1
    }
}

unsafe fn run_script(state: *mut lua_State, command: &Command) -> bool {
    // SAFETY: as for `protected`.
    unsafe {
        let script = command
            .script
            .map(|index| command.arguments[index].as_c_str());
        let name = match script {
            Some(name) if name != c"-" => name.as_ptr(),
            _ => std::ptr::null(),
        };
        let loaded = match command.service {
            true => load_system(state),
            false => ffi::luaL_loadfilex(state, name, std::ptr::null()),
        };
        let first = command.script.map_or(command.arguments.len(), |index| {
            // The scheduler's first argument is the script itself.
            index + usize::from(!command.service)
        });
        let rest = &command.arguments[first..];
        if loaded != ffi::LUA_OK {
            return finish(state, loaded, 0);
        }
        ffi::luaL_checkstack(
            state,
            rest.len() as c_int + 8,
            c"too many arguments".as_ptr(),
        );
        for argument in rest {
            ffi::lua_pushstring(state, argument.as_ptr());
        }
        finish(state, loaded, rest.len() as c_int)
    }
}

/// Loads what boots the scheduler; called with the script and its arguments.
unsafe fn load_system(state: *mut lua_State) -> c_int {
    let chunk = c"require('ltask.core').chunk('lio.system')(...)";
    let name = c"=lio".as_ptr();
    // SAFETY: as for `protected`.
    unsafe {
        let length = chunk.count_bytes();
        ffi::luaL_loadbufferx(state, chunk.as_ptr(), length, name, std::ptr::null())
    }
}

/// Pushes `arg`: the script at 0, its arguments from 1, what stands before it at negative indices.
unsafe fn push_arguments(state: *mut lua_State, command: &Command) {
    // SAFETY: as for `protected`.
    unsafe {
        let script = command.script.unwrap_or(0) as i64;
        ffi::lua_createtable(state, command.arguments.len() as c_int, 1);
        for (index, argument) in command.arguments.iter().enumerate() {
            ffi::lua_pushstring(state, argument.as_ptr());
            ffi::lua_rawseti(state, -2, index as i64 - script);
        }
    }
}

/// Calls the chunk below its `arguments`, or reports why it did not load. True when all went well.
unsafe fn finish(state: *mut lua_State, loaded: c_int, arguments: c_int) -> bool {
    // SAFETY: as for `protected`.
    unsafe {
        if loaded != ffi::LUA_OK {
            report(state);
            return false;
        }
        let function = ffi::lua_gettop(state) - arguments;
        ffi::lua_pushcfunction(state, with_traceback);
        ffi::lua_insert(state, function);
        let status = ffi::lua_pcall(state, arguments, 0, function);
        if status != ffi::LUA_OK {
            report(state);
        }
        ffi::lua_settop(state, function - 1);
        status == ffi::LUA_OK
    }
}

/// Message handler: text gets a traceback, an object with `__tostring` speaks for itself.
unsafe extern "C-unwind" fn with_traceback(state: *mut lua_State) -> c_int {
    // SAFETY: as for `protected`.
    unsafe {
        let mut message = ffi::lua_tostring(state, 1);
        if message.is_null() {
            if ffi::luaL_callmeta(state, 1, c"__tostring".as_ptr()) != 0
                && ffi::lua_type(state, -1) == ffi::LUA_TSTRING
            {
                return 1;
            }
            let name = ffi::luaL_typename(state, 1);
            let format = c"(error object is a %s value)".as_ptr();
            message = ffi::lua_pushfstring(state, format, name);
        }
        ffi::luaL_traceback(state, state, message, 1);
        1
    }
}

/// Writes the message on top of the stack to standard error and pops it.
unsafe fn report(state: *mut lua_State) {
    // SAFETY: reads the string on top.
    unsafe {
        let mut length = 0;
        let message = ffi::lua_tolstring(state, -1, &mut length);
        let text = match message.is_null() {
            true => "(error object is not a string)".into(),
            false => {
                let bytes = std::slice::from_raw_parts(message.cast::<u8>(), length);
                String::from_utf8_lossy(bytes)
            }
        };
        complain(format_args!("lio: {text}\n"));
        drop(text);
        ffi::lua_pop(state, 1);
    }
}
