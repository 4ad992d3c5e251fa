//! `lio.outlet`: writing to connections of other VMs of the process; see `socket/outlet.rs`.

use crate::lua::{Call, Either, Fault, Function, FunctionTable, Kind, Module, New, Nil, Object, failed, functions};
use crate::socket::outlet::Outlet;
use std::io::IoSlice;
use std::sync::Arc;

/// The maximum number of strings in one call. A caller with more sends them in another way.
const MAX_STRINGS: usize = 16;

/// An outlet of a connection, in another VM.
struct Handle(Arc<Outlet>);

impl Object for Handle {
    const NAME: &'static str = "lio.outlet";
    const METHODS: FunctionTable = functions! { send };
}

/// `outlet.find(number)`: returns the outlet; nil if the connection is closed.
fn find(call: &mut Call<'_>) -> Result<Option<New<Handle>>, Fault> {
    let number = call.integer_in(1, 1..=i64::MAX, "number")? as u64;
    Ok(Outlet::find(number).map(|outlet| New::of(Handle(outlet))))
}

/// `o:send(data, …)`: returns how many bytes the system has accepted, and whether these are all. Returns nil alone if
/// the connection is closed, or if the arguments are not strings that fit in one call. Returns `nil, message, code` on
/// failure.
fn send(call: &mut Call<'_>) -> Result<Either<(i64, bool), Nil>, Fault> {
    let outlet = call.object::<Handle>(1)?;
    let last = call.count();
    let is_text = |index| matches!(call.kind(index), Kind::String | Kind::Number);
    let count = (last - 1) as usize;
    if count == 0 || count > MAX_STRINGS || !(2..=last).all(is_text) {
        return Ok(Either::Other(Nil));
    }
    let mut pieces = [IoSlice::new(&[]); MAX_STRINGS];
    let mut total = 0;
    for (piece, index) in pieces.iter_mut().zip(2..=last) {
        let bytes = call.bytes(index)?;
        *piece = IoSlice::new(bytes);
        total += bytes.len();
    }
    let sent = outlet.0.send(&pieces[..count]).map_err(failed("send"))?;
    Ok(match sent {
        Some(sent) => Either::One((sent as i64, sent == total)),
        None => Either::Other(Nil),
    })
}

/// Opens `lio.outlet`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { find })));
