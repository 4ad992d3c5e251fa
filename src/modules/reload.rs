//! `lio.watch`, and `lio.watched`, which `lio.net` calls when it listens: what a program has of `lio --watch`.

use crate::file::reload;
use crate::lua::library::compiled;
use crate::lua::{
    Call, Chunk, Either, Failure, Fault, Function, FunctionTable, Maybe, Module, New, Next, functions, then,
};
use crate::socket::{Socket, Table};
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a program rests before it tries again to bind an address that is becoming free.
const REST: Duration = Duration::from_millis(10);

/// `lio.watch(path)` → whether `lio --watch` runs this program; then it restarts when that file changes, appears or is
/// replaced. For files that are not Lua code, such as templates.
pub(super) const WATCH: Function = Function::new(|call: &mut Call<'_>| {
    let path = call.bytes(1)?;
    if path.is_empty() {
        return Err(Fault::argument(1, "path expected, got an empty string"));
    }
    reload::report_load(path);
    Ok(reload::is_watched())
});

/// `misses(path)`: `require` has looked for a module in this file, and it is not there.
const MISSES: Function = Function::new(|call: &mut Call<'_>| Ok(reload::report_missing(call.bytes(1)?)));

/// Makes `require`, `loadfile` and `dofile` of a watched VM report what they load.
pub(super) const INSTALL: Function = Function::new(|_: &mut Call<'_>| {
    let code = reload::is_watched().then(|| compiled("lio.watch_hooks"));
    let run = Next::call(2, then(|_, _| Ok(())), 0);
    Ok(Maybe(code.flatten().map(|text| run.pushing((Chunk::Text(text, c"=lio"), WATCH, MISSES)))))
});

/// `watched.wants(key)` → a `lio.socket` that the program before this one has used by this key, or nil.
fn wants(call: &mut Call<'_>) -> Result<Option<New<Socket>>, Fault> {
    let table = call.shared::<Table>()?;
    let found = reload::request_socket(call.bytes(1)?);
    let socket = found.and_then(|found| Socket::from_own(found, &table).ok());
    Ok(socket.map(New::of))
}

/// `watched.made(key, socket)`: the supervisor keeps it open for the program after this one.
fn made(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.bytes(1)?;
    let source = call.object::<Socket>(2)?.source();
    let source = source.ok_or_else(|| Failure::word("made", "closed", "closed"))?;
    Ok(reload::report_socket(key, source.as_fd()))
}

/// `watched.closed(key)`: a socket of this key was closed.
fn closed(call: &mut Call<'_>) -> Result<(), Fault> {
    Ok(reload::report_closed(call.bytes(1)?))
}

/// `watched.is_taken(key)` → whether to try again: the program before this one has the address, and is made to leave it.
/// Blocks for a moment.
fn is_taken(call: &mut Call<'_>) -> Result<bool, Fault> {
    let again = reload::may_become_free(call.bytes(1)?);
    if again {
        std::thread::sleep(REST);
    }
    Ok(again)
}

/// `watched.is_replaced()` → whether another process has taken this one's place: there is time to end.
fn is_replaced(_: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(reload::is_replaced())
}

const FUNCTIONS: FunctionTable = functions! { wants, made, closed, is_taken, is_replaced };

/// Opens `lio.watched`: a table of functions, or false when nobody watches.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    Ok(if reload::is_watched() { Either::One(Module(FUNCTIONS)) } else { Either::Other(false) })
});
