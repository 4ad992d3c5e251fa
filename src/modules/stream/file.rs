//! Files on a connection: `try_sendfile`, for `net.sendfile`. Each call gets the file from its arguments again, so
//! closing the file between two calls ends the transfer.

use super::connection::Connection;
use super::failure::{Code, Failed};
use super::send::SendReply;
use super::tls::failure_of;
use crate::file::OpenFile;
use crate::lua::{Call, Failure, Fault};
use crate::stream::queue;
use std::io;
use std::os::fd::BorrowedFd;

const CALL: &str = "sendfile";

/// The result of a call with a stream and a file.
enum FileCall<R> {
    Done(R),
    StreamIsClosed,
    Failed(Failure),
}

/// `s:try_sendfile(sent, file, offset, length)`: sends the queue and the bytes of the file, of which `sent` bytes were
/// sent before. Returns `true` if the system has accepted everything; the new `sent` if it would block or other tasks
/// must run first, with the stream armed; or `nil, message, sent, code`.
pub(super) fn try_sendfile(call: &mut Call<'_>) -> Result<SendReply, Fault> {
    call.object::<Connection>(1)?;
    let mut sent = integer(call, 2, i64::MAX, "sent")?;
    let offset = integer(call, 4, i64::MAX, "offset")?;
    let length = integer(call, 5, i64::MAX, "length")?;
    let result = with_file(call, 3, |stream, file| stream.send_file(file, offset, length, &mut sent))?;
    let part = sent as i64;
    Ok(match result {
        FileCall::Done(queue::Sent::All) => SendReply::Done(true),
        FileCall::Done(queue::Sent::Blocked | queue::Sent::BudgetSpent) => SendReply::Part(part),
        FileCall::Done(queue::Sent::FileTooShort) => SendReply::Failed(Failed::system(truncated(), part)),
        FileCall::StreamIsClosed => SendReply::Failed(Failed::code(Code::Closed, part)),
        FileCall::Failed(failure) => SendReply::Failed(Failed::system(failure, part)),
    })
}

/// Calls `f` with the stream at argument 1 and the file at argument `index`, which this library or `io.open` opened.
fn with_file<R>(
    call: &mut Call<'_>, index: i32, f: impl FnOnce(&mut Connection, BorrowedFd<'_>) -> io::Result<R>,
) -> Result<FileCall<R>, Fault> {
    let (stream, file) = if call.as_object::<OpenFile>(index).is_some() {
        let (stream, file) = call.object_pair::<Connection, OpenFile>(1, index)?;
        (stream, file.descriptor())
    } else {
        let (stream, stack) = call.object_and_stack::<Connection>(1)?;
        let Some(file) = stack.standard_file(index) else { return Err(Fault::expected(index, "file")) };
        (stream, file)
    };
    if stream.is_closed() {
        return Ok(FileCall::StreamIsClosed);
    }
    let Some(file) = file else {
        let failure = Failure::new(CALL, "the file is closed", "closed");
        return Ok(FileCall::Failed(failure));
    };
    Ok(match f(stream, file) {
        Ok(result) => FileCall::Done(result),
        Err(error) => FileCall::Failed(failure_of(CALL, &error)),
    })
}

/// Reads a size or an offset.
fn integer(call: &Call<'_>, index: i32, most: i64, what: &str) -> Result<u64, Fault> {
    Ok(call.integer_in(index, 0..=most, what)? as u64)
}

fn truncated() -> Failure {
    Failure::new(CALL, "the file has become shorter", "truncated")
}
