//! Runs Lua code in a VM of its own, as the executable does. Called by `main`.
//!
//! Whatever goes wrong in Lua is reported on standard error, with a traceback, and is a `false`.

use crate::lua::{
    Argument, Call, Chunk, Fault, Function, Keep, Kept, Kind, Many, Next, OPEN_LIBRARIES, Outcome,
    Pushing, Traceback, Vm, results, then,
};
use crate::raw::embed;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io::Write;

/// What is to be run, one after the other, until one fails.
pub struct Script {
    /// The command line.
    pub arguments: Vec<CString>,
    /// Which of them is the script, `arg[0]`.
    pub position: usize,
    /// What is run.
    pub pieces: VecDeque<Piece>,
}

/// A piece of Lua code.
pub enum Piece {
    /// Text of the command line.
    Text(Vec<u8>),
    /// A file, or standard input; the arguments from a number on are its own.
    File(Option<CString>, usize),
    /// A module that is built in, with its arguments.
    Embedded(&'static CStr, usize),
}

/// Runs a script in a new VM. → whether all went well; an error was reported.
pub fn run(script: Script) -> bool {
    let Some(mut vm) = Vm::for_program(script) else {
        report("not enough memory for a Lua state");
        return false;
    };
    let prepare = [
        OPEN_LIBRARIES,
        crate::private::INSTALL,
        const { Function::new(set_arguments) },
    ];
    let prepared = prepare.into_iter().try_for_each(|step| vm.run(step));
    let done = prepared.and_then(|()| {
        vm.start_collector();
        vm.run(const { Function::new(run_next) })
    });
    let is_done = done.is_ok() && vm.pieces.is_empty();
    if let Err(message) = done {
        report(&message);
    }
    vm.close().is_ok() && is_done
}

fn report(message: &str) {
    // A failure has no caller to go to any more.
    let _ = writeln!(std::io::stderr(), "lio: {message}");
}

/// The global `arg`: the script at 0, its arguments from 1, what stands before it at negative indices.
const SET_ARGUMENTS: Chunk<'_> = Chunk::Text(
    b"local first, list = ..., { select(2, ...) }
      arg = {}
      for index, text in ipairs(list) do arg[index - 1 - first] = text end",
    c"=lio",
);

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

results! {
    enum Running {
        Piece(Pushing<Many<Vec<u8>>>),
        Done(()),
    }
}

/// Runs the first of the pieces that are left.
fn run_next(call: &mut Call<'_>) -> Result<Running, Fault> {
    call.drop_to(0);
    let Some(script) = call.data::<Script>() else {
        return Ok(Running::Done(()));
    };
    let Some(piece) = script.pieces.front() else {
        return Ok(Running::Done(()));
    };
    let (path, text, first);
    let chunk = match piece {
        Piece::Text(bytes) => {
            text = bytes.clone();
            first = script.arguments.len();
            Chunk::Text(&text, c"=(command line)")
        }
        Piece::File(name, number) => {
            path = name.clone();
            first = *number;
            Chunk::File(path.as_deref())
        }
        Piece::Embedded(module, number) => {
            let found = embed::text(module.to_bytes());
            let (source, name) =
                found.ok_or_else(|| Fault::message("the module is not built in"))?;
            path = CString::new(name).ok();
            first = *number;
            Chunk::Text(source, path.as_deref().unwrap_or(c"=lio"))
        }
    };
    let own = script.arguments.get(first..).unwrap_or_default();
    let arguments = Many(texts(own));
    let handler = call.push(const { Function::new(add_traceback) })?;
    call.create(chunk)?;
    let count = arguments.0.len() as i32;
    let run = Next::protected(count, 0, handler, then(ran), 0);
    Ok(Running::Piece(run.pushing(arguments)))
}

/// A piece has run, or raised an error with a traceback.
fn ran(call: &mut Call<'_>, outcome: Outcome) -> Result<Running, Fault> {
    if !outcome.ok {
        let message = call.string(outcome.first);
        let message = message.unwrap_or(b"(error object is not a string)");
        report(&String::from_utf8_lossy(message));
        return Ok(Running::Done(()));
    }
    if let Some(script) = call.data::<Script>() {
        script.pieces.pop_front();
    }
    run_next(call)
}

results! {
    enum Shown {
        Text(Traceback),
        Ask(Next),
        Itself(Argument),
    }
}

static TOSTRING: Kept = Kept::new();

/// Message handler: text gets a traceback, an object with `__tostring` speaks for itself.
fn add_traceback(call: &mut Call<'_>) -> Result<Shown, Fault> {
    if matches!(call.kind(1), Kind::String | Kind::Number) {
        call.bytes(1)?;
        return Ok(Shown::Text(Traceback {
            message: 1,
            level: 1,
        }));
    }
    call.create(Keep(&TOSTRING, "__tostring"))?;
    let shows = call.metafield(1, &TOSTRING)?;
    if call.is_none(shows) {
        return describe(call);
    }
    call.push(Argument(1))?;
    let shown = |call: &mut Call<'_>, outcome: Outcome| match call.string(outcome.first) {
        Some(_) => Ok(Shown::Itself(Argument(outcome.first))),
        None => describe(call),
    };
    Ok(Shown::Ask(Next::call(1, then(shown), 0)))
}

/// An error value that cannot be shown.
fn describe(call: &mut Call<'_>) -> Result<Shown, Fault> {
    let name = call.type_name(1);
    let message = call.create(format!("(error object is a {name} value)"))?;
    Ok(Shown::Text(Traceback { message, level: 1 }))
}
