//! The functions of `http.request` that read the body, or prepare a wait. No function waits: a call that would block
//! returns `false`, with the connection armed.

use super::fields::last_value_table;
use super::limit::{NO_LIMIT, limit};
use super::machine::ServerObject;
use super::request::{BODY as STORED_BODY, Request, SERVER, number, served};
use crate::codec::http1::reject::Reject;
use crate::codec::http1::stored_section;
use crate::http::server::{BodyRead, HandlerEffect, Interest, ReadMode, RequestId};
use crate::lua::{Argument, BytesOf, Call, Fault, Function, Kind, Nil, StoredInField, results};
use std::io;

results! {
    /// The result of a read.
    enum Reply {
        /// The body, which the request already stores.
        Known(Argument),
        /// The whole body, which the request stores from now on.
        ToStore(StoredInField<BytesOf<ServerObject>, Request>),
        Data(BytesOf<ServerObject>),
        Pending(bool),
        End(Nil),
        Refused((Nil, i64, &'static str)),
    }
}

/// Reads the body of a request into the memory of the server at `index`.
fn read(call: &mut Call<'_>, index: i32, id: RequestId, limit: u64, mode: ReadMode) -> Result<Reply, Fault> {
    let handle = call.object_mut::<ServerObject>(index)?;
    let mut server = handle.machine.server.borrow_mut();
    let read = server.read_body(id, limit, mode, &mut handle.body);
    // Lua code has to complete the request after a wait or a refusal.
    if mode == ReadMode::Piece || !matches!(read, BodyRead::Data) {
        server.record_effect(id, HandlerEffect::NeedsLua);
    }
    Ok(match read {
        BodyRead::Data => Reply::Data(BytesOf::at(index)),
        // A request that has ended has no body left.
        BodyRead::Late if mode == ReadMode::Whole => Reply::Data(BytesOf::at(index)),
        BodyRead::End | BodyRead::Late => Reply::End(Nil),
        BodyRead::Pending => Reply::Pending(false),
        BodyRead::Truncated => Reply::Refused((Nil, 400, "closed")),
        BodyRead::Refused(reject) => refused(reject),
        BodyRead::Failed(kind) => refused(failure(kind)),
    })
}

fn refused(reject: Reject) -> Reply {
    Reply::Refused((Nil, reject.status.into(), reject.reason))
}

/// Returns the status and the reason for a failed read; the reason is in the words of `lio.net`. If neither the client
/// nor the network has caused the failure, for example because the system has no memory, the status is 503.
pub(super) fn failure(kind: io::ErrorKind) -> Reject {
    use io::ErrorKind::*;
    match kind {
        ConnectionReset => Reject::bad("reset"),
        BrokenPipe | NotConnected => Reject::bad("closed"),
        TimedOut => Reject::bad("timeout"),
        // Invalid data: a malformed record of TLS.
        ConnectionAborted | HostUnreachable | NetworkUnreachable | UnexpectedEof | InvalidData => Reject::bad("failed"),
        _ => Reject::new(503, "failed"),
    }
}

/// `http.body_of(req [, limit])`: returns the body as one string, which the request stores and returns again; `false`
/// if it would block; `nil, status, reason` if the body exceeds the limit (by default the app's), is malformed, or
/// ends early.
pub(crate) const BODY_OF: Function = Function::new(|call: &mut Call<'_>| {
    let id = number(call, 1)?;
    let known = call.field(1, STORED_BODY)?;
    if call.kind(known) == Kind::String {
        return Ok(Reply::Known(Argument(known)));
    }
    let server = call.field(1, SERVER)?;
    let usual = call.object::<ServerObject>(server)?.machine.body_limit;
    let limit = limit(call, 2, usual)?;
    Ok(match read(call, server, id, limit, ReadMode::Whole)? {
        Reply::Data(value) => Reply::ToStore(StoredInField { value, object: 1, field: STORED_BODY }),
        reply => reply,
    })
});

/// `request.piece(req, limit)`: returns the next piece of the body, nil at its end; otherwise returns the same as
/// `http.body_of`.
pub(super) const PIECE: Function = Function::new(|call: &mut Call<'_>| {
    let id = number(call, 1)?;
    let limit = limit(call, 2, NO_LIMIT)?;
    let server = call.field(1, SERVER)?;
    read(call, server, id, limit, ReadMode::Piece)
});

/// `request.trailers(req)`: returns the trailer section (RFC 9112 section 7.1.2) of a chunked body, after the body has
/// been read: a table that maps lower-case names to values; if a field is repeated, the last value is used.
pub(super) const TRAILERS: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let mut server = machine.server.borrow_mut();
    let section = server.trailers(id);
    Ok(last_value_table(stored_section::fields(section)))
});

/// `request.wait(req, what)`: prepares a task of the request's handler to wait until data has arrived (`"read"`), until
/// more data can be sent (`"write"`), or until the peer closes (`"end"`). Returns true if the task will be resumed;
/// false if the connection has failed.
pub(super) const WAIT: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let what = interest(call)?;
    Ok(machine.server.borrow_mut().wait(id, what, machine.clock()))
});

/// `request.end_wait(req, what)`: ends the wait for `what`, because the tasks that waited were killed.
pub(super) const END_WAIT: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let what = interest(call)?;
    machine.server.borrow_mut().end_wait(id, what, machine.clock());
    Ok(())
});

/// Returns the event that is called by its name in argument 2.
fn interest(call: &Call<'_>) -> Result<Interest, Fault> {
    match call.bytes(2)? {
        b"read" => Ok(Interest::Read),
        b"write" => Ok(Interest::Write),
        b"end" => Ok(Interest::End),
        _ => Err(Fault::argument(2, "\"read\", \"write\" or \"end\" expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status and the reason for a read that has failed with an error of the system.
    fn failure_of(number: i32) -> (u16, &'static str) {
        let reject = failure(io::Error::from_raw_os_error(number).kind());
        (reject.status, reject.reason)
    }

    #[test]
    fn the_client_is_not_blamed_for_errors_of_the_server() {
        for number in [libc::ENOMEM, libc::ENOBUFS, libc::EIO, libc::EBADF] {
            assert_eq!(failure_of(number), (503, "failed"));
        }
    }

    #[test]
    fn errors_of_the_connection_are_bad_requests() {
        assert_eq!(failure_of(libc::ECONNRESET), (400, "reset"));
        assert_eq!(failure_of(libc::EPIPE), (400, "closed"));
        assert_eq!(failure_of(libc::ENOTCONN), (400, "closed"));
        assert_eq!(failure_of(libc::ETIMEDOUT), (400, "timeout"));
        assert_eq!(failure_of(libc::EHOSTUNREACH), (400, "failed"));
        let malformed = failure(io::ErrorKind::InvalidData);
        assert_eq!((malformed.status, malformed.reason), (400, "failed"));
    }
}
