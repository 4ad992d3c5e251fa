//! Sending and receiving: methods of `lio.socket` objects, which `methods.rs` lists.

use super::endpoint::{self, Endpoint};
use super::reply::open;
use crate::lua::{Call, Fault, New, Nil, SCRATCH_SIZE, ScratchBytes, Stack, failed, results, scratch};
use crate::socket::Attempt;
use socket2::SockAddr;
use std::io::{self, IoSlice};

/// The default maximum size of one `recv`, in bytes.
const CHUNK: usize = 16 * 1024;
/// The largest size that one `recv` can return, in bytes.
const MOST: usize = 1024 * 1024;
/// The maximum number of strings in one `sendv`.
const PIECES: usize = 64;

fn size(stack: &Stack, default: usize) -> Result<usize, Fault> {
    let size = stack.optional(2, |stack, at| stack.integer_in(at, 0..=i64::MAX, "size"))?;
    Ok(size.map_or(default, |size| size as usize).min(MOST))
}

results! {
    /// The result of receiving.
    pub(super) enum Received {
        Bytes(ScratchBytes),
        /// The received bytes, if the requested size exceeds the thread's receive buffer.
        Long(Vec<u8>),
        /// The end of the stream.
        End(Nil),
        Empty(&'static str),
        From((ScratchBytes, Option<New<Endpoint>>)),
        LongFrom((Vec<u8>, Option<New<Endpoint>>)),
    }
}

/// Calls `receive` with a buffer of `size` bytes: the thread's receive buffer, or a vector if that buffer is too small.
/// Returns the result of `receive`, and the vector, if any.
fn into<T>(
    size: usize, receive: impl FnOnce(&mut [u8]) -> io::Result<Attempt<T>>,
) -> (io::Result<Attempt<T>>, Option<Vec<u8>>) {
    if size <= SCRATCH_SIZE {
        return (scratch(size, receive), None);
    }
    let mut long = vec![0; size];
    (receive(&mut long), Some(long))
}

/// `s:recv([max])`: returns 1 to `max` received bytes (by default 16 KiB, never more than 1 MiB); `false` if it would
/// block; `nil` at the end of the stream; `nil, message, code` on failure. `recv(0)` returns `""`.
pub(super) fn recv(call: &mut Call<'_>) -> Result<Attempt<Received>, Fault> {
    let (socket, stack) = open(call)?;
    let size = size(stack, CHUNK)?;
    if size == 0 {
        return Ok(Attempt::Done(Received::Empty("")));
    }
    let is_stream = socket.protocol().is_stream();
    let (moved, long) = into(size, |room| socket.receive_into(room));
    Ok(moved.map_err(failed("recv"))?.map(|count| match long {
        _ if is_stream && count == 0 => Received::End(Nil),
        None => Received::Bytes(ScratchBytes(count)),
        Some(long) => Received::Long(cut(long, count)),
    }))
}

fn cut(mut bytes: Vec<u8>, count: usize) -> Vec<u8> {
    bytes.truncate(count);
    bytes
}

/// `s:recvfrom([max = 65535])`: returns the data and the sender's endpoint; `false` if it would block. A longer
/// datagram is truncated. For a stream, no endpoint is returned, and the result is `nil` at the end of the stream.
pub(super) fn recvfrom(call: &mut Call<'_>) -> Result<Attempt<Received>, Fault> {
    let (socket, stack) = open(call)?;
    let size = size(stack, 65535)?;
    let is_stream = socket.protocol().is_stream();
    let (moved, long) = into(size, |room| socket.receive_from(room));
    let sender = |address: Option<SockAddr>| {
        let address = address.filter(|_| !is_stream);
        address.map(|address| New::of(Endpoint(address)))
    };
    let moved = moved.map_err(failed("recvfrom"))?;
    Ok(moved.map(|(count, from)| match long {
        _ if is_stream && count == 0 && size != 0 => Received::End(Nil),
        None => Received::From((ScratchBytes(count), sender(from))),
        Some(long) => Received::LongFrom((cut(long, count), sender(from))),
    }))
}

/// Returns the part of `data` that arguments 3 and 4 select, as `string.sub` does.
fn part<'d>(stack: &Stack, data: &'d [u8]) -> Result<&'d [u8], Fault> {
    let length = data.len() as i64;
    let position = |index| stack.optional(index, Stack::integer);
    let from = match position(3)?.unwrap_or(1) {
        from @ ..0 => (length + from + 1).max(1),
        from => from.max(1),
    };
    let to = match position(4)?.unwrap_or(-1) {
        to @ ..0 => length + to + 1,
        to => to.min(length),
    };
    Ok(if from <= to { &data[from as usize - 1..to as usize] } else { &[] })
}

/// Converts the result of a send to the number of accepted bytes.
fn taken(call: &'static str, moved: io::Result<Attempt<usize>>) -> Result<Attempt<i64>, Fault> {
    Ok(moved.map_err(failed(call))?.map(|count| count as i64))
}

/// `s:send(data [, from [, to]])`: returns the number of accepted bytes, which may be fewer than were passed; `false`
/// if it would block. An empty string is sent as well, so the call fails whenever sending data would fail, for example
/// after `shutdown "w"`.
pub(super) fn send(call: &mut Call<'_>) -> Result<Attempt<i64>, Fault> {
    let (socket, stack) = open(call)?;
    let data = part(stack, stack.bytes(2)?)?;
    taken("send", socket.send(data))
}

/// `s:sendv(data, …)`: sends the strings in one system call: all of them, or the first 64 that are not empty. Returns
/// the total number of accepted bytes; `false` if it would block.
pub(super) fn sendv(call: &mut Call<'_>) -> Result<Attempt<i64>, Fault> {
    let (socket, stack) = open(call)?;
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let mut used = 0;
    for index in 2..=stack.count() {
        let data = stack.bytes(index)?;
        if used < PIECES && !data.is_empty() {
            pieces[used] = IoSlice::new(data);
            used += 1;
        }
    }
    let moved = match used {
        0 => Ok(Attempt::Done(0)),
        _ => socket.send_pieces(&pieces[..used]),
    };
    taken("sendv", moved)
}

/// `s:sendto(data, endpoint)` or `(data, host, port)`: returns the number of accepted bytes; `false` if it would block.
pub(super) fn sendto(call: &mut Call<'_>) -> Result<Attempt<i64>, Fault> {
    open(call)?.1.bytes(2)?;
    let address = endpoint::argument(call, 3)?;
    let (socket, stack) = open(call)?;
    let data = stack.bytes(2)?;
    taken("sendto", socket.send_to(data, &address))
}
