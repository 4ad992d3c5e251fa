//! `lio.outlet`: connections of other VMs of the process, to write to; see `socket/outlet.rs`.

use crate::lua::{Call, Fault, Function, Kind, Module, New, Nil, Object, failed, results};
use crate::socket::outlet::Outlet;
use std::ffi::CStr;
use std::io::IoSlice;
use std::sync::Arc;

/// So many strings go out in one call; who has more sends them otherwise.
const PIECES: usize = 16;

/// An outlet as another VM has it.
struct Handle(Arc<Outlet>);

impl Object for Handle {
    const NAME: &'static CStr = c"lio.outlet";
    const METHODS: &'static [(&'static CStr, Function)] = &[(c"send", Function::new(send))];
}

/// `outlet.find(number)` → the outlet; nil when the connection is gone.
fn find(call: &mut Call<'_>) -> Result<Option<New<Handle>>, Fault> {
    let number = call.integer_in(1, 1..=i64::MAX, "number")? as u64;
    Ok(Outlet::find(number).map(|outlet| New::of(Handle(outlet))))
}

results! {
    enum Sent {
        Bytes((i64, bool)),
        Gone(Nil),
    }
}

/// `o:send(data, …)` → how many bytes the system took, and whether these are all; nil alone when the
/// connection is gone, or these are not strings that go out at once; `nil, message, code` on failure.
fn send(call: &mut Call<'_>) -> Result<Sent, Fault> {
    let outlet = call.object::<Handle>(1)?;
    let last = call.count();
    let is_text = |index| matches!(call.kind(index), Kind::String | Kind::Number);
    let count = (last - 1) as usize;
    if count == 0 || count > PIECES || !(2..=last).all(is_text) {
        return Ok(Sent::Gone(Nil));
    }
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let mut total = 0;
    for (piece, index) in pieces.iter_mut().zip(2..=last) {
        let bytes = call.bytes(index)?;
        *piece = IoSlice::new(bytes);
        total += bytes.len();
    }
    let sent = outlet.0.send(&pieces[..count]).map_err(failed("send"))?;
    Ok(match sent {
        Some(sent) => Sent::Bytes((sent as i64, sent == total)),
        None => Sent::Gone(Nil),
    })
}

const FUNCTIONS: &[(&CStr, Function)] = &[(c"find", Function::new(find))];

/// Opens `lio.outlet`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));
