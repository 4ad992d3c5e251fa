//! What the calls on sockets share: the open socket that each is made on, and what it may come to.

use crate::lua::{Call, Fault, Flow, Pusher, Returns, Stack};
use crate::socket::{Attempt, Socket};

/// The open socket at argument 1, and the values of the call.
#[inline]
pub(super) fn open<'c>(call: &'c mut Call<'_>) -> Result<(&'c mut Socket, &'c mut Stack), Fault> {
    let (socket, stack) = call.split::<Socket>(1)?;
    if socket.is_closed() { Err(Fault::message("socket is already closed")) } else { Ok((socket, stack)) }
}

/// What a call that may block came to: its results, or `false`.
impl<T: Returns> Returns for Attempt<T> {
    fn give(self, to: Pusher<'_>) -> Flow {
        match self {
            Attempt::Done(results) => results.give(to),
            Attempt::WouldBlock => false.give(to),
        }
    }
}
