//! What the calls on sockets share: the open socket that each is made on, and what it may come to.

use crate::lua::{Call, Failure, Fault, Flow, Pusher, Returns, Stack};
use crate::socket::{Moved, Socket};
use std::io;

/// The open socket at argument 1, and the values of the call.
#[inline]
pub(super) fn open<'c>(call: &'c mut Call<'_>) -> Result<(&'c mut Socket, &'c mut Stack), Fault> {
    let (socket, stack) = call.split::<Socket>(1)?;
    match socket.is_closed() {
        true => Err(Fault::message("socket is already closed")),
        false => Ok((socket, stack)),
    }
}

/// What a call that may block came to: its results, `false`, or a failure.
pub(crate) struct Reply<T>(Result<Moved<T>, Failure>);

impl<T: Returns> Returns for Reply<T> {
    fn give(self, to: Pusher<'_>) -> Flow {
        match self.0 {
            Ok(Moved::Done(results)) => results.give(to),
            Ok(Moved::WouldBlock) => false.give(to),
            Err(failure) => failure.give(to),
        }
    }
}

impl<T> Reply<T> {
    pub(crate) fn of(call: &'static str, result: io::Result<Moved<T>>) -> Reply<T> {
        Reply(result.map_err(|error| Failure::io(call, &error)))
    }
}
