//! `lio.watch`, and `lio.supervisor`, which `lio.net` calls when it listens: the functions with which a program uses
//! the supervisor of `lio --watch`.

use crate::file::supervisor_link;
use crate::lua::library::compiled;
use crate::lua::{
    Call, Chunk, Either, Failure, Fault, Function, FunctionTable, Maybe, Module, New, Next, functions, then,
};
use crate::socket::{Socket, Table};
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a program waits before it tries again to bind an address that is about to become free.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// `lio.watch(path)`: returns whether `lio --watch` runs this program. If so, the program restarts when the file `path`
/// changes, appears or is replaced. Used for files that are not Lua code, such as templates.
pub(super) const WATCH: Function = Function::new(|call: &mut Call<'_>| {
    let path = call.bytes(1)?;
    if path.is_empty() {
        return Err(Fault::argument(1, "path expected, got an empty string"));
    }
    supervisor_link::report_load(path);
    Ok(supervisor_link::is_watched())
});

/// `report_missing(path)`: reports that `require` has searched for a module in the file `path`, which does not exist.
const REPORT_MISSING: Function =
    Function::new(|call: &mut Call<'_>| Ok(supervisor_link::report_missing(call.bytes(1)?)));

/// Makes `require`, `loadfile` and `dofile` of a watched VM report the files that they load.
pub(super) const INSTALL: Function = Function::new(|_: &mut Call<'_>| {
    let code = supervisor_link::is_watched().then(|| compiled("lio.watch_hooks"));
    let run = Next::call(2, then(|_, _| Ok(())), 0);
    Ok(Maybe(code.flatten().map(|text| run.pushing((Chunk::Text(text, c"=lio"), WATCH, REPORT_MISSING)))))
});

/// `supervisor.request_socket(key)`: returns the `lio.socket` that the previous program used under this key, or nil.
fn request_socket(call: &mut Call<'_>) -> Result<Option<New<Socket>>, Fault> {
    let table = call.shared::<Table>()?;
    let found = supervisor_link::request_socket(call.bytes(1)?);
    let socket = found.and_then(|found| Socket::from_own(found, &table).ok());
    Ok(socket.map(New::of))
}

/// `supervisor.report_socket(key, socket)`: asks the supervisor to keep the socket open for the next program.
fn report_socket(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.bytes(1)?;
    let source = call.object::<Socket>(2)?.source();
    let source = source.ok_or_else(|| Failure::new("report_socket", "closed", "closed"))?;
    Ok(supervisor_link::report_socket(key, source.as_fd()))
}

/// `supervisor.report_closed(key)`: reports that the socket with this key was closed.
fn report_closed(call: &mut Call<'_>) -> Result<(), Fault> {
    Ok(supervisor_link::report_closed(call.bytes(1)?))
}

/// `supervisor.may_become_free(key)`: returns whether the caller should try again to bind the address, because the
/// previous program is using it and is about to be stopped. If so, blocks briefly.
fn may_become_free(call: &mut Call<'_>) -> Result<bool, Fault> {
    let again = supervisor_link::may_become_free(call.bytes(1)?);
    if again {
        std::thread::sleep(RETRY_INTERVAL);
    }
    Ok(again)
}

/// `supervisor.is_replaced()`: returns whether another process has replaced this process. If so, this process need not
/// end quickly.
fn is_replaced(_: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(supervisor_link::is_replaced())
}

const FUNCTIONS: FunctionTable =
    functions! { request_socket, report_socket, report_closed, may_become_free, is_replaced };

/// Opens `lio.supervisor`: a table of functions, or false if the program is not watched.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    Ok(if supervisor_link::is_watched() { Either::One(Module(FUNCTIONS)) } else { Either::Other(false) })
});
