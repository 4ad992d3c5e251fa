//! Runs Lua code in its own VM, for the executable.
//!
//! Errors in Lua are reported on standard error, with a traceback.

use super::report::report;
use super::search_paths;
use super::service_hint::service_hint;
use crate::lua::library::embedded;
use crate::lua::{
    Argument, Call, Chunk, Either, Fault, Function, Kind, Many, Maybe, Next, Outcome, Pushing, Register, RegistryName,
    Traceback, Vm, then,
};
use crate::modules::PROGRAM;
use crate::modules::traceback::shorten;
use std::collections::VecDeque;
use std::ffi::CString;
use std::process::ExitCode;

/// The code to run: the pieces run one after the other, until one fails.
pub(super) struct Script {
    /// The command line.
    pub(super) arguments: Vec<CString>,
    /// The position of the script, `arg[0]`, among the arguments.
    pub(super) position: usize,
    pub(super) pieces: VecDeque<Piece>,
    /// The script; `None` if there is none, or if it is standard input.
    pub(super) file: Option<CString>,
    /// Whether a piece has raised an error.
    pub(super) failed: bool,
}

/// A piece of Lua code. The number is the position of its first argument.
pub(super) enum Piece {
    /// Code from the command line, without arguments.
    Text(Vec<u8>),
    /// A file, or standard input.
    File(Option<CString>, usize),
    /// A built-in module.
    Embedded(&'static str, usize),
}

/// Runs a script in a new VM.
pub(super) fn run(script: Script) -> ExitCode {
    let Some(mut vm) = Vm::for_program(script) else {
        report("not enough memory for a Lua state");
        return ExitCode::FAILURE;
    };
    let set_arguments = const { Function::new(set_arguments) };
    let extend_paths = const { Function::new(extend_paths) };
    let mut prepare = PROGRAM.iter().chain([&extend_paths, &set_arguments]);
    let prepared = prepare.try_for_each(|step| vm.run(*step));
    let done = prepared.and_then(|()| {
        vm.start_collector();
        vm.run(const { Function::new(run_next) })
    });
    if let Err(message) = &done {
        report(message);
    }
    let is_done = done.is_ok() && !vm.failed;
    if vm.close().is_ok() && is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes `require` find the modules in the script's folder, and those that the system has installed.
fn extend_paths(call: &mut Call<'_>) -> Result<(), Fault> {
    let file = call.data::<Script>().and_then(|script| script.file.clone());
    search_paths::extend(call, file.as_deref())
}

/// Sets the global `arg`: the script at 0, its arguments from 1, and the arguments before it at negative indices.
const SET_ARGUMENTS: Chunk<'_> = Chunk::Text(
    b"local first, list = ..., { select(2, ...) }
      arg = {}
      for index, text in ipairs(list) do arg[index - 1 - first] = text end",
    c"=lio",
);

/// Runs `SET_ARGUMENTS`.
fn set_arguments(call: &mut Call<'_>) -> Result<Pushing<Many<Vec<u8>>>, Fault> {
    call.create(SET_ARGUMENTS)?;
    let (position, arguments) = match call.data::<Script>() {
        Some(script) => (script.position, texts(&script.arguments)),
        None => (0, Vec::new()),
    };
    call.push(position as i64)?;
    let count = arguments.len() as i32 + 1;
    let end = then(|_, _| Ok(()));
    Ok(Next::call(count, end, 0).pushing(Many(arguments)))
}

fn texts(arguments: &[CString]) -> Vec<Vec<u8>> {
    let bytes = |text: &CString| text.as_bytes().to_vec();
    arguments.iter().map(bytes).collect()
}

/// Runs the next piece, if there is one.
fn run_next(call: &mut Call<'_>) -> Result<Maybe<Pushing<Many<Vec<u8>>>>, Fault> {
    call.drop_to(0);
    let script = call.data::<Script>();
    let Some((script, piece)) = script.and_then(|script| {
        let piece = script.pieces.pop_front()?;
        Some((script, piece))
    }) else {
        return Ok(Maybe(None));
    };
    let first = match piece {
        Piece::Text(_) => script.arguments.len(),
        Piece::File(_, first) | Piece::Embedded(_, first) => first,
    };
    let arguments = texts(script.arguments.get(first..).unwrap_or_default());
    let chunk = match &piece {
        Piece::Text(text) => Chunk::Text(text, c"=(command line)"),
        Piece::File(path, _) => Chunk::File(path.as_deref()),
        Piece::Embedded(module, _) => match embedded(module.as_bytes()) {
            Some(file) => Chunk::Text(file.text, file.chunk),
            None => return Err(Fault::message("the module is not built in")),
        },
    };
    let handler = call.push(const { Function::new(add_traceback) })?;
    call.create(chunk)?;
    let run = Next::protected(arguments.len() as i32, 0, handler, then(after_piece), 0);
    Ok(Maybe(Some(run.pushing(Many(arguments)))))
}

/// Runs after a piece has returned or failed. If the piece has failed, its error message already contains a traceback.
fn after_piece(call: &mut Call<'_>, outcome: Outcome) -> Result<Maybe<Pushing<Many<Vec<u8>>>>, Fault> {
    if outcome.ok {
        return run_next(call);
    }
    let message = call.string(outcome.first).map(String::from_utf8_lossy);
    let text = message.map(|message| shorten(&message) + &service_hint(&message).unwrap_or_default());
    report(text.as_deref().unwrap_or("(error object is not a string)"));
    if let Some(script) = call.data::<Script>() {
        script.failed = true;
    }
    Ok(Maybe(None))
}

/// The result of the message handler: a message with a traceback, or the result of the error's `__tostring`.
type HandlerResult = Either<Traceback, Next<Argument>>;

static TOSTRING: RegistryName = RegistryName::new();

/// The message handler. Adds a traceback to a string, and converts an object to a string with its `__tostring`.
fn add_traceback(call: &mut Call<'_>) -> Result<HandlerResult, Fault> {
    if matches!(call.kind(1), Kind::String | Kind::Number) {
        call.bytes(1)?;
        return Ok(Either::One(Traceback { message: Some(1), level: 1 }));
    }
    call.create(Register(&TOSTRING, "__tostring"))?;
    let shows = call.metafield(1, &TOSTRING)?;
    if call.is_none(shows) {
        return describe(call);
    }
    call.push(Argument(1))?;
    let converted = |call: &mut Call<'_>, outcome: Outcome| match call.string(outcome.first) {
        Some(_) => Ok(Either::Other(Next::returns(Argument(outcome.first)))),
        None => describe(call),
    };
    Ok(Either::Other(Next::call(1, then(converted), 0)))
}

/// Returns a message with a traceback for an error value that cannot be converted to a string.
fn describe(call: &mut Call<'_>) -> Result<HandlerResult, Fault> {
    let name = call.type_name(1);
    let message = call.create(format!("(error object is a {name} value)"))?;
    Ok(Either::One(Traceback { message: Some(message), level: 1 }))
}
