//! Files on a connection: `put_file` is what `net.sendfile` is built on, `queue_file` what the web server sends small
//! files with. The file is looked up for each call: whoever closes it meanwhile ends the transfer.

use super::connection::Connection;
use super::transfer::{Failed, Sent, Word};
use crate::file::OpenFile;
use crate::lua::{Call, Failure, Fault};
use crate::stream::queue;
use std::io;
use std::os::fd::BorrowedFd;

const CALL: &str = "sendfile";

/// What a call on stream and file came to.
enum Used<R> {
    Done(R),
    StreamIsClosed,
    Failed(Failure),
}

/// Runs `f` with the stream at argument 1 and the file at argument `index`: one of ours, or of `io.open`.
fn with_file<R>(
    call: &mut Call<'_>, index: i32, f: impl FnOnce(&mut Connection, BorrowedFd<'_>) -> io::Result<R>,
) -> Result<Used<R>, Fault> {
    let (stream, file) = if call.as_object::<OpenFile>(index).is_some() {
        let (stream, file) = call.object_pair::<Connection, OpenFile>(1, index)?;
        (stream, file.descriptor())
    } else {
        let (stream, stack) = call.object_and_stack::<Connection>(1)?;
        let Some(file) = stack.standard_file(index) else { return Err(Fault::expected(index, "file")) };
        (stream, file)
    };
    if stream.is_closed() {
        return Ok(Used::StreamIsClosed);
    }
    let Some(file) = file else {
        let failure = Failure::new(CALL, "the file is closed", "closed");
        return Ok(Used::Failed(failure));
    };
    Ok(match f(stream, file) {
        Ok(result) => Used::Done(result),
        Err(error) => Used::Failed(Failure::io(CALL, &error)),
    })
}

/// A size or offset.
fn whole(call: &Call<'_>, index: i32, most: i64, what: &str) -> Result<u64, Fault> {
    Ok(call.integer_in(index, 0..=most, what)? as u64)
}

fn shorter() -> Failure {
    Failure::new(CALL, "the file has become shorter", "truncated")
}

/// `s:put_file(sent, file, offset, length)`: sends what is queued and the bytes of the file, of which
/// `sent` are gone already. `true` when all is taken by the system; the new `sent` when it would block, or
/// when others have to get their turn, the stream being armed; `nil, message, sent, code` on failure.
pub(super) fn put_file(call: &mut Call<'_>) -> Result<Sent, Fault> {
    call.object::<Connection>(1)?;
    let mut sent = whole(call, 2, i64::MAX, "sent")?;
    let offset = whole(call, 4, i64::MAX, "offset")?;
    let length = whole(call, 5, i64::MAX, "length")?;
    let used = with_file(call, 3, |stream, file| stream.send_file(file, offset, length, &mut sent))?;
    let part = sent as i64;
    Ok(match used {
        Used::Done(queue::Sent::All) => Sent::Done(true),
        Used::Done(queue::Sent::Blocked | queue::Sent::Turn) => Sent::Part(part),
        Used::Done(queue::Sent::Short) => Sent::Failed(Failed::by(shorter(), part)),
        Used::StreamIsClosed => Sent::Failed(Failed::word(Word::Closed, part)),
        Used::Failed(failure) => Sent::Failed(Failed::by(failure, part)),
    })
}

/// `s:queue_file(file, offset, length)`: reads so many bytes (64 MiB at most) of the file behind what is
/// queued. `true`, or `nil, message, code`; then nothing is queued.
pub(super) fn queue_file(call: &mut Call<'_>) -> Result<bool, Fault> {
    call.object::<Connection>(1)?;
    let offset = whole(call, 3, i64::MAX, "offset")?;
    let length = whole(call, 4, 1 << 26, "length")? as usize;
    let used = with_file(call, 2, |stream, file| stream.queue_file(file, offset, length))?;
    Err(match used {
        Used::Done(true) => return Ok(true),
        Used::Done(false) => shorter().into(),
        Used::StreamIsClosed => Failure::new(CALL, "closed", "closed").into(),
        Used::Failed(failure) => failure.into(),
    })
}
