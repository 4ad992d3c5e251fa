//! Parts that the calls on sockets share: the open socket, and results that can be `false`.

use crate::lua::{Call, Fault, Flow, Pusher, Returns, Stack};
use crate::socket::{Attempt, Socket};

/// Returns the open socket at argument 1, and the values of the call.
#[inline]
pub(super) fn open<'c>(call: &'c mut Call<'_>) -> Result<(&'c mut Socket, &'c mut Stack), Fault> {
    let (socket, stack) = call.object_and_stack::<Socket>(1)?;
    if socket.is_closed() { Err(Fault::message("socket is already closed")) } else { Ok((socket, stack)) }
}

/// The result of a call that could block: its values, or `false` if it would block.
impl<T: Returns> Returns for Attempt<T> {
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self {
            Attempt::Done(results) => results.push_results(to),
            Attempt::WouldBlock => false.push_results(to),
        }
    }
}
