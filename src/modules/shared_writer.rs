//! `lio.shared_writer`: writes to connections of other VMs in the process; see `socket/shared_writer.rs`.

use crate::lua::{Call, Either, Fault, Function, FunctionTable, Kind, Module, New, Nil, Object, failed, functions};
use crate::socket::shared_writer::SharedWriter;
use std::io::IoSlice;
use std::sync::Arc;

/// The maximum number of strings in one call. A caller with more strings must send them in another way.
const MAX_STRINGS: usize = 16;

/// A shared writer of a connection that belongs to another VM.
struct WriterObject(Arc<SharedWriter>);

impl Object for WriterObject {
    const NAME: &'static str = "lio.shared_writer";
    const METHODS: FunctionTable = functions! { send };
}

/// `shared_writer.find(number)`: returns the writer with this number; nil if the connection is closed.
fn find(call: &mut Call<'_>) -> Result<Option<New<WriterObject>>, Fault> {
    let number = call.integer_in(1, 1..=i64::MAX, "number")? as u64;
    Ok(SharedWriter::find(number).map(|writer| New::of(WriterObject(writer))))
}

/// `o:send(data, …)`: returns the number of bytes that the system has accepted, and whether it has accepted all bytes.
/// Returns nil alone if the connection is closed, or if the arguments are not strings that fit in one call. Returns
/// `nil, message, code` on failure.
fn send(call: &mut Call<'_>) -> Result<Either<(i64, bool), Nil>, Fault> {
    let writer = call.object::<WriterObject>(1)?;
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
    let sent = writer.0.send(&pieces[..count]).map_err(failed("send"))?;
    Ok(match sent {
        Some(sent) => Either::One((sent as i64, sent == total)),
        None => Either::Other(Nil),
    })
}

/// Opens `lio.shared_writer`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { find })));
